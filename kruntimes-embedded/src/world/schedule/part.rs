//! Components that die, stand still and read wrong clocks.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::fault::{Strike, StrikeHandle, StrikeLayer};
use kruntimes_k8s::clock::{Clock, Skew};
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::supervisor::Life;

/// How long a component that is back sees an old world.
const RELAPSE: Duration = Duration::from_secs(6);

/// What is known of one component; clones are the same.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) handle: StrikeHandle,
    pub(super) skew: Skew,
    client: Client,
    clock: Clock,
    frozen: watch::Sender<bool>,
    /// How many versions the lists of its next life are too old; none if zero.
    relapse: Arc<AtomicU64>,
    /// Time from its death to its next life.
    restart: Duration,
}

impl Member {
    pub(super) fn new(server: &ApiServer, clock: &Clock, label: &str, restart: Duration) -> Self {
        let layer = StrikeLayer::new(label, None);
        let skew = Skew::default();
        Self {
            handle: layer.handle(),
            client: server.client_with(&layer),
            clock: clock.skewed(&skew),
            skew,
            frozen: watch::Sender::new(false),
            relapse: Arc::default(),
            restart,
        }
    }

    /// Plans its trouble; with a relapse its next life sees lists that are so many versions old.
    pub(super) fn arm(&self, strike: Option<Strike>, relapse: Option<u64>) {
        self.relapse.store(relapse.unwrap_or(0), Ordering::SeqCst);
        self.handle.arm(strike);
    }

    /// Lives again and again; `life` makes one life.
    pub(super) async fn live(self, server: ApiServer, life: impl Fn(Client, Clock) -> Life + Send) {
        loop {
            let one = life(self.client.clone(), self.clock.clone());
            tokio::select! {
                biased;
                () = self.handle.crashed() => {}
                () = self.while_thawed(one) => {}
            }
            let by = self.relapse.swap(0, Ordering::SeqCst);
            if by > 0 {
                let old = server.resource_version().saturating_sub(by).max(1);
                self.handle.serve_stale(old, RELAPSE);
            }
            tokio::time::sleep(self.restart).await;
            self.handle.revive();
        }
    }

    /// Polls a life whenever the component does not stand still.
    async fn while_thawed(&self, life: Life) {
        let mut life = pin!(life);
        let mut frozen = self.frozen.subscribe();
        loop {
            // The sender lives in `self`, so waiting cannot fail.
            let _ = frozen.wait_for(|frozen| !frozen).await;
            tokio::select! {
                biased;
                _ = frozen.wait_for(|frozen| *frozen) => {}
                () = &mut life => return,
            }
        }
    }

    /// Stands still until then.
    pub(super) fn freeze(&self, time: Duration) {
        self.handle.freeze_until(Instant::now() + time);
        self.frozen.send_replace(true);
    }

    pub(super) fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}
