//! What plugins do with a reserved place: permit it, prepare the write, write, look back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::book::View;
use crate::calculate::guarded;
use crate::decision::CycleError;
use crate::identity::{PodName, PodUid, RunName, RunUid, WorkspaceName};
use crate::plugin::Broken;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::room::WaitingRoom;
use crate::run::Run;

/// A Run and the Pod it is reserved on.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The Run.
    pub run: Arc<Run>,
    /// The Pod.
    pub pod: Arc<Pod>,
}

/// Something an adapter is asked to do. Plugins never do I/O, so a dry run can print it (S-162).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Intent {
    /// Bind an unbound PersistentWorkspace to a Pod; if it is bound to another one, the placement fails.
    BindWorkspace {
        /// The workspace, in the Run's namespace.
        workspace: WorkspaceName,
        /// Name of the Pod.
        pod: PodName,
        /// UID of the Pod.
        pod_uid: PodUid,
    },
    /// End an active Run, so that its place becomes free.
    Evict {
        /// Name of the Run.
        run: RunName,
        /// UID of the Run.
        uid: RunUid,
    },
    /// Something that the embedder's own adapter understands.
    Custom {
        /// What is to be done.
        kind: &'static str,
        /// With what.
        arguments: BTreeMap<String, String>,
    },
}

/// What a [`Permit`] plugin is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The Run, which is reserved.
    pub run: &'a Run,
    /// The Pod it is reserved on.
    pub pod: &'a Pod,
    /// The present instant.
    pub now: Timestamp,
    /// Everything that holds capacity of the namespace, this Run included.
    pub view: &'a View,
    /// The Runs that wait for a permission.
    pub room: &'a WaitingRoom,
}

/// What a [`Permit`] plugin answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The Run may be bound.
    Allow,
    /// The Run may be bound, and so may these, which the plugin made wait.
    AllowAlso(Vec<RunUid>),
    /// The Run may not be bound; its place is given up. The cause is in CamelCase.
    Deny(&'static str),
    /// The Run keeps its place until somebody allows or denies it, at most until then.
    Wait {
        /// Instant at which the Run is denied.
        until: Timestamp,
    },
}

/// Decides whether a reserved Run may be bound now.
pub trait Permit: Send + Sync {
    /// Names the plugin, which is also the key to allow with.
    fn name(&self) -> &'static str;

    /// Allows, denies, or makes the Run wait.
    fn permit(&self, question: &Question<'_>) -> Permission;
}

/// Says what has to be done before the write.
pub trait PreBind: Send + Sync {
    /// Names the plugin in errors.
    fn name(&self) -> &'static str;

    /// Returns what the adapter has to do first; if that fails, the place is given up.
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the place is given up and the cycle repeated.
    fn intents(&self, placement: &Placement, now: Timestamp) -> Result<Vec<Intent>, Broken>;
}

/// How a placement is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Binding {
    /// The plugin leaves the write to the next one.
    Skip,
    /// As the adapter does it by itself.
    Write,
    /// By these intents instead.
    Perform(Vec<Intent>),
    /// Nothing is left to be written.
    Done,
}

/// Takes the write upon itself, or leaves it to the next.
pub trait Bind: Send + Sync {
    /// Names the plugin in errors.
    fn name(&self) -> &'static str;

    /// Says how the placement is written down. The first plugin that does not skip wins.
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the place is given up and the cycle repeated.
    fn bind(&self, placement: &Placement, now: Timestamp) -> Result<Binding, Broken>;
}

/// Is told about successful binds.
pub trait PostBind: Send + Sync {
    /// Names the plugin.
    fn name(&self) -> &'static str;

    /// Takes note; nothing depends on it.
    fn bound(&self, placement: &Placement);
}

/// Collects what has to be done before the write, in plugin order.
///
/// # Errors
///
/// Returns the first plugin that fails or panics. The caller unreserves.
pub fn pre_bind(
    profile: &Profile,
    placement: &Placement,
    now: Timestamp,
) -> Result<Vec<Intent>, CycleError> {
    let mut intents = Vec::new();
    for entry in &profile.pre_binds {
        let asked = guarded(entry.name, || entry.plugin.intents(placement, now))?;
        intents.extend(asked.map_err(|Broken(cause)| CycleError::PreBind {
            plugin: entry.name,
            cause,
        })?);
    }
    Ok(intents)
}

/// Says how the placement is written down; never [`Binding::Skip`].
///
/// # Errors
///
/// Returns the plugin that fails or panics. The caller unreserves.
pub fn bind(
    profile: &Profile,
    placement: &Placement,
    now: Timestamp,
) -> Result<Binding, CycleError> {
    for entry in &profile.binds {
        let binding = guarded(entry.name, || entry.plugin.bind(placement, now))?;
        let binding = binding.map_err(|Broken(cause)| CycleError::Bind {
            plugin: entry.name,
            cause,
        })?;
        if binding != Binding::Skip {
            return Ok(binding);
        }
    }
    Ok(Binding::Write)
}

/// Tells every plugin about a successful bind; one that panics keeps the others from nothing.
pub fn post_bind(profile: &Profile, placement: &Placement) {
    for entry in &profile.post_binds {
        let _ = guarded(entry.name, || entry.plugin.bound(placement));
    }
}
