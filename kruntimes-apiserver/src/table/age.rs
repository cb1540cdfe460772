//! How long ago something was, in the two largest units that people care about.

use jiff::Timestamp;
use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Says how long before `now` a moment was, as `kubectl` users read ages: `90s`, `5m30s`, `3h`, `2d4h`, `400d`.
///
/// A moment up to a second ahead counts as now; one further ahead is `<invalid>`.
pub(super) fn since(moment: Timestamp, now: Timestamp) -> String {
    let passed = now.as_millisecond() - moment.as_millisecond();
    if passed < -1000 {
        return "<invalid>".to_owned();
    }
    let seconds = (passed / 1000).max(0);
    if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if seconds < 10 * MINUTE {
        pair(seconds, (MINUTE, "m"), (1, "s"))
    } else if seconds < 3 * HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < 8 * HOUR {
        pair(seconds, (HOUR, "h"), (MINUTE, "m"))
    } else if seconds < 2 * DAY {
        format!("{}h", seconds / HOUR)
    } else if seconds < 8 * DAY {
        pair(seconds, (DAY, "d"), (HOUR, "h"))
    } else if seconds < 2 * YEAR {
        format!("{}d", seconds / DAY)
    } else if seconds < 8 * YEAR {
        pair(seconds, (YEAR, "y"), (DAY, "d"))
    } else {
        format!("{}y", seconds / YEAR)
    }
}

/// Writes a span in two units; the smaller one is left out when there is nothing of it.
fn pair(seconds: i64, large: (i64, &str), small: (i64, &str)) -> String {
    let first = format!("{}{}", seconds / large.0, large.1);
    match seconds % large.0 / small.0 {
        0 => first,
        rest => format!("{first}{rest}{}", small.1),
    }
}

/// Says how long before `now` the moment in a field was; `None` when the field holds no moment.
pub(super) fn of_field(field: &Value, now: Timestamp) -> Option<String> {
    let moment: Timestamp = field.as_str()?.parse().ok()?;
    Some(since(moment, now))
}

/// Returns the age of an object, `<unknown>` before it has been created.
pub(super) fn of_object(object: &Value, now: Timestamp) -> Value {
    let age = of_field(&object["metadata"]["creationTimestamp"], now);
    Value::from(age.unwrap_or_else(|| "<unknown>".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_the_units_that_matter() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (seconds, want) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (8 * HOUR + 5 * MINUTE, "8h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + HOUR, "8d"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (9 * YEAR, "9y"),
        ] {
            let moment = now - jiff::SignedDuration::from_secs(seconds);
            assert_eq!(since(moment, now), want, "{seconds} seconds");
        }
    }

    #[test]
    fn what_is_no_moment_has_no_age() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(of_field(&Value::from("soon"), now), None);
        assert_eq!(of_field(&Value::Null, now), None);
        assert_eq!(of_object(&Value::Null, now), "<unknown>");
    }
}
