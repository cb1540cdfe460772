//! The start worker: prepares files and executes, outside of the reconcile (node, section 9.2).

use std::sync::Arc;
use std::time::Duration;

use kruntimes_core::crd::Run;
use kruntimes_core::life::{self, Failure};
use kruntimes_core::retry::{self, reason};
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_proto::{ClientError, ExecuteRequest};
use kube::ResourceExt as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::artifact::{Inputs, StoreError};
use crate::events::Note;
use crate::files::RunDir;
use crate::node::{self, Node, until};
use crate::plan::Plan;
use crate::{artifact, git, release, workspace};

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
        let workspace = node::workspace_of(&self.run);
        let dir = node
            .files
            .run(&self.uid, workspace.as_deref())
            .map_err(|error| {
                Failure::new(reason::PREPARE_SOURCE, &format!("prepare source: {error}"))
            })?;
        let stored = node.artifacts.is_some();
        let plan = Plan::of(&self.run.spec, &self.uid, &dir, stored)?;
        // The server is asked while the files are written.
        let (cleared, prepared) = futures::join!(self.clear(node), self.prepare(node, &plan, &dir));
        prepared?;
        if cleared {
            // What was stopped just now may have written into the new directory until its end (N-73).
            node.table.update(&self.uid, |entry| entry.prepared = false);
            self.prepare(node, &plan, &dir).await?;
        }
        if self.fresh {
            for name in &plan.ignored {
                node.note(&self.run, &Note::value_from_ignored(name));
            }
        }
        self.execute(node, plan.request).await
    }

    /// Removes what an earlier assignment of the Run to this Pod may have left at the server; tells
    /// whether there was anything.
    async fn clear(&self, node: &Node) -> bool {
        // A server that cannot be asked is found out by the start itself.
        let left = self.fresh && node.server.status(&self.uid).await.is_ok();
        if left {
            let wanted = || node.table.wants(&self.uid, self.epoch);
            release::stop_and_forget(node, &self.uid, wanted).await;
        }
        left
    }

    /// Prepares the files; gives up and leaves nothing when the start is wanted no more (N-36).
    async fn prepare(&self, node: &Node, plan: &Plan<'_>, dir: &RunDir) -> Result<(), Failure> {
        let abandoned = CancellationToken::new();
        let mut work = std::pin::pin!(self.prepare_until(node, plan, dir, &abandoned));
        tokio::select! {
            biased;
            done = &mut work => done,
            () = node.table.unwanted(&self.uid, self.epoch) => {
                abandoned.cancel();
                // What is stopped here must be gone before the directory is removed.
                work.await
            }
        }
    }

    async fn prepare_until(
        &self,
        node: &Node,
        plan: &Plan<'_>,
        dir: &RunDir,
        abandoned: &CancellationToken,
    ) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::error::Error| {
            let text = format!("prepare source: {what}{error}");
            Failure::new(reason::PREPARE_SOURCE, &text)
        };
        abandoned
            .run_until_cancelled(workspace::check(node, &self.run))
            .await
            .unwrap_or(Ok(()))?;
        let held = node.table.update(&self.uid, |entry| entry.prepared) == Some(true);
        // N-109: also when another process has prepared them for the attempt before.
        let status = self.run.status.as_ref();
        let repeated = retry::current_attempt(status.and_then(|s| s.attempt)) > 1;
        let kept = held || (repeated && !self.fresh && dir.is_prepared());
        if !kept {
            dir.prepare(plan.script)
                .map_err(|error| failed("write inline: ", &error))?;
            if let Some(source) = &plan.git {
                git::check_out(&node.config.git, source, dir, abandoned)
                    .await
                    .map_err(|error| failed("", &error))?;
            }
            self.stage(node, dir, plan.git.is_some(), abandoned).await?;
            dir.mark_prepared(plan.git.is_some())
                .map_err(|error| failed("mark: ", &error))?;
            node.table.update(&self.uid, |entry| entry.prepared = true);
        }
        dir.reset(node.artifacts.is_some())
            .map_err(|error| failed("reset outputs: ", &error))
    }

    /// Puts the artifacts of other Runs in place (N-56, N-61).
    async fn stage(
        &self,
        node: &Node,
        dir: &RunDir,
        git: bool,
        abandoned: &CancellationToken,
    ) -> Result<(), Failure> {
        let inputs = self.run.spec.artifact_inputs.clone();
        if inputs.is_empty() {
            return Ok(());
        }
        let failed = |text: &str| Failure::new(reason::RUNTIME_EXECUTE, text);
        let Some(artifacts) = node.artifacts.clone() else {
            return Err(failed("artifactInputs need an artifact store"));
        };
        let (dir, abandoned) = (dir.clone(), abandoned.clone());
        let staged = tokio::task::spawn_blocking(move || {
            let work = dir.open_work(git).map_err(|error| error.to_string())?;
            dir.note_inputs(inputs.iter().map(|input| input.path.as_str()))
                .map_err(|error| error.to_string())?;
            let wanted = || {
                if abandoned.is_cancelled() {
                    Err(StoreError::Abandoned)
                } else {
                    Ok(())
                }
            };
            let inputs = Inputs {
                store: artifacts.store.as_ref(),
                list: &inputs,
                limit: artifacts.all_max_bytes,
            };
            artifact::stage(&inputs, &work, &wanted)
        });
        let staged = staged.await.unwrap_or_else(|error| Err(error.to_string()));
        staged.map_err(|text| failed(&text))
    }

    /// Sends the start until it is known whether it happened (N-78 to N-82).
    async fn execute(&self, node: &Node, request: ExecuteRequest) -> Result<(), Failure> {
        let give_up = Instant::now() + PURSUIT;
        let mut wait = AGAIN;
        let mut answers = 0;
        while let Some(request) = self.timed(node, &request) {
            let Err(error) = node.server.execute(request).await else {
                return Ok(());
            };
            answers += u32::from(matches!(error, ClientError::Other { .. }));
            let started = self.settle(node, &error, give_up).await;
            let again = match started {
                Started::Yes => return Ok(()),
                Started::Absent => answers < TRIES && Instant::now() + wait < give_up,
                Started::Refused => false,
            };
            if !again {
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

    /// Finds out what a failed start has done; as long as that is open, nothing is sent again (N-81).
    async fn settle(&self, node: &Node, error: &ClientError, give_up: Instant) -> Started {
        let taken = matches!(error, ClientError::AlreadyExists { .. });
        if !taken && !error.is_ambiguous() {
            return Started::Refused;
        }
        loop {
            match node.server.status(&self.uid).await {
                // N-82: the result of an attempt that was not forgotten is none of this one.
                Ok(found) if taken && found.state.is_final() => {
                    let _ = node.server.forget(&self.uid).await;
                    return Started::Absent;
                }
                Ok(_) => return Started::Yes,
                Err(error) if error.is_not_found() => return Started::Absent,
                Err(_) if Instant::now() + AGAIN >= give_up => return Started::Refused,
                Err(_) => sleep(AGAIN).await,
            }
        }
    }
}

/// What came of a start that failed.
enum Started {
    /// The server has it.
    Yes,
    /// The server does not have it; it may be sent again.
    Absent,
    /// It will not come to be, or nobody can tell for too long.
    Refused,
}
