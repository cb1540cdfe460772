//! Whom a change wakes: Runs that a plugin would look at again, and as many as there is room for.

use k8s_openapi::api::core::v1::Pod as ApiPod;
use kruntimes_core::crd::{PersistentWorkspace, Run as ApiRun, Runtime as ApiRuntime};
use kruntimes_core::resources::Amounts;
use kruntimes_sched::{
    Event, EventKind, Handout, Placement, Point, PoolKey, Precedence, Run, RunKey,
};

use super::events::{self, Wake};
use super::line::Ticket;
use super::recorder::Source;
use super::seen;
use super::shell::{PENDING_BY_RUNTIME, PENDING_BY_WORKSPACE, Shell, State, parts};
use crate::cache::{Change, ObjectKey};

/// The plugins whose answer to a Pod is about that Pod alone.
const ABOUT_ONE_POD: [&str; 3] = ["Workspace", "RuntimePodAvailability", "RunAffinity"];
/// Those of them that a Run on the Pod concerns by its room alone.
const ABOUT_ROOM: [&str; 2] = ["Workspace", "RuntimePodAvailability"];

/// Returns the plugins for which a change of this kind is worth no more Runs than the Pod has room for.
///
/// Plugins are known by name: one that takes the place of these must share
/// this property. All others are asked about every Run they turned away.
fn by_room(kind: EventKind) -> &'static [&'static str] {
    match kind {
        EventKind::PodChanged => &ABOUT_ONE_POD,
        EventKind::CapacityReleased => &ABOUT_ROOM,
        _ => &[],
    }
}

impl Shell {
    /// Tells whether Runs with the same needs get the same answer from all plugins.
    pub(super) fn treats_alike(&self) -> bool {
        let asked = [Point::PreEnqueue, Point::PreFilter, Point::Filter].map(|point| {
            let names = self.profile.plugins(point);
            names.into_iter().all(|name| ABOUT_ONE_POD.contains(&name))
        });
        asked.into_iter().all(|bundled| bundled)
    }

    pub(super) fn pod_changed(&self, change: &Change<ApiPod>) {
        let (old, new) = parts("Pod", change);
        let names = &self.config.names;
        {
            let mut state = self.state();
            let State {
                pools,
                index,
                vocabulary,
                ..
            } = &mut *state;
            pools.change(index, vocabulary, names, old, new);
        }
        let limit = self.config.heartbeat_limit();
        let Some(pod) = new.or(old).map(|pod| seen::pod(names, pod)) else {
            return;
        };
        for wake in events::pod_changed(names, old, new, limit) {
            if let Wake::Room {
                runtime,
                pod: name,
                source,
            } = wake
            {
                let event = Event::PodChanged {
                    namespace: &runtime.namespace.as_str().into(),
                    runtime: &runtime.name.as_str().into(),
                    pod: &pod,
                };
                let pool = PoolKey::from(&runtime);
                self.hint(&pool, &event, source);
                self.offer_anew(&Ticket {
                    pool,
                    pod: name,
                    kind: EventKind::PodChanged,
                    source: Some(source),
                });
            }
        }
    }

    pub(super) fn runtime_changed(&self, change: &Change<ApiRuntime>) {
        let (old, new) = parts("Runtime", change);
        self.wake(None, events::runtime_changed(old, new));
    }

    pub(super) fn workspace_changed(&self, change: &Change<PersistentWorkspace>) {
        let (old, new) = parts("PersistentWorkspace", change);
        let Some(key) = events::workspace_changed(old, new) else {
            return;
        };
        if !self.profile.listens_to(EventKind::WorkspaceChanged) {
            return;
        }
        let event = Event::WorkspaceChanged {
            namespace: &key.namespace.as_str().into(),
            workspace: &key.name.as_str().into(),
        };
        let value = format!("{}/{}", key.namespace, key.name);
        let waiting = self.runs.by_index(PENDING_BY_WORKSPACE, &value);
        let mut keys: Vec<ObjectKey> = (waiting.iter())
            .map(|run| ObjectKey::of(run.as_ref()))
            .collect();
        let state = self.state();
        // One that does not wait in the line has its next cycle before it anyway.
        keys.retain(|key| {
            let place = state.line.rejected_by(&key.into());
            place.is_none_or(|(run, by)| self.is_asked_for(&event, run, by))
        });
        drop(state);
        self.add(Some(Source::Workspace), keys);
    }

    /// Wakes the Runs of the pool that want to know of the new target.
    pub(super) fn attract(&self, target: Option<&ApiRun>) {
        let Some(target) = target else {
            return;
        };
        let target = seen::run(target, Amounts::new());
        let pool = PoolKey::of(&target);
        let event = Event::RunActive { run: &target };
        self.hint(&pool, &event, Source::AffinityTarget);
    }

    /// Wakes whom an event of Runs or Runtimes concerns; `old` is the Run that gave up capacity.
    pub(super) fn wake(&self, old: Option<&ApiRun>, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Run(key) => self.queue.add(key),
                Wake::Pool { runtime } => {
                    let value = format!("{}/{}", runtime.namespace, runtime.name);
                    for run in self.runs.by_index(PENDING_BY_RUNTIME, &value) {
                        self.queue.add(ObjectKey::of(run.as_ref()));
                    }
                }
                Wake::Room {
                    runtime,
                    pod,
                    source,
                } => {
                    let pool = PoolKey::from(&runtime);
                    if let Some(old) = old.map(|old| seen::run(old, Amounts::new())) {
                        let event = Event::CapacityReleased { run: &old };
                        self.hint(&pool, &event, source);
                    }
                    self.offer_anew(&Ticket {
                        pool,
                        pod,
                        kind: EventKind::CapacityReleased,
                        source: Some(source),
                    });
                }
            }
        }
    }

    /// Offers a place to others that its Run was given and did not take.
    ///
    /// No watch tells of it: only this process knew that the place was held.
    /// Whoever waits out an error comes back anyway, and not sooner.
    pub(super) fn freed(&self, placement: &Placement) {
        let run = &placement.run;
        let ticket = Ticket {
            pool: PoolKey::of(run),
            pod: placement.pod.name.clone(),
            kind: EventKind::CapacityReleased,
            source: None,
        };
        self.state().line.reopen(&ticket);
        self.offer(&ticket, &|key| {
            key.name == run.name || self.queue.has_failed(&key.into())
        });
    }

    /// Offers what is left of the room on a Pod to the next.
    pub(super) fn pass_on(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.offer(&ticket, &|key| self.queue.has_failed(&key.into()));
        }
    }

    /// Offers the room on a Pod to everybody once more: something about it changed.
    fn offer_anew(&self, ticket: &Ticket) {
        self.state().line.reopen(ticket);
        self.offer(ticket, &|_| false);
    }

    fn offer(&self, ticket: &Ticket, skip: &dyn Fn(&RunKey) -> bool) {
        let now = self.clock.now();
        let limit = self.config.heartbeat_limit();
        let compare = |a: &Run, b: &Run| self.profile.compare(a, b, now);
        let sorts = !self.profile.plugins(Point::QueueSort).is_empty();
        let handout = Handout {
            helps: &|rejected_by| self.is_helped_by_room(ticket.kind, rejected_by),
            order: sorts.then_some(&compare as &Precedence<'_>),
            skip,
        };
        let mut state = self.state();
        let State {
            index, pools, line, ..
        } = &mut *state;
        let Some(pod) = pools.pod(&(&ticket.pool).into(), &ticket.pod) else {
            return;
        };
        if !(pod.ready && pod.heartbeat.is_fresh(now, limit)) {
            return;
        }
        let occupancy = index.book().occupancy(&ticket.pool.namespace, pod);
        let woken = line.offer(ticket, pod, &occupancy, &handout);
        drop(state);
        self.add(ticket.source, woken.iter().map(Into::into).collect());
    }

    /// Wakes the Runs of a pool for which a plugin that turned them away asks.
    fn hint(&self, pool: &PoolKey, event: &Event<'_>, source: Source) {
        if !self.profile.listens_to(event.kind()) {
            return;
        }
        let mut state = self.state();
        let helped = state
            .line
            .take(pool, |run, by| self.is_asked_for(event, run, by));
        drop(state);
        self.add(Some(source), helped.iter().map(Into::into).collect());
    }

    fn is_asked_for(&self, event: &Event<'_>, run: &Run, rejected_by: &[&'static str]) -> bool {
        let by_room = by_room(event.kind());
        if rejected_by.is_empty() {
            return by_room.is_empty() && self.profile.wakes(event, run, &[]);
        }
        let mut asked = rejected_by.to_vec();
        asked.retain(|plugin| !by_room.contains(plugin));
        !asked.is_empty() && self.profile.wakes(event, run, &asked)
    }

    fn is_helped_by_room(&self, kind: EventKind, rejected_by: &[&'static str]) -> bool {
        if rejected_by.is_empty() {
            return true;
        }
        let mut asked = rejected_by.to_vec();
        asked.retain(|plugin| by_room(kind).contains(plugin));
        !asked.is_empty() && self.profile.events_of(&asked).contains(&kind)
    }

    fn add(&self, source: Option<Source>, keys: Vec<ObjectKey>) {
        if let Some(source) = source
            && !keys.is_empty()
        {
            self.recorder.wakeups(source, keys.len());
        }
        for key in keys {
            self.queue.add(key);
        }
    }
}
