//! The start worker: prepares files and executes, outside of the reconcile (node, section 9.2).

use std::sync::Arc;
use std::time::Duration;

use kruntimes_core::crd::Run;
use kruntimes_core::life::{self, Failure};
use kruntimes_core::retry::reason;
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_proto::{ClientError, ExecuteRequest};
use kube::ResourceExt as _;
use tokio::time::{Instant, sleep};

use crate::events::Note;
use crate::files::RunDir;
use crate::node::{Node, until};
use crate::plan::Plan;
use crate::release;

/// How long an ambiguous start is pursued before the attempt counts as failed.
const PURSUIT: Duration = Duration::from_secs(10);
/// First wait between two tries of a start; doubles.
const AGAIN: Duration = Duration::from_millis(50);
/// Tries of a start that the server answers with an error of its own.
const TRIES: u32 = 3;

/// One start on its way.
pub(crate) struct Start {
    pub(crate) run: Arc<Run>,
    pub(crate) uid: String,
    /// The attempt it belongs to.
    pub(crate) epoch: u64,
    /// The Run was claimed just now: what the server knows under its UID is a leftover.
    pub(crate) fresh: bool,
}

/// Begins the start; the entry must be marked as starting before.
pub(crate) fn spawn(node: &Arc<Node>, start: Start) {
    let shared = Arc::clone(node);
    node.tasks
        .spawn(async move { start.perform(&shared).await });
}

impl Start {
    async fn perform(self, node: &Node) {
        let failure = self.attempt(node).await.err();
        if let Some(failure) = &failure {
            tracing::warn!(run = %self.run.name_any(), message = failure.message, "start failed");
            if failure.reason != reason::PREPARE_SOURCE {
                node.note(&self.run, &Note::start_failed(failure));
            }
        }
        node.table.start_ended(&self.uid, self.epoch, failure);
        node.queue.add(ObjectKey::of(self.run.as_ref()));
    }

    async fn attempt(&self, node: &Node) -> Result<(), Failure> {
        let dir = node.files.run(&self.uid).map_err(|error| {
            Failure::new(reason::PREPARE_SOURCE, &format!("prepare source: {error}"))
        })?;
        let plan = Plan::of(&self.run.spec, &self.uid, &dir)?;
        // The server is asked while the files are written.
        let ((), prepared) =
            futures::join!(self.clear(node), async { self.prepare(node, &plan, &dir) });
        prepared?;
        if self.fresh {
            for name in &plan.ignored {
                node.note(&self.run, &Note::value_from_ignored(name));
            }
        }
        self.execute(node, plan.request).await
    }

    /// Removes what an earlier assignment of the Run to this Pod may have left at the server.
    async fn clear(&self, node: &Node) {
        // A server that cannot be asked is found out by the start itself.
        if self.fresh && node.server.status(&self.uid).await.is_ok() {
            let wanted = || node.table.wants(&self.uid, self.epoch);
            release::stop_and_forget(node, &self.uid, wanted).await;
        }
    }

    fn prepare(&self, node: &Node, plan: &Plan<'_>, dir: &RunDir) -> Result<(), Failure> {
        let failed = |what: &str, error: &std::io::Error| {
            let text = format!("prepare source: {what}: {error}");
            Failure::new(reason::PREPARE_SOURCE, &text)
        };
        let kept = node.table.update(&self.uid, |entry| entry.prepared) == Some(true);
        if !kept {
            dir.prepare(plan.script)
                .map_err(|error| failed("write inline", &error))?;
            node.table.update(&self.uid, |entry| entry.prepared = true);
        }
        dir.reset().map_err(|error| failed("reset outputs", &error))
    }

    /// Sends the start until it is known whether it happened (N-78 to N-82).
    async fn execute(&self, node: &Node, request: ExecuteRequest) -> Result<(), Failure> {
        let give_up = Instant::now() + PURSUIT;
        let mut wait = AGAIN;
        for attempt in 1_u32.. {
            let Some(request) = self.timed(node, &request) else {
                return Ok(());
            };
            let Err(error) = node.server.execute(request).await else {
                return Ok(());
            };
            match self.after_error(node, &error).await {
                Started::Yes => return Ok(()),
                Started::No => {
                    return Err(Failure::new(reason::RUNTIME_EXECUTE, &error.to_string()));
                }
                Started::Unknown => {}
            }
            let answered = matches!(error, ClientError::Other { .. }) && attempt >= TRIES;
            if answered || Instant::now() + wait >= give_up {
                return Err(Failure::new(reason::RUNTIME_EXECUTE, &error.to_string()));
            }
            sleep(wait).await;
            wait *= 2;
        }
        Ok(())
    }

    /// Gives the start the time that is left (N-72); `None` when it is wanted no more.
    fn timed(&self, node: &Node, request: &ExecuteRequest) -> Option<ExecuteRequest> {
        if !node.table.wants(&self.uid, self.epoch) {
            return None;
        }
        let status = self.run.status.as_ref()?;
        let exact = node
            .table
            .update(&self.uid, |entry| entry.local.claimed_at)?;
        let timeout = match life::deadline(&self.run.spec, status, exact) {
            None => None,
            Some(deadline) => {
                let left = until(node.clock.now(), deadline);
                if left.is_zero() {
                    return None;
                }
                Some(left)
            }
        };
        Some(ExecuteRequest {
            timeout,
            ..request.clone()
        })
    }

    /// Finds out what a failed start has done.
    async fn after_error(&self, node: &Node, error: &ClientError) -> Started {
        let taken = matches!(error, ClientError::AlreadyExists { .. });
        if !taken && !error.is_ambiguous() {
            return Started::No;
        }
        match node.server.status(&self.uid).await {
            // N-82: the result of an attempt that was not forgotten is none of this one.
            Ok(found) if taken && found.state.is_final() => {
                let _ = node.server.forget(&self.uid).await;
                Started::Unknown
            }
            Ok(_) => Started::Yes,
            // N-81: not found, it may be sent again; no answer, it is asked again.
            Err(_) => Started::Unknown,
        }
    }
}

enum Started {
    Yes,
    No,
    Unknown,
}
