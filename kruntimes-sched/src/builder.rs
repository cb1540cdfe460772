//! How a profile is put together and checked.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bundled::Bundled;
use crate::event::EventKind;
use crate::placing::{Bind, Permit, PostBind, PreBind};
use crate::plugin::{Filter, PreFilter, Reason, Reserve, Score};
use crate::post_filter::PostFilter;
use crate::profile::{Entry, Point, Profile};
use crate::queueing::{PreEnqueue, QueueSort, Splitter};

/// Why a profile cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A plugin to be removed, moved, reweighted or made by name does not exist.
    #[error("unknown plugin \"{0}\"")]
    UnknownPlugin(String),
    /// Two plugins of one extension point have the same name.
    #[error("duplicate plugin \"{0}\"")]
    DuplicatePlugin(String),
    /// A score plugin has a weight that is not positive.
    #[error("initialize score plugin: invalid weight {0}")]
    InvalidWeight(i64),
    /// A plugin declares the same reason twice.
    #[error("plugin \"{plugin}\" declares the reason \"{reason}\" twice")]
    DuplicateReason {
        /// The plugin.
        plugin: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A message template uses something other than `{runtime}` and `{workspace}`.
    #[error(
        "the message of reason \"{reason}\" of plugin \"{plugin}\" uses an unknown placeholder"
    )]
    UnknownPlaceholder {
        /// The plugin.
        plugin: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The percentage of Pods is not 1 to 100.
    #[error("percentage of pods {0} is outside 1..100")]
    InvalidPercentage(u8),
    /// A plugin needs an argument that is missing or has another form.
    #[error("argument \"{argument}\" of plugin \"{plugin}\": {cause}")]
    Argument {
        /// The plugin.
        plugin: String,
        /// The argument.
        argument: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Two profiles of one process have the same name.
    #[error("duplicate profile \"{0}\"")]
    DuplicateProfile(String),
    /// Two profiles of one process order their Runs differently.
    #[error("profile \"{0}\" orders runs differently from the others")]
    SecondQueueSort(String),
}

/// Collects the plugins of a [`Profile`]. Mistakes are reported by [`ProfileBuilder::build`].
#[derive(Clone, Debug)]
pub struct ProfileBuilder {
    profile: Profile,
    error: Option<ProfileError>,
}

impl Default for ProfileBuilder {
    fn default() -> Self {
        Self::from(Profile {
            queue_sort: Vec::new(),
            pre_enqueues: Vec::new(),
            pre_filters: Vec::new(),
            filters: Vec::new(),
            post_filters: Vec::new(),
            scores: Vec::new(),
            reserves: Vec::new(),
            permits: Vec::new(),
            pre_binds: Vec::new(),
            binds: Vec::new(),
            post_binds: Vec::new(),
            splitter: Vec::new(),
            explain: true,
            percentage: None,
        })
    }
}

impl From<Profile> for ProfileBuilder {
    fn from(profile: Profile) -> Self {
        Self {
            profile,
            error: None,
        }
    }
}

/// Makes the entry of a plugin that declares no reasons.
macro_rules! entry {
    ($plugin:expr, $point:ident) => {{
        let plugin = $plugin;
        let entry: Entry<dyn $point> = Entry {
            name: plugin.name(),
            reasons: &[],
            events: &[],
            weight: 1,
            bundled: Bundled::of(&plugin as &dyn Any),
            plugin: Arc::new(plugin),
        };
        entry
    }};
    ($plugin:expr, $point:ident, reasons) => {{
        let plugin = $plugin;
        let (reasons, events): (&'static [Reason], &'static [EventKind]) =
            (plugin.reasons(), plugin.events());
        Entry {
            reasons,
            events,
            ..entry!(plugin, $point)
        }
    }};
}

impl ProfileBuilder {
    /// Orders waiting Runs by a plugin instead of by priority and age; replaces an earlier one.
    pub fn queue_sort(mut self, plugin: impl QueueSort + 'static) -> Self {
        self.profile.queue_sort = vec![entry!(plugin, QueueSort)];
        self
    }

    /// Divides batches among tenants; replaces an earlier plugin.
    pub fn splitter(mut self, plugin: impl Splitter + 'static) -> Self {
        self.profile.splitter = vec![entry!(plugin, Splitter)];
        self
    }

    /// Adds a plugin that may hold Runs back from the queue.
    pub fn pre_enqueue(mut self, plugin: impl PreEnqueue + 'static) -> Self {
        let entry = entry!(plugin, PreEnqueue, reasons);
        self.profile.pre_enqueues.push(entry);
        self
    }

    /// Adds a plugin that judges a Run before any Pod is looked at.
    pub fn pre_filter(mut self, plugin: impl PreFilter + 'static) -> Self {
        let entry = entry!(plugin, PreFilter, reasons);
        self.profile.pre_filters.push(entry);
        self
    }

    /// Adds a filter after the others.
    pub fn filter(mut self, plugin: impl Filter + 'static) -> Self {
        self.profile.filters.push(entry!(plugin, Filter, reasons));
        self
    }

    /// Adds a filter before the named one.
    pub fn filter_before(mut self, other: &str, plugin: impl Filter + 'static) -> Self {
        let entry = entry!(plugin, Filter, reasons);
        let found = self.profile.filters.iter().position(|e| e.name == other);
        match found {
            Some(at) => self.profile.filters.insert(at, entry),
            None => self.unknown(other),
        }
        self
    }

    /// Puts a filter in the place of the named one.
    pub fn replace_filter(mut self, other: &str, plugin: impl Filter + 'static) -> Self {
        let entry = entry!(plugin, Filter, reasons);
        let mut filters = self.profile.filters.iter_mut();
        match filters.find(|filter| filter.name == other) {
            Some(filter) => *filter = entry,
            None => self.unknown(other),
        }
        self
    }

    /// Adds a plugin that looks for room when nothing fits; none does unless added (S-160).
    pub fn post_filter(mut self, plugin: impl PostFilter + 'static) -> Self {
        self.profile.post_filters.push(entry!(plugin, PostFilter));
        self
    }

    /// Adds a score plugin after the others.
    pub fn score(mut self, weight: i64, plugin: impl Score + 'static) -> Self {
        let entry = entry!(plugin, Score);
        self.profile.scores.push(Entry { weight, ..entry });
        self
    }

    /// Puts a score plugin in the place of the named one.
    pub fn replace_score(mut self, other: &str, weight: i64, plugin: impl Score + 'static) -> Self {
        let entry = entry!(plugin, Score);
        let mut scores = self.profile.scores.iter_mut();
        match scores.find(|score| score.name == other) {
            Some(score) => *score = Entry { weight, ..entry },
            None => self.unknown(other),
        }
        self
    }

    /// Gives the named score plugin another weight.
    pub fn reweight(mut self, name: &str, weight: i64) -> Self {
        match self.profile.scores.iter_mut().find(|e| e.name == name) {
            Some(entry) => entry.weight = weight,
            None => self.unknown(name),
        }
        self
    }

    /// Adds a plugin that takes something along with the place.
    pub fn reserve(mut self, plugin: impl Reserve + 'static) -> Self {
        self.profile.reserves.push(entry!(plugin, Reserve));
        self
    }

    /// Adds a plugin that may make a reserved Run wait.
    pub fn permit(mut self, plugin: impl Permit + 'static) -> Self {
        self.profile.permits.push(entry!(plugin, Permit));
        self
    }

    /// Adds a plugin that says what has to be done before the write.
    pub fn pre_bind(mut self, plugin: impl PreBind + 'static) -> Self {
        self.profile.pre_binds.push(entry!(plugin, PreBind));
        self
    }

    /// Adds a plugin that may take the write upon itself.
    pub fn bind(mut self, plugin: impl Bind + 'static) -> Self {
        self.profile.binds.push(entry!(plugin, Bind));
        self
    }

    /// Adds a plugin that is told about successful binds.
    pub fn post_bind(mut self, plugin: impl PostBind + 'static) -> Self {
        self.profile.post_binds.push(entry!(plugin, PostBind));
        self
    }

    /// Removes the named plugin from every extension point, and with it its wake-ups (S-163).
    pub fn remove(mut self, name: &str) -> Self {
        fn drop_from<P: ?Sized>(entries: &mut Vec<Entry<P>>, name: &str) -> bool {
            let before = entries.len();
            entries.retain(|entry| entry.name != name);
            entries.len() < before
        }
        let profile = &mut self.profile;
        let removed = [
            drop_from(&mut profile.queue_sort, name),
            drop_from(&mut profile.pre_enqueues, name),
            drop_from(&mut profile.pre_filters, name),
            drop_from(&mut profile.filters, name),
            drop_from(&mut profile.post_filters, name),
            drop_from(&mut profile.scores, name),
            drop_from(&mut profile.reserves, name),
            drop_from(&mut profile.permits, name),
            drop_from(&mut profile.pre_binds, name),
            drop_from(&mut profile.binds, name),
            drop_from(&mut profile.post_binds, name),
            drop_from(&mut profile.splitter, name),
        ];
        if !removed.contains(&true) {
            self.unknown(name);
        }
        self
    }

    /// Moves the named plugins of a point to its front, in this order.
    pub fn reorder(mut self, point: Point, names: &[&str]) -> Self {
        fn front<P: ?Sized>(entries: &mut [Entry<P>], names: &[&str]) -> Option<String> {
            let missing = |name: &&&str| !entries.iter().any(|entry| entry.name == **name);
            let unknown = names.iter().find(missing).map(|name| (*name).to_owned());
            let rank = |entry: &Entry<P>| names.iter().position(|name| *name == entry.name);
            entries.sort_by_key(|entry| rank(entry).unwrap_or(names.len()));
            unknown
        }
        let profile = &mut self.profile;
        let unknown = match point {
            Point::QueueSort => front(&mut profile.queue_sort, names),
            Point::PreEnqueue => front(&mut profile.pre_enqueues, names),
            Point::PreFilter => front(&mut profile.pre_filters, names),
            Point::Filter => front(&mut profile.filters, names),
            Point::PostFilter => front(&mut profile.post_filters, names),
            Point::Score => front(&mut profile.scores, names),
            Point::Reserve => front(&mut profile.reserves, names),
            Point::Permit => front(&mut profile.permits, names),
            Point::PreBind => front(&mut profile.pre_binds, names),
            Point::Bind => front(&mut profile.binds, names),
            Point::PostBind => front(&mut profile.post_binds, names),
            Point::Splitter => front(&mut profile.splitter, names),
        };
        if let Some(name) = unknown {
            self.unknown(&name);
        }
        self
    }

    /// Says whether decisions carry an explanation; they do unless told otherwise.
    pub fn explain(mut self, explain: bool) -> Self {
        self.profile.explain = explain;
        self
    }

    /// Ends the search for candidates at a percentage of the Pods, starting at a
    /// Pod that depends on the Run's UID alone (S-164). All are found unless told otherwise.
    pub fn percentage(mut self, percentage: u8) -> Self {
        self.profile.percentage = Some(percentage);
        self
    }

    /// Checks the profile.
    ///
    /// # Errors
    ///
    /// Returns the first mistake, so that none is found by the first Run (S-149).
    pub fn build(self) -> Result<Profile, ProfileError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let profile = self.profile;
        check(&profile.pre_enqueues)?;
        check(&profile.pre_filters)?;
        check(&profile.filters)?;
        check(&profile.post_filters)?;
        check(&profile.scores)?;
        check(&profile.reserves)?;
        check(&profile.permits)?;
        check(&profile.pre_binds)?;
        check(&profile.binds)?;
        check(&profile.post_binds)?;
        let percentage = profile.percentage;
        if let Some(wrong) = percentage.filter(|percentage| !(1..=100).contains(percentage)) {
            return Err(ProfileError::InvalidPercentage(wrong));
        }
        match profile.scores.iter().find(|entry| entry.weight <= 0) {
            Some(entry) => Err(ProfileError::InvalidWeight(entry.weight)),
            None => Ok(profile),
        }
    }

    /// Adds a filter, or puts it where its namesake is.
    pub(crate) fn put_filter(mut self, plugin: impl Filter + 'static) -> Self {
        put(&mut self.profile.filters, entry!(plugin, Filter, reasons));
        self
    }

    /// Adds a score plugin, or puts it where its namesake is.
    pub(crate) fn put_score(mut self, weight: i64, plugin: impl Score + 'static) -> Self {
        let entry = entry!(plugin, Score);
        put(&mut self.profile.scores, Entry { weight, ..entry });
        self
    }

    /// Adds a reserve plugin, or puts it where its namesake is.
    pub(crate) fn put_reserve(mut self, plugin: impl Reserve + 'static) -> Self {
        put(&mut self.profile.reserves, entry!(plugin, Reserve));
        self
    }

    /// Adds a pre-bind plugin, or puts it where its namesake is.
    pub(crate) fn put_pre_bind(mut self, plugin: impl PreBind + 'static) -> Self {
        put(&mut self.profile.pre_binds, entry!(plugin, PreBind));
        self
    }

    fn unknown(&mut self, name: &str) {
        self.error
            .get_or_insert_with(|| ProfileError::UnknownPlugin(name.to_owned()));
    }
}

fn put<P: ?Sized>(entries: &mut Vec<Entry<P>>, entry: Entry<P>) {
    match entries.iter_mut().find(|other| other.name == entry.name) {
        Some(other) => *other = entry,
        None => entries.push(entry),
    }
}

fn check<P: ?Sized>(entries: &[Entry<P>]) -> Result<(), ProfileError> {
    let mut seen = BTreeSet::new();
    if let Some(entry) = entries.iter().find(|entry| !seen.insert(entry.name)) {
        return Err(ProfileError::DuplicatePlugin(entry.name.to_owned()));
    }
    entries
        .iter()
        .try_for_each(|entry| check_reasons(entry.name, entry.reasons))
}

fn check_reasons(plugin: &'static str, reasons: &'static [Reason]) -> Result<(), ProfileError> {
    let mut seen = BTreeSet::new();
    for declared in reasons {
        let reason = declared.name;
        if !seen.insert(reason) {
            return Err(ProfileError::DuplicateReason { plugin, reason });
        }
        let rest = declared.message.unwrap_or_default();
        if rest
            .replace("{runtime}", "")
            .replace("{workspace}", "")
            .contains(['{', '}'])
        {
            return Err(ProfileError::UnknownPlaceholder { plugin, reason });
        }
    }
    Ok(())
}
