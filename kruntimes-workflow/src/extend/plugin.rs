//! Functions of an embedder as values of a policy.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kruntimes_core::api::JobStatus;

/// Something an embedder plugs in. Two are equal when they are the same one.
pub struct Plugin<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Plugin<T> {
    /// Takes it.
    pub fn new(inner: Arc<T>) -> Self {
        Self(inner)
    }
}

impl<T: ?Sized> Clone for Plugin<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Plugin<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> fmt::Debug for Plugin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugin")
    }
}

impl<T: ?Sized> PartialEq for Plugin<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Eq for Plugin<T> {}

/// What becomes of a job or step that could start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It starts.
    Run,
    /// It is skipped; the text says why.
    Skip(String),
    /// It fails; the text says why.
    Fail(String),
}

/// A job or step that could start.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the job.
    pub job: &'a str,
    /// Name of the step; absent when the job itself is in question.
    pub step: Option<&'a str>,
    /// What is known of the job.
    pub status: &'a JobStatus,
}

/// Decides about jobs and steps that could start (W-198).
///
/// It has to be pure: equal states are to be decided equally, in any process.
pub trait Predicate: Send + Sync {
    /// Decides about one.
    fn decide(&self, subject: &Subject<'_>) -> Verdict;
}

impl<F: Fn(&Subject<'_>) -> Verdict + Send + Sync> Predicate for F {
    fn decide(&self, subject: &Subject<'_>) -> Verdict {
        self(subject)
    }
}

/// Orders jobs that wait for a place, best first (W-203).
///
/// The names come sorted, and it has to be pure.
pub trait Choose: Send + Sync {
    /// Puts names in the order in which they may start.
    fn order(&self, ready: &mut Vec<&str>);
}

impl<F: Fn(&mut Vec<&str>) + Send + Sync> Choose for F {
    fn order(&self, ready: &mut Vec<&str>) {
        self(ready);
    }
}
