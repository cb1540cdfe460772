//! Durations for people (C-11).

use std::time::Duration;

/// Writes a duration with at most two units: `850ms`, `1.2s`, `12s`, `3m4s`, `2h5m`, `2d`.
pub(crate) fn compact(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3600..86_400 => two(seconds / 3600, 'h', seconds % 3600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3600, 'h'),
    }
}

fn two(large: u64, unit: char, small: u64, small_unit: char) -> String {
    if small == 0 {
        format!("{large}{unit}")
    } else {
        format!("{large}{unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_11_durations_are_compact() {
        for (millis, want) in [
            (0, "0ms"),
            (850, "850ms"),
            (1_250, "1.2s"),
            (12_900, "12s"),
            (60_000, "1m"),
            (184_000, "3m4s"),
            (7_500_000, "2h5m"),
            (172_800_000, "2d"),
            (180_000_000, "2d2h"),
        ] {
            assert_eq!(compact(Duration::from_millis(millis)), want);
        }
    }
}
