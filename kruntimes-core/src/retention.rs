//! How long a Run that is over is kept (API reference, section 17).

use jiff::Timestamp;

use crate::api::{RunSpec, RunStatus};
use crate::duration::Duration;

/// Returns when a Run is to be deleted, `None` while it is to be kept (N-209).
///
/// Kept is what is not over, what has no `completionTime`, and what states no positive TTL.
pub fn expiry(spec: &RunSpec, status: &RunStatus) -> Option<Timestamp> {
    let ttl = spec.ttl_seconds_after_finished.filter(|ttl| *ttl > 0)?;
    let completed = status
        .completion_time
        .filter(|_| status.phase.is_terminal())?;
    Some(Duration::from_secs(i64::from(ttl)).after(completed.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RunPhase;
    use crate::time::Time;

    #[test]
    fn n_209_only_a_finished_run_with_a_positive_ttl_expires() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let ended = Some(Time(at(100)));
        for (case, ttl, phase, completed, want) in [
            ("a TTL", Some(60), RunPhase::Succeeded, ended, Some(at(160))),
            (
                "after a failure",
                Some(1),
                RunPhase::Timeout,
                ended,
                Some(at(101)),
            ),
            ("no TTL", None, RunPhase::Succeeded, ended, None),
            ("zero TTL", Some(0), RunPhase::Succeeded, ended, None),
            ("negative TTL", Some(-5), RunPhase::Succeeded, ended, None),
            ("no completion time", Some(60), RunPhase::Failed, None, None),
            ("not over", Some(60), RunPhase::Running, ended, None),
        ] {
            let spec = RunSpec {
                ttl_seconds_after_finished: ttl,
                ..RunSpec::default()
            };
            let status = RunStatus {
                phase,
                completion_time: completed,
                ..RunStatus::default()
            };
            assert_eq!(expiry(&spec, &status), want, "{case}");
        }
    }
}
