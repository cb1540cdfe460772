//! A filter whose condition comes from a configuration file.

use crate::plugin::{Filter, PrepareError, Prepared, Reason, Verdict};
use crate::run::Run;
use crate::snapshot::Snapshot;

use super::condition::{Condition, ExpressionError};

const MISMATCH: &str = "ExpressionMismatch";

/// Rejects Pods for which a condition over Run and Pod does not hold.
///
/// ```
/// use kruntimes_sched::plugins::{Expression, standard};
/// use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, winner};
///
/// let same_zone = Expression::parse(r#"pod.labels["zone"] == run.labels["zone"]"#)?;
/// let profile = standard().filter(same_zone).build()?;
/// let snapshot = a_snapshot()
///     .pod(a_pod("a").label("zone", "red"))
///     .pod(a_pod("b").label("zone", "blue"));
/// let decision = snapshot.decide(&a_run("r").label("zone", "blue"), &profile);
/// assert_eq!(winner(&decision), Some("b"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    condition: Condition,
}

impl Expression {
    /// Reads the condition; the language is described in the guide on scheduler plugins.
    ///
    /// # Errors
    ///
    /// Returns where and why the text is no condition.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let condition = Condition::parse(text)?;
        Ok(Self { condition })
    }
}

impl Filter for Expression {
    fn name(&self) -> &'static str {
        "Expression"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new(MISMATCH)];
        REASONS
    }

    fn prepare<'a>(
        &'a self,
        _snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Check(Box::new(move |state| {
            if self.condition.holds(run, state) {
                Verdict::Fits
            } else {
                Verdict::Rejects(MISMATCH)
            }
        })))
    }
}
