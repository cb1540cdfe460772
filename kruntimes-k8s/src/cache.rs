//! A local, indexed copy of one kind that reads its own writes.

mod backoff;
mod named;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::{Stream, StreamExt as _, stream};
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use backoff::WatchBackoff;
use named::Guarded;
pub use named::Named;
pub(crate) use named::api;

/// Deleted UIDs that are remembered, so that a late answer revives nothing.
const TOMBSTONES: usize = 4096;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Makes a key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Reads the key of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What may be cached.
pub trait Cached:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Cached for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// One change of the local copy.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object is new or has a newer version.
    Applied {
        /// What was known before.
        old: Option<Arc<K>>,
        /// What is known now.
        new: Arc<K>,
    },
    /// An object is gone.
    Deleted(Arc<K>),
    /// An object cannot be decoded. Nothing is cached for it.
    Undecodable {
        /// Which object.
        key: ObjectKey,
        /// Why, naming the field.
        error: String,
    },
    /// The first complete list is in.
    Synced,
}

/// Who said that an object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// The watch, which tells things in order: what it tells later is newer. The object may only have
    /// left the selector, and come back.
    Watch,
    /// The answer to an own request: the watch may still tell what was before.
    Answer,
}

type IndexFn<K> = fn(&K) -> Vec<String>;

/// A local copy of one kind. Clones share it.
///
/// [`Cache::follow`] feeds it from a watch; [`Cache::written`] feeds it from
/// the answers of the owner's own writes, so that a reconcile never acts on a
/// version older than what it wrote itself. Versions are compared as numbers;
/// where they are none, the later arrival counts as newer.
#[derive(Debug)]
pub struct Cache<K: Cached> {
    shared: Arc<Shared<K>>,
}

impl<K: Cached> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

#[derive(Debug)]
struct Shared<K> {
    contents: RwLock<Contents<K>>,
    indexes: Vec<(&'static str, IndexFn<K>)>,
    trim: fn(&mut K),
    synced: watch::Sender<bool>,
}

#[derive(Debug)]
struct Contents<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    index: BTreeMap<(&'static str, String), BTreeSet<ObjectKey>>,
    /// Objects of a list that is not complete yet.
    arriving: Option<BTreeMap<ObjectKey, Arc<K>>>,
    /// Objects whose absence from that list proves nothing: written meanwhile, or undecodable in it.
    doubtful: BTreeSet<ObjectKey>,
    /// UIDs that are gone, and who said so.
    dead: BTreeMap<String, Witness>,
    dead_order: VecDeque<String>,
}

impl<K: Cached> Default for Cache<K> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<K: Cached> Cache<K> {
    /// Makes an empty cache with the named indexes, each a function to index values.
    pub fn new(indexes: &[(&'static str, IndexFn<K>)]) -> Self {
        Self::trimmed(indexes, |_| ())
    }

    /// Makes one that keeps of every object what `trim` leaves: identity, version, what indexes look at.
    pub fn trimmed(indexes: &[(&'static str, IndexFn<K>)], trim: fn(&mut K)) -> Self {
        Self {
            shared: Arc::new(Shared {
                contents: RwLock::new(Contents {
                    objects: BTreeMap::new(),
                    index: BTreeMap::new(),
                    arriving: None,
                    doubtful: BTreeSet::new(),
                    dead: BTreeMap::new(),
                    dead_order: VecDeque::new(),
                }),
                indexes: indexes.to_vec(),
                trim,
                synced: watch::Sender::new(false),
            }),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents<K>> {
        self.shared
            .contents
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents<K>> {
        self.shared
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns one object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns all objects in key order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// Returns the objects an index holds under `value`, in key order.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<K>> {
        let contents = self.read();
        contents
            .index
            .get(&(index, value.to_owned()))
            .into_iter()
            .flatten()
            .filter_map(|key| contents.objects.get(key).cloned())
            .collect()
    }

    /// Tells whether the first complete list is in.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the first complete list is in.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.shared.synced.subscribe().wait_for(|done| *done).await;
    }

    /// Takes in the answer to an own write.
    ///
    /// Returns the change it made; the watch will not report this version again.
    pub fn written(&self, mut object: K) -> Option<Change<K>> {
        (self.shared.trim)(&mut object);
        let mut contents = self.write();
        if contents.arriving.is_some() {
            contents.doubtful.insert(ObjectKey::of(&object));
        }
        if let Some(uid) = &object.meta().uid
            && contents.dead.contains_key(uid)
        {
            return None;
        }
        self.upsert(&mut contents, Arc::new(object))
    }

    /// Takes in that an own request found the object gone.
    ///
    /// `uid` is that of the object the request was about: one that was made
    /// again under the same name meanwhile is left alone.
    pub fn vanished(&self, key: &ObjectKey, uid: Option<&str>) -> Option<Change<K>> {
        self.delete(&mut self.write(), key, Some(uid?), Witness::Answer)
            .map(Change::Deleted)
    }

    /// Watches one namespace, or all, for ever; keeps the cache up to date and reports what changed.
    ///
    /// An object that cannot be decoded does not stop the others.
    pub fn follow(
        &self,
        client: Client,
        namespace: Option<&str>,
        config: watcher::Config,
    ) -> impl Stream<Item = Change<K>> + use<K> {
        let names = ApiResource::erase::<K>(&());
        self.follow_named(client, namespace, &names, config)
    }

    /// As [`Self::follow`], for objects that the API has under other names.
    pub fn follow_named(
        &self,
        client: Client,
        namespace: Option<&str>,
        names: &ApiResource,
        config: watcher::Config,
    ) -> impl Stream<Item = Change<K>> + use<K> {
        let cache = self.clone();
        watcher(named::guarded::<K>(client, namespace, names), config)
            .backoff(WatchBackoff::default())
            .filter_map(|event| async move {
                event
                    .inspect_err(|error| tracing::warn!(%error, "watch failed, it is repeated"))
                    .ok()
            })
            .flat_map(move |event| stream::iter(cache.absorb(named::plain(event))))
    }

    fn absorb(&self, event: Event<Guarded<K>>) -> Vec<Change<K>> {
        let mut contents = self.write();
        match event {
            Event::Init => {
                contents.arriving = Some(BTreeMap::new());
                contents.doubtful.clear();
                Vec::new()
            }
            Event::InitApply(object) => match self.decoded(object) {
                Ok(object) => {
                    let arriving = contents.arriving.get_or_insert_default();
                    arriving.insert(ObjectKey::of(object.as_ref()), object);
                    Vec::new()
                }
                Err(change) => {
                    if let Change::Undecodable { key, .. } = &change {
                        contents.doubtful.insert(key.clone());
                    }
                    vec![change]
                }
            },
            Event::InitDone => {
                let changes = self.swap(&mut contents);
                drop(contents);
                let first = !self.shared.synced.send_replace(true);
                changes
                    .into_iter()
                    .chain(first.then_some(Change::Synced))
                    .collect()
            }
            Event::Apply(object) => match self.decoded(object) {
                Ok(object) => self.told(&mut contents, object).into_iter().collect(),
                Err(change) => vec![change],
            },
            Event::Delete(object) => {
                let key = ObjectKey::of(&object);
                let uid = object.meta().uid.clone();
                if let Some(witness) = uid.as_ref().and_then(|uid| contents.dead.get_mut(uid)) {
                    *witness = Witness::Watch;
                }
                self.delete(&mut contents, &key, uid.as_deref(), Witness::Watch)
                    .map(Change::Deleted)
                    .into_iter()
                    .collect()
            }
        }
    }

    fn decoded(&self, object: Guarded<K>) -> Result<Arc<K>, Change<K>> {
        let key = ObjectKey::of(&object);
        let mut object = object.0.map_err(|invalid| {
            let error = invalid.error;
            Change::Undecodable { key, error }
        })?;
        (self.shared.trim)(&mut object);
        Ok(Arc::new(object))
    }

    /// Replaces the contents by a complete list.
    fn swap(&self, contents: &mut Contents<K>) -> Vec<Change<K>> {
        let arriving = contents.arriving.take().unwrap_or_default();
        let doubtful = std::mem::take(&mut contents.doubtful);
        let gone: Vec<ObjectKey> = contents
            .objects
            .keys()
            .filter(|key| !arriving.contains_key(*key))
            .cloned()
            .collect();
        let mut changes: Vec<Change<K>> = gone
            .iter()
            .filter_map(|key| {
                // What may live on is taken in again when the watch tells of it.
                let old = if doubtful.contains(key) {
                    self.drop_object(contents, key)
                } else {
                    self.remove(contents, key, Witness::Watch)
                };
                old.map(Change::Deleted)
            })
            .collect();
        for object in arriving.into_values() {
            // A list knows better who bears a name now, unless the name was written to meanwhile.
            let key = ObjectKey::of(object.as_ref());
            if let Some(old) = contents.objects.get(&key)
                && !same_object(old.as_ref(), object.as_ref())
                && !doubtful.contains(&key)
            {
                let old = self.remove(contents, &key, Witness::Watch);
                changes.extend(old.map(Change::Deleted));
            }
            changes.extend(self.told(contents, object));
        }
        changes
    }

    /// Takes in what the watch or a list tells.
    fn told(&self, contents: &mut Contents<K>, new: Arc<K>) -> Option<Change<K>> {
        if let Some(uid) = &new.meta().uid {
            match contents.dead.get(uid) {
                Some(Witness::Answer) => return None,
                Some(Witness::Watch) => drop(contents.dead.remove(uid)),
                None => {}
            }
        }
        self.upsert(contents, new)
    }

    fn upsert(&self, contents: &mut Contents<K>, new: Arc<K>) -> Option<Change<K>> {
        let key = ObjectKey::of(new.as_ref());
        let old = contents.objects.get(&key).cloned();
        if let Some(old) = &old {
            // Of two objects of one name, too, the one with the higher version came later.
            if !is_newer(new.as_ref(), old.as_ref()) {
                return None;
            }
            self.unindex(contents, &key, old);
            if !same_object(old.as_ref(), new.as_ref()) {
                contents.bury(old.as_ref(), Witness::Answer);
            }
        }
        for (name, values) in &self.shared.indexes {
            for value in values(&new) {
                let keys = contents.index.entry((name, value)).or_default();
                keys.insert(key.clone());
            }
        }
        contents.objects.insert(key, Arc::clone(&new));
        Some(Change::Applied { old, new })
    }

    fn delete(
        &self,
        contents: &mut Contents<K>,
        key: &ObjectKey,
        uid: Option<&str>,
        witness: Witness,
    ) -> Option<Arc<K>> {
        let known = contents.objects.get(key)?;
        // A deletion of an earlier object of this name says nothing about the present one.
        if uid.is_some() && known.meta().uid.as_deref() != uid {
            return None;
        }
        self.remove(contents, key, witness)
    }

    fn remove(
        &self,
        contents: &mut Contents<K>,
        key: &ObjectKey,
        witness: Witness,
    ) -> Option<Arc<K>> {
        let old = self.drop_object(contents, key)?;
        contents.bury(old.as_ref(), witness);
        Some(old)
    }

    fn drop_object(&self, contents: &mut Contents<K>, key: &ObjectKey) -> Option<Arc<K>> {
        let old = contents.objects.remove(key)?;
        self.unindex(contents, key, &old);
        Some(old)
    }

    fn unindex(&self, contents: &mut Contents<K>, key: &ObjectKey, old: &K) {
        for (name, values) in &self.shared.indexes {
            for value in values(old) {
                let slot = (*name, value);
                if let Some(keys) = contents.index.get_mut(&slot) {
                    keys.remove(key);
                    if keys.is_empty() {
                        contents.index.remove(&slot);
                    }
                }
            }
        }
    }
}

impl<K: Resource> Contents<K> {
    /// Remembers that an object is gone for good.
    fn bury(&mut self, old: &K, witness: Witness) {
        let Some(uid) = old.uid() else {
            return;
        };
        if self.dead.insert(uid.clone(), witness).is_none() {
            self.dead_order.push_back(uid);
            if self.dead_order.len() > TOMBSTONES
                && let Some(oldest) = self.dead_order.pop_front()
            {
                self.dead.remove(&oldest);
            }
        }
    }
}

fn same_object<K: Resource>(a: &K, b: &K) -> bool {
    a.meta().uid == b.meta().uid
}

fn is_newer<K: Resource>(new: &K, old: &K) -> bool {
    let version =
        |object: &K| -> Option<u64> { object.meta().resource_version.as_deref()?.parse().ok() };
    match (version(new), version(old)) {
        (Some(new), Some(old)) => new > old,
        _ => new.meta().resource_version != old.meta().resource_version,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn object(name: &str, uid: &str, version: &str, color: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some("ns".into()),
                name: Some(name.into()),
                uid: Some(uid.into()),
                resource_version: Some(version.into()),
                labels: Some([("color".to_owned(), color.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn guarded(object: ConfigMap) -> Guarded<ConfigMap> {
        Guarded(Ok(object))
    }

    fn cache() -> Cache<ConfigMap> {
        Cache::new(&[("color", |object: &ConfigMap| {
            object.labels().get("color").cloned().into_iter().collect()
        })])
    }

    fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
        objects.iter().map(|object| object.name_any()).collect()
    }

    #[test]
    fn own_writes_are_read_and_older_events_ignored() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        assert!(cache.written(object("a", "1", "12", "blue")).is_some());
        let late = cache.absorb(Event::Apply(guarded(object("a", "1", "11", "green"))));
        assert!(late.is_empty());
        let same = cache.absorb(Event::Apply(guarded(object("a", "1", "12", "blue"))));
        assert!(same.is_empty());
        assert_eq!(names(&cache.by_index("color", "blue")), ["a"]);
        assert!(cache.by_index("color", "red").is_empty());
    }

    #[test]
    fn a_late_answer_revives_nothing() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        cache.absorb(Event::Delete(guarded(object("a", "1", "13", "red"))));
        assert!(cache.written(object("a", "1", "12", "blue")).is_none());
        assert!(cache.written(object("a", "2", "14", "blue")).is_some());
        let stale = cache.absorb(Event::Delete(guarded(object("a", "1", "13", "red"))));
        assert!(stale.is_empty(), "the new object has another UID");
        assert_eq!(cache.list().len(), 1);
    }

    #[test]
    fn a_list_replaces_the_contents_only_when_it_is_complete() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "1", "red"))));
        cache.absorb(Event::Init);
        cache.absorb(Event::InitApply(guarded(object("b", "2", "2", "red"))));
        assert_eq!(names(&cache.list()), ["a"]);
        assert!(!cache.is_synced());
        let changes = cache.absorb(Event::InitDone);
        assert_eq!(names(&cache.list()), ["b"]);
        assert!(matches!(
            changes.as_slice(),
            [
                Change::Deleted(_),
                Change::Applied { old: None, .. },
                Change::Synced
            ]
        ));
        cache.absorb(Event::Init);
        let again = cache.absorb(Event::InitDone);
        assert!(matches!(again.as_slice(), [Change::Deleted(_)]));
    }

    #[test]
    fn an_object_made_while_a_list_was_on_its_way_is_followed_afterwards() {
        let cache = cache();
        cache.absorb(Event::Init);
        cache.absorb(Event::InitDone);
        cache.absorb(Event::Init);
        assert!(cache.written(object("a", "1", "12", "red")).is_some());
        cache.absorb(Event::InitDone);
        let told = cache.absorb(Event::Apply(guarded(object("a", "1", "12", "red"))));
        assert!(matches!(told.as_slice(), [Change::Applied { .. }]));
        let ended = cache.absorb(Event::Apply(guarded(object("a", "1", "13", "blue"))));
        assert!(matches!(ended.as_slice(), [Change::Applied { .. }]));
    }

    #[test]
    fn an_object_that_was_undecodable_in_a_list_is_followed_once_it_is_mended() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        cache.absorb(Event::Init);
        let broken = Guarded(Err(named::Undecodable {
            error: "no".into(),
            metadata: object("a", "1", "11", "red").metadata,
        }));
        cache.absorb(Event::InitApply(broken));
        cache.absorb(Event::InitDone);
        assert!(cache.list().is_empty());
        let mended = cache.absorb(Event::Apply(guarded(object("a", "1", "12", "red"))));
        assert!(matches!(mended.as_slice(), [Change::Applied { .. }]));
    }

    #[test]
    fn a_late_not_found_leaves_the_next_object_of_that_name_alone() {
        let cache = cache();
        let key = ObjectKey::new("ns", "a");
        cache.absorb(Event::Apply(guarded(object("a", "2", "14", "red"))));
        assert!(cache.vanished(&key, Some("1")).is_none());
        assert!(cache.vanished(&key, None).is_none());
        assert_eq!(names(&cache.list()), ["a"]);
        assert!(cache.vanished(&key, Some("2")).is_some());
        assert!(cache.list().is_empty());
    }

    #[test]
    fn an_event_about_a_replaced_object_does_not_bring_it_back() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        assert!(cache.written(object("a", "2", "14", "blue")).is_some());
        let late = cache.absorb(Event::Apply(guarded(object("a", "1", "12", "red"))));
        assert!(late.is_empty());
        assert_eq!(names(&cache.by_index("color", "blue")), ["a"]);
    }

    #[test]
    fn an_object_that_left_the_selector_and_came_back_is_followed_again() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        cache.absorb(Event::Delete(guarded(object("a", "1", "11", "red"))));
        let back = cache.absorb(Event::Apply(guarded(object("a", "1", "12", "red"))));
        assert!(matches!(back.as_slice(), [Change::Applied { .. }]));
        assert!(cache.written(object("a", "1", "13", "blue")).is_some());
    }

    #[test]
    fn what_the_watch_still_tells_of_an_object_that_an_answer_found_gone_is_ignored() {
        let cache = cache();
        let key = ObjectKey::new("ns", "a");
        cache.absorb(Event::Apply(guarded(object("a", "1", "10", "red"))));
        assert!(cache.vanished(&key, Some("1")).is_some());
        let late = cache.absorb(Event::Apply(guarded(object("a", "1", "11", "red"))));
        assert!(late.is_empty());
        assert!(cache.list().is_empty());
    }

    #[test]
    fn a_list_decides_who_bears_a_name_even_if_versions_began_anew() {
        let cache = cache();
        cache.absorb(Event::Apply(guarded(object("a", "1", "100", "red"))));
        cache.absorb(Event::Init);
        cache.absorb(Event::InitApply(guarded(object("a", "2", "3", "blue"))));
        let changes = cache.absorb(Event::InitDone);
        assert!(matches!(
            changes.as_slice(),
            [
                Change::Deleted(_),
                Change::Applied { old: None, .. },
                Change::Synced
            ]
        ));
        assert_eq!(names(&cache.by_index("color", "blue")), ["a"]);
    }
}
