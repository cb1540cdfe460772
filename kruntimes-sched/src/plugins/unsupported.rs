//! What this scheduler cannot honour yet is not silently ignored.

use crate::plugin::{Filter, PrepareError, Prepared, Reason};
use crate::run::Run;
use crate::snapshot::Snapshot;

const WORKSPACE: &str = "WorkspaceUnsupported";
const AFFINITY: &str = "AffinityUnsupported";

const REASONS: &[Reason] = &[
    Reason::new(WORKSPACE)
        .message("waiting: spec.workspace is not supported by this scheduler")
        .first_condition("WorkspaceNotBound"),
    Reason::new(AFFINITY)
        .message("waiting: spec.affinity is not supported by this scheduler")
        .first_condition("UnsatisfiedRunAffinity"),
];

/// Makes Runs wait that ask for a workspace or for affinity, because no plugin honours these.
#[derive(Clone, Copy, Debug)]
pub struct Unsupported;

impl Filter for Unsupported {
    fn name(&self) -> &'static str {
        "Unsupported"
    }

    fn reasons(&self) -> &'static [Reason] {
        REASONS
    }

    fn prepare<'a>(
        &'a self,
        _snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        Ok(if run.workspace.is_some() {
            Prepared::Rejects(WORKSPACE)
        } else if run.affinity.is_some() {
            Prepared::Rejects(AFFINITY)
        } else {
            Prepared::Skip
        })
    }
}
