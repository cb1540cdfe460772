//! Who does what plugins want done: they never do I/O themselves (S-162).

use std::error::Error;

use futures::future::BoxFuture;
use kruntimes_sched::{Binding, Intent, Placement, bind, pre_bind};

use super::shell::Shell;
use super::turn::TurnError;

/// Why an intent was not performed.
pub type IntentError = Box<dyn Error + Send + Sync>;

/// Performs the intents of plugins.
pub trait Performer: Send + Sync {
    /// Performs one intent for a Run of `namespace`; if that fails, the Run's place is given up.
    fn perform<'a>(
        &'a self,
        namespace: &'a str,
        intent: &'a Intent,
    ) -> BoxFuture<'a, Result<(), IntentError>>;
}

/// Performs nothing: a placement that needs an intent is given up and tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPerformer;

impl Performer for NoPerformer {
    fn perform<'a>(
        &'a self,
        _namespace: &'a str,
        intent: &'a Intent,
    ) -> BoxFuture<'a, Result<(), IntentError>> {
        let refusal = format!("nobody performs the intent {intent:?}");
        Box::pin(std::future::ready(Err(refusal.into())))
    }
}

impl Shell {
    /// Has done what comes before the write, and tells whether the write is left to do.
    pub(super) async fn prepare(&self, placement: &Placement) -> Result<bool, TurnError> {
        let now = self.clock.now();
        let intents = pre_bind(&self.profile, placement, now).map_err(TurnError::Cycle)?;
        self.perform(placement, &intents).await?;
        match bind(&self.profile, placement, now).map_err(TurnError::Cycle)? {
            Binding::Write | Binding::Skip => Ok(true),
            Binding::Done => Ok(false),
            Binding::Perform(intents) => {
                self.perform(placement, &intents).await?;
                Ok(false)
            }
        }
    }

    async fn perform(&self, placement: &Placement, intents: &[Intent]) -> Result<(), TurnError> {
        let namespace = placement.run.namespace.as_str();
        for intent in intents {
            let done = self.performer.perform(namespace, intent).await;
            done.map_err(TurnError::Intent)?;
        }
        Ok(())
    }
}
