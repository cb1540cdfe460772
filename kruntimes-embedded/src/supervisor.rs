//! Components that are started again when they end, and that a test can crash.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Wait before a component that ended by itself is started again.
const RESTART_DELAY: Duration = Duration::from_millis(100);

/// The future of one life of a component.
pub type Life = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs components. Dropping it ends all of them.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: Mutex<JoinSet<()>>,
    crashes: Mutex<BTreeMap<&'static str, Arc<Notify>>>,
}

impl Supervisor {
    /// Starts a component; `life` is called again for each new life.
    pub fn start(&self, name: &'static str, life: impl Fn() -> Life + Send + 'static) {
        let crash = Arc::new(Notify::new());
        self.crashes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, Arc::clone(&crash));
        let task = async move {
            loop {
                // A panic ends one life, not the component. Nothing of that life is used again.
                let life = AssertUnwindSafe(life()).catch_unwind();
                tokio::select! {
                    biased;
                    () = crash.notified() => tracing::info!(component = name, "crashed on request"),
                    ended = life => {
                        let panicked = ended.is_err();
                        tracing::warn!(component = name, panicked, "ended, it is started again");
                    }
                }
                tokio::time::sleep(RESTART_DELAY).await;
            }
        };
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spawn(task);
    }

    /// Drops the present life of a component wherever it is, and starts a new one.
    ///
    /// Returns whether there is such a component.
    pub fn crash(&self, name: &str) -> bool {
        let crashes = self.crashes.lock().unwrap_or_else(PoisonError::into_inner);
        crashes
            .get(name)
            .inspect(|crash| crash.notify_one())
            .is_some()
    }

    /// Ends every component and waits until their futures are dropped.
    pub async fn stop(&self) {
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_one_life_only() {
        let lives = Arc::new(AtomicUsize::new(0));
        let supervisor = Supervisor::default();
        let count = Arc::clone(&lives);
        supervisor.start("it", move || {
            let life = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                assert!(life > 0, "the first life meets what it does not expect");
                std::future::pending::<()>().await;
            })
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lives.load(Ordering::SeqCst), 2);
        supervisor.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_lives_again_after_a_crash_and_after_its_end() {
        let lives = Arc::new(AtomicUsize::new(0));
        let supervisor = Supervisor::default();
        let count = Arc::clone(&lives);
        supervisor.start("it", move || {
            let life = count.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                if life > 0 {
                    std::future::pending::<()>().await;
                }
            })
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lives.load(Ordering::SeqCst), 2, "it ended once");
        assert!(supervisor.crash("it"));
        assert!(!supervisor.crash("other"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lives.load(Ordering::SeqCst), 3);
        supervisor.stop().await;
        assert_eq!(Arc::strong_count(&lives), 1, "nothing outlives the stop");
    }
}
