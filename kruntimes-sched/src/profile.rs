//! Which plugins a cycle asks, in which order and with which weights.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::plugin::{Filter, PreFilter, Reason, Reserve, Score};

/// A plugin with what was read from it once, when the profile was built.
pub(crate) struct Entry<P: ?Sized> {
    pub(crate) name: &'static str,
    pub(crate) reasons: &'static [Reason],
    pub(crate) weight: i64,
    pub(crate) plugin: Arc<P>,
}

impl<P: ?Sized> Clone for Entry<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            reasons: self.reasons,
            weight: self.weight,
            plugin: Arc::clone(&self.plugin),
        }
    }
}

impl<P: ?Sized> Entry<P> {
    fn new(name: &'static str, reasons: &'static [Reason], plugin: Arc<P>) -> Self {
        Self {
            name,
            reasons,
            weight: 1,
            plugin,
        }
    }

    pub(crate) fn declares(&self, reason: &str) -> bool {
        self.reasons.iter().any(|declared| declared.name == reason)
    }
}

/// An ordered list of plugins per extension point, validated once (S-148, S-149).
#[derive(Clone)]
pub struct Profile {
    pub(crate) pre_filters: Vec<Entry<dyn PreFilter>>,
    pub(crate) filters: Vec<Entry<dyn Filter>>,
    pub(crate) scores: Vec<Entry<dyn Score>>,
    pub(crate) reserves: Vec<Entry<dyn Reserve>>,
    pub(crate) explain: bool,
}

/// Why a profile cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A plugin to be removed, moved or reweighted is not in the profile.
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
}

impl Profile {
    /// Starts a profile from nothing: it accepts every Pod and prefers the first name.
    ///
    /// [`crate::plugins::standard`] starts from the default plugins.
    pub fn builder() -> ProfileBuilder {
        ProfileBuilder {
            profile: Self {
                pre_filters: Vec::new(),
                filters: Vec::new(),
                scores: Vec::new(),
                reserves: Vec::new(),
                explain: true,
            },
            error: None,
        }
    }

    /// Returns the names of the filters, in order.
    pub fn filters(&self) -> impl Iterator<Item = &'static str> {
        self.filters.iter().map(|entry| entry.name)
    }

    /// Returns the names and weights of the score plugins, in order.
    pub fn scores(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.scores.iter().map(|entry| (entry.name, entry.weight))
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

/// Collects the plugins of a [`Profile`]. Mistakes are reported by [`ProfileBuilder::build`].
#[derive(Clone, Debug)]
pub struct ProfileBuilder {
    profile: Profile,
    error: Option<ProfileError>,
}

impl ProfileBuilder {
    /// Adds a plugin that judges a Run before any Pod is looked at.
    pub fn pre_filter(mut self, plugin: impl PreFilter + 'static) -> Self {
        let (name, reasons) = (plugin.name(), plugin.reasons());
        let entry = Entry::<dyn PreFilter>::new(name, reasons, Arc::new(plugin));
        self.profile.pre_filters.push(entry);
        self
    }

    /// Adds a filter after the others.
    pub fn filter(mut self, plugin: impl Filter + 'static) -> Self {
        self.profile.filters.push(filter_entry(plugin));
        self
    }

    /// Adds a filter before the named one.
    pub fn filter_before(mut self, other: &str, plugin: impl Filter + 'static) -> Self {
        let found = self.profile.filters.iter().position(|e| e.name == other);
        match found {
            Some(at) => self.profile.filters.insert(at, filter_entry(plugin)),
            None => self.unknown(other),
        }
        self
    }

    /// Puts a filter in the place of the named one.
    pub fn replace_filter(mut self, other: &str, plugin: impl Filter + 'static) -> Self {
        let found = self.profile.filters.iter().position(|e| e.name == other);
        match found {
            Some(at) => self.profile.filters[at] = filter_entry(plugin),
            None => self.unknown(other),
        }
        self
    }

    /// Adds a score plugin after the others.
    pub fn score(mut self, weight: i64, plugin: impl Score + 'static) -> Self {
        self.profile.scores.push(score_entry(weight, plugin));
        self
    }

    /// Puts a score plugin in the place of the named one.
    pub fn replace_score(mut self, other: &str, weight: i64, plugin: impl Score + 'static) -> Self {
        let found = self.profile.scores.iter().position(|e| e.name == other);
        match found {
            Some(at) => self.profile.scores[at] = score_entry(weight, plugin),
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
        let name = plugin.name();
        let entry = Entry::<dyn Reserve>::new(name, &[], Arc::new(plugin));
        self.profile.reserves.push(entry);
        self
    }

    /// Removes the named plugin from every extension point.
    pub fn remove(mut self, name: &str) -> Self {
        fn drop_from<P: ?Sized>(entries: &mut Vec<Entry<P>>, name: &str) -> bool {
            let before = entries.len();
            entries.retain(|entry| entry.name != name);
            entries.len() < before
        }
        let profile = &mut self.profile;
        let removed = [
            drop_from(&mut profile.pre_filters, name),
            drop_from(&mut profile.filters, name),
            drop_from(&mut profile.scores, name),
            drop_from(&mut profile.reserves, name),
        ];
        if !removed.contains(&true) {
            self.unknown(name);
        }
        self
    }

    /// Says whether decisions carry an explanation; they do unless told otherwise.
    pub fn explain(mut self, explain: bool) -> Self {
        self.profile.explain = explain;
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
        check_names(&profile.pre_filters)?;
        check_names(&profile.filters)?;
        check_names(&profile.scores)?;
        check_names(&profile.reserves)?;
        for entry in &profile.pre_filters {
            check_reasons(entry.name, entry.reasons)?;
        }
        for entry in &profile.filters {
            check_reasons(entry.name, entry.reasons)?;
        }
        match profile.scores.iter().find(|entry| entry.weight <= 0) {
            Some(entry) => Err(ProfileError::InvalidWeight(entry.weight)),
            None => Ok(profile),
        }
    }

    fn unknown(&mut self, name: &str) {
        self.error
            .get_or_insert_with(|| ProfileError::UnknownPlugin(name.to_owned()));
    }
}

fn filter_entry(plugin: impl Filter + 'static) -> Entry<dyn Filter> {
    let (name, reasons) = (plugin.name(), plugin.reasons());
    Entry::<dyn Filter>::new(name, reasons, Arc::new(plugin))
}

fn score_entry(weight: i64, plugin: impl Score + 'static) -> Entry<dyn Score> {
    let name = plugin.name();
    Entry {
        weight,
        ..Entry::<dyn Score>::new(name, &[], Arc::new(plugin))
    }
}

fn check_names<P: ?Sized>(entries: &[Entry<P>]) -> Result<(), ProfileError> {
    let mut seen = BTreeSet::new();
    match entries.iter().find(|entry| !seen.insert(entry.name)) {
        Some(entry) => Err(ProfileError::DuplicatePlugin(entry.name.to_owned())),
        None => Ok(()),
    }
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
