//! Which plugins a scheduler asks, in which order and with which weights.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::builder::ProfileBuilder;
use crate::bundled::{Bundled, BundledPlugin};
use crate::calculate::guarded;
use crate::decision::CycleError;
use crate::event::{Event, EventKind, Hint};
use crate::placing::{Bind, Permit, PostBind, PreBind};
use crate::plugin::{Filter, PreFilter, Reason, Reserve, Score};
use crate::post_filter::PostFilter;
use crate::queueing::{Admittance, Held, PreEnqueue, QueueSort, Splitter, by_age, by_priority};
use crate::run::Run;

/// A plugin with what was read from it once, when the profile was built.
pub(crate) struct Entry<P: ?Sized> {
    pub(crate) name: &'static str,
    pub(crate) reasons: &'static [Reason],
    pub(crate) events: &'static [EventKind],
    pub(crate) weight: i64,
    pub(crate) bundled: Option<Bundled>,
    pub(crate) plugin: Arc<P>,
}

impl<P: ?Sized> Clone for Entry<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            reasons: self.reasons,
            events: self.events,
            weight: self.weight,
            bundled: self.bundled.clone(),
            plugin: Arc::clone(&self.plugin),
        }
    }
}

impl<P: ?Sized> Entry<P> {
    pub(crate) fn declares(&self, reason: &str) -> bool {
        self.reasons.iter().any(|declared| declared.name == reason)
    }
}

/// A place in the life of a Run where plugins are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The order of waiting Runs.
    QueueSort,
    /// Before a Run enters the queue.
    PreEnqueue,
    /// Once per cycle.
    PreFilter,
    /// Per Pod.
    Filter,
    /// When no candidate is left.
    PostFilter,
    /// Per candidate.
    Score,
    /// After the choice.
    Reserve,
    /// After the reserve.
    Permit,
    /// Before the write.
    PreBind,
    /// The write.
    Bind,
    /// After the write.
    PostBind,
    /// Before a batch is ordered.
    Splitter,
}

/// An ordered list of plugins per extension point, validated once (S-148, S-149).
///
/// Cheap to clone.
#[derive(Clone)]
pub struct Profile {
    pub(crate) queue_sort: Vec<Entry<dyn QueueSort>>,
    pub(crate) pre_enqueues: Vec<Entry<dyn PreEnqueue>>,
    pub(crate) pre_filters: Vec<Entry<dyn PreFilter>>,
    pub(crate) filters: Vec<Entry<dyn Filter>>,
    pub(crate) post_filters: Vec<Entry<dyn PostFilter>>,
    pub(crate) scores: Vec<Entry<dyn Score>>,
    pub(crate) reserves: Vec<Entry<dyn Reserve>>,
    pub(crate) permits: Vec<Entry<dyn Permit>>,
    pub(crate) pre_binds: Vec<Entry<dyn PreBind>>,
    pub(crate) binds: Vec<Entry<dyn Bind>>,
    pub(crate) post_binds: Vec<Entry<dyn PostBind>>,
    pub(crate) splitter: Vec<Entry<dyn Splitter>>,
    pub(crate) explain: bool,
    pub(crate) percentage: Option<u8>,
}

impl Profile {
    /// Starts a profile from nothing: it accepts every Pod and prefers the first name.
    ///
    /// [`crate::plugins::standard`] starts from the default plugins.
    pub fn builder() -> ProfileBuilder {
        ProfileBuilder::default()
    }

    /// Goes on from this profile.
    pub fn to_builder(&self) -> ProfileBuilder {
        ProfileBuilder::from(self.clone())
    }

    /// Returns the profile as one whose decisions do not explain themselves.
    pub fn without_explanations(mut self) -> Self {
        self.explain = false;
        self
    }

    /// Returns the names of the filters, in order.
    pub fn filters(&self) -> impl Iterator<Item = &'static str> {
        self.filters.iter().map(|entry| entry.name)
    }

    /// Returns the names of the plugins of a point, in order.
    pub fn plugins(&self, point: Point) -> Vec<&'static str> {
        fn names<P: ?Sized>(entries: &[Entry<P>]) -> Vec<&'static str> {
            entries.iter().map(|entry| entry.name).collect()
        }
        match point {
            Point::QueueSort => names(&self.queue_sort),
            Point::PreEnqueue => names(&self.pre_enqueues),
            Point::PreFilter => names(&self.pre_filters),
            Point::Filter => names(&self.filters),
            Point::PostFilter => names(&self.post_filters),
            Point::Score => names(&self.scores),
            Point::Reserve => names(&self.reserves),
            Point::Permit => names(&self.permits),
            Point::PreBind => names(&self.pre_binds),
            Point::Bind => names(&self.binds),
            Point::PostBind => names(&self.post_binds),
            Point::Splitter => names(&self.splitter),
        }
    }

    /// Returns the names and weights of the score plugins, in order.
    pub fn scores(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.scores.iter().map(|entry| (entry.name, entry.weight))
    }

    /// Returns the percentage of Pods at which the search for candidates ends; all when absent (S-164).
    pub fn percentage(&self) -> Option<u8> {
        self.percentage
    }

    /// Returns the plugins that a cycle asks, if all of them come with this crate.
    ///
    /// An implementation that knows them by heart may decide faster; its
    /// decisions must be those of [`crate::calculate`].
    pub fn bundled(&self) -> Option<Vec<BundledPlugin>> {
        fn all<P: ?Sized>(point: Point, entries: &[Entry<P>]) -> Option<Vec<BundledPlugin>> {
            let known = entries.iter().map(|entry| {
                Some(BundledPlugin {
                    point,
                    weight: entry.weight,
                    plugin: entry.bundled.clone()?,
                })
            });
            known.collect()
        }
        let points = [
            all(Point::PreFilter, &self.pre_filters)?,
            all(Point::Filter, &self.filters)?,
            all(Point::PostFilter, &self.post_filters)?,
            all(Point::Score, &self.scores)?,
            all(Point::Reserve, &self.reserves)?,
        ];
        Some(points.into_iter().flatten().collect())
    }

    /// Tells whether any plugin listens to events of a kind (S-163).
    pub fn listens_to(&self, kind: EventKind) -> bool {
        let (held, pre) = (self.pre_enqueues.iter(), self.pre_filters.iter());
        let lists = (held.map(|entry| entry.events))
            .chain(pre.map(|entry| entry.events))
            .chain(self.filters.iter().map(|entry| entry.events));
        lists.into_iter().any(|events| events.contains(&kind))
    }

    /// Tells whether an event is worth a cycle for a waiting Run.
    ///
    /// `rejected_by` names the plugins that rejected or hold the Run; only they
    /// are asked. Without a name, as after a cycle over an empty pool, every
    /// plugin is. A plugin that panics is taken to say yes.
    pub fn wakes(&self, event: &Event<'_>, run: &Run, rejected_by: &[&str]) -> bool {
        fn any<P: ?Sized>(
            entries: &[Entry<P>],
            kind: EventKind,
            rejected_by: &[&str],
            hint: impl Fn(&P) -> Hint,
        ) -> bool {
            let asked = entries.iter().filter(|entry| {
                entry.events.contains(&kind)
                    && (rejected_by.is_empty() || rejected_by.contains(&entry.name))
            });
            asked
                .into_iter()
                .any(|entry| guarded(entry.name, || hint(&entry.plugin)) != Ok(Hint::Skip))
        }
        let kind = event.kind();
        event.concerns(run)
            && (any(&self.pre_enqueues, kind, rejected_by, |p| {
                p.hint(event, run)
            }) || any(&self.pre_filters, kind, rejected_by, |p| p.hint(event, run))
                || any(&self.filters, kind, rejected_by, |p| p.hint(event, run)))
    }

    /// Returns the kinds of events that can help a Run that these plugins rejected.
    pub fn events_of(&self, rejected_by: &[&str]) -> Vec<EventKind> {
        fn of<P: ?Sized>(entries: &[Entry<P>], rejected_by: &[&str], kinds: &mut Vec<EventKind>) {
            let asked = entries
                .iter()
                .filter(|e| rejected_by.is_empty() || rejected_by.contains(&e.name));
            kinds.extend(asked.flat_map(|entry| entry.events));
        }
        let mut kinds = Vec::new();
        of(&self.pre_enqueues, rejected_by, &mut kinds);
        of(&self.pre_filters, rejected_by, &mut kinds);
        of(&self.filters, rejected_by, &mut kinds);
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Returns who holds a Run back from the queue, if anybody does.
    ///
    /// # Errors
    ///
    /// Returns the plugin that panicked or gave an undeclared reason.
    pub fn held(&self, run: &Run, now: Timestamp) -> Result<Option<Held>, CycleError> {
        for entry in &self.pre_enqueues {
            let plugin = entry.name;
            match guarded(plugin, || entry.plugin.admit(run, now))? {
                Admittance::Admit => {}
                Admittance::Hold(reason) if entry.declares(reason) => {
                    return Ok(Some(Held { plugin, reason }));
                }
                Admittance::Hold(reason) => {
                    return Err(CycleError::UndeclaredReason { plugin, reason });
                }
            }
        }
        Ok(None)
    }

    /// Says which of two waiting Runs goes first; never equal for different UIDs.
    pub fn compare(&self, a: &Run, b: &Run, now: Timestamp) -> Ordering {
        let Some(entry) = self.queue_sort.first() else {
            return by_priority(a, b);
        };
        guarded(entry.name, || entry.plugin.compare(a, b, now)).map_or_else(
            |_| by_priority(a, b),
            |order| order.then_with(|| by_age(a, b)),
        )
    }

    /// Puts waiting Runs into the order of the queue.
    ///
    /// If the plugin panics or contradicts itself, the default order holds.
    pub fn sort(&self, runs: &mut [Arc<Run>], now: Timestamp) {
        let mut sorted = runs.to_vec();
        let done = guarded("QueueSort", || {
            sorted.sort_by(|a, b| self.compare(a, b, now));
        });
        if done.is_err() {
            sorted = runs.to_vec();
            sorted.sort_by(|a, b| by_priority(a, b));
        }
        runs.clone_from_slice(&sorted);
    }

    /// Returns the number of candidates at which the search among `pods` ends (S-164).
    pub(crate) fn candidates_of(&self, pods: usize) -> usize {
        self.percentage.map_or(pods, |percentage| {
            pods.saturating_mul(usize::from(percentage)).div_ceil(100)
        })
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("filters", &self.filters().collect::<Vec<_>>())
            .field("scores", &self.scores().collect::<Vec<_>>())
            .field("explain", &self.explain)
            .finish_non_exhaustive()
    }
}
