//! Background tasks that end with their owner.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

/// Spawns tasks that live no longer than the [`Owner`] of the set.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    set: Arc<Mutex<Option<JoinSet<()>>>>,
}

impl Tasks {
    /// Makes a set and its owner.
    pub(crate) fn new() -> (Self, Owner) {
        let tasks = Self {
            set: Arc::new(Mutex::new(Some(JoinSet::new()))),
        };
        (tasks.clone(), Owner(tasks))
    }

    fn set(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spawns a task; after the owner is gone nothing is spawned.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(set) = self.set().as_mut() {
            while set.try_join_next().is_some() {}
            set.spawn(task);
        }
    }
}

/// Ends every task of its set when it is dropped.
#[derive(Debug)]
pub(crate) struct Owner(Tasks);

impl Drop for Owner {
    fn drop(&mut self) {
        // Taken out first: ending a task may drop the last other clone of the set.
        let set = self.0.set().take();
        drop(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let (tasks, owner) = Tasks::new();
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let kept = tasks.clone();
        tasks.spawn(async move {
            let _held = (alive, kept);
            std::future::pending::<()>().await;
        });
        drop(owner);
        assert!(gone.await.is_err(), "the task was dropped");
        tasks.spawn(async { panic!("nothing is spawned any more") });
        assert!(tasks.set().is_none());
    }
}
