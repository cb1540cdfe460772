//! A cycle written down, to be decided again elsewhere.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::book::View;
use crate::calculate::calculate;
use crate::decision::Decision;
use crate::identity::ProfileName;
use crate::occupancy::Hold;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{Nominated, Snapshot};
use crate::workspace::Workspace;

/// A snapshot as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Written {
    now: Timestamp,
    runtime_exists: bool,
    pods: Vec<Pod>,
    holds: Vec<Hold>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<Workspace>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nominated: Vec<Nominated>,
}

impl From<Snapshot> for Written {
    fn from(snapshot: Snapshot) -> Self {
        let pods = snapshot.pods().iter();
        Self {
            now: snapshot.now(),
            runtime_exists: snapshot.has_runtime(),
            pods: pods.map(|state| state.pod.as_ref().clone()).collect(),
            holds: snapshot.view().holds().cloned().collect(),
            workspace: snapshot.workspace().cloned(),
            nominated: snapshot.nominated().to_vec(),
        }
    }
}

impl From<Written> for Snapshot {
    fn from(written: Written) -> Self {
        Self::new(written.now, written.pods, View::of(&written.holds))
            .runtime_exists(written.runtime_exists)
            .with_workspace(written.workspace.map(Arc::new))
            .with_nominated(written.nominated)
    }
}

/// One cycle: what was seen, who was placed, by which profile, and what was decided (S-166).
///
/// It contains names of Runs and Pods and their labels; it belongs in a file
/// of the operator, not in a status.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Recording {
    /// Name of the profile.
    pub profile: ProfileName,
    /// What the cycle saw.
    pub snapshot: Snapshot,
    /// Who was to be placed.
    pub run: Run,
    /// What was decided.
    pub decision: Value,
}

/// A replayed decision that is not the recorded one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the decision is not the recorded one")]
pub struct Differs {
    /// What was decided then.
    pub recorded: Value,
    /// What is decided now.
    pub replayed: Value,
}

impl Recording {
    /// Decides, and writes down how.
    ///
    /// # Errors
    ///
    /// Returns an error when the decision has no JSON form.
    pub fn new(
        name: impl Into<ProfileName>,
        profile: &Profile,
        snapshot: Snapshot,
        run: Run,
    ) -> Result<Self, serde_json::Error> {
        let decision = serde_json::to_value(calculate(&snapshot, &run, profile))?;
        Ok(Self {
            profile: name.into(),
            snapshot,
            run,
            decision,
        })
    }

    /// Decides again.
    pub fn replay(&self, profile: &Profile) -> Decision {
        calculate(&self.snapshot, &self.run, profile)
    }

    /// Checks that the profile still decides the same.
    ///
    /// # Errors
    ///
    /// Returns both decisions when they differ.
    pub fn check(&self, profile: &Profile) -> Result<(), Box<Differs>> {
        let replayed = serde_json::to_value(self.replay(profile)).unwrap_or(Value::Null);
        if replayed == self.decision {
            return Ok(());
        }
        Err(Box::new(Differs {
            recorded: self.decision.clone(),
            replayed,
        }))
    }
}
