//! All kinds that are served, found by the words of a request path.

use std::{collections::BTreeMap, sync::Arc};

use crate::{definitions::Definitions, kind::Served, openapi::OpenApi};

/// The table of served kinds; fixed once the service runs.
#[derive(Default)]
pub(crate) struct Registry {
    kinds: Vec<Arc<Served>>,
    served: BTreeMap<(String, String, String), Arc<Served>>,
    /// The definitions behind the custom kinds.
    pub(crate) definitions: Definitions,
    /// The schemas of everything, once somebody has asked for them.
    pub(crate) openapi: OpenApi,
}

impl Registry {
    /// Adds one version; the first version of a shelf speaks for its kind in background work.
    pub(crate) fn add(&mut self, served: Served) -> Arc<Served> {
        let served = Arc::new(served);
        let place = (
            served.group.clone(),
            served.version.clone(),
            served.kind.plural.clone(),
        );
        if served.kind.shelf == self.kinds.len() {
            self.kinds.push(Arc::clone(&served));
        }
        self.served.insert(place, Arc::clone(&served));
        served
    }

    /// Returns the number the next new kind gets as its shelf.
    pub(crate) fn next_shelf(&self) -> usize {
        self.kinds.len()
    }

    /// Whether a group already has this plural, in whatever version.
    pub(crate) fn has_plural(&self, group: &str, plural: &str) -> bool {
        self.served
            .keys()
            .any(|(other, _, name)| other == group && name == plural)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// Returns the version that speaks for the kind on a shelf.
    pub(crate) fn on_shelf(&self, shelf: usize) -> &Arc<Served> {
        &self.kinds[shelf]
    }

    /// Lists one entry per stored kind.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.kinds.iter()
    }

    /// Lists the non-core groups with their versions, in order.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (group, version, _) in self.served.keys().filter(|place| !place.0.is_empty()) {
            let versions = groups.entry(group).or_default();
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
        groups
    }

    /// Lists every group and version, the core group included, as often as it has kinds.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        let places = self.served.keys();
        places.map(|(group, version, _)| (group.as_str(), version.as_str()))
    }

    /// Lists what one group and version serves.
    pub(crate) fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Served>> {
        self.served
            .values()
            .filter(move |served| served.group == group && served.version == version)
    }
}
