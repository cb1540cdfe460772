//! Durations, counts and names in sentences.

use jiff::Timestamp;
use kruntimes_core::crd::Run;
use kruntimes_core::retry::{self, NEVER_RETRIED};
use kruntimes_core::time::Time;
use kube::ResourceExt as _;

/// Writes a length of time with at most two units; never negative.
pub(super) fn seconds(count: i64) -> String {
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match count.max(0) {
        count @ 0..60 => format!("{count}s"),
        count @ 60..3600 => two(count / 60, 'm', count % 60, 's'),
        count @ 3600..86_400 => two(count / 3600, 'h', count % 3600 / 60, 'm'),
        count => two(count / 86_400, 'd', count % 86_400 / 3600, 'h'),
    }
}

/// How long it is since then, in whole seconds; never negative.
pub(super) fn age(then: Timestamp, now: Timestamp) -> i64 {
    (now.as_second() - then.as_second()).max(0)
}

/// How long it is since then, as [`seconds`].
pub(super) fn since(then: Time, now: Timestamp) -> String {
    seconds(age(then.0, now))
}

/// Writes `1 pod`, `2 pods`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Writes `attempt 2/5`.
pub(super) fn attempt(run: &Run) -> String {
    let status = run.status.as_ref();
    let attempt = retry::current_attempt(status.and_then(|status| status.attempt));
    let max = retry::max_attempts(run.spec.retry_policy.as_ref());
    format!("attempt {attempt}/{max}")
}

/// Says why a Run that failed for a reason was not tried again.
pub(super) fn not_repeated(run: &Run, reason: &str) -> String {
    let policy = run.spec.retry_policy.as_ref();
    let attempts = attempt(run);
    if NEVER_RETRIED.contains(&reason) {
        format!("not repeated: {reason} is never repeated ({attempts})")
    } else if policy.is_none() {
        "not repeated: the Run has no retryPolicy".to_owned()
    } else if policy.is_some_and(|policy| {
        let listed = &policy.retryable_reasons;
        !listed.is_empty() && !listed.iter().any(|one| one == reason)
    }) {
        format!("not repeated: retryableReasons does not list {reason} ({attempts})")
    } else {
        format!("not repeated: no attempt is left ({attempts})")
    }
}

/// The last line that says something.
pub(super) fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// The flag that selects the namespace of a Run.
pub(super) fn namespace_flag(run: &Run) -> String {
    format!("-n {}", run.namespace().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_11_lengths_are_compact_and_never_negative() {
        for (count, want) in [
            (-4, "0s"),
            (42, "42s"),
            (184, "3m4s"),
            (3600, "1h"),
            (7500, "2h5m"),
            (180_000, "2d2h"),
        ] {
            assert_eq!(seconds(count), want);
        }
    }
}
