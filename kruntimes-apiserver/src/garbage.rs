//! What happens in the background: dependents follow their owners, content follows its namespace.
//!
//! The store reports what may need a look; a new collector starts with a look at everything, so nothing is missed
//! while none runs. Every deletion it makes carries the version it was decided on.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    admit::is_released,
    builtin::{CONTENT, NAMESPACES},
    commit::{Core, Next},
    delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation, set_finalizers},
    error::ApiError,
    index::Place,
    object::{Key, Object, finalizers, meta_mut},
    store::Store,
};

/// Something the collector has to look at.
#[derive(Debug)]
pub(crate) enum Chore {
    /// An object with owners, or one that is being deleted, has changed.
    Look(usize, Arc<Key>),
    /// An object is gone.
    Gone {
        uid: Arc<str>,
        owners: Arc<[Arc<str>]>,
        namespace: String,
    },
}

/// What the owner references of an object amount to.
#[derive(Debug, Default)]
struct Standing {
    /// Some owner lives and is not waiting for this object to go.
    solid: bool,
    /// Some owner waits for its dependents to be gone.
    waited_for: bool,
    /// UIDs of references that hold nothing any more.
    void: Vec<Arc<str>>,
}

/// Works until its future is dropped.
pub(crate) async fn collect(core: Arc<Core>) {
    let (sender, mut chores) = mpsc::unbounded_channel();
    let first: Vec<Chore> = {
        let mut store = core.lock();
        store.report_chores(sender);
        core.registry
            .kinds()
            .flat_map(|served| {
                let shelf = served.kind.shelf;
                store
                    .list(shelf, None, None)
                    .into_iter()
                    .filter(|object| object.is_ending() || object.is_owned())
                    .map(move |object| Chore::Look(shelf, Arc::clone(&object.key)))
            })
            .collect()
    };
    for chore in first {
        core.carry_out(chore);
        tokio::task::yield_now().await;
    }
    while let Some(chore) = chores.recv().await {
        core.carry_out(chore);
    }
}

impl Core {
    fn carry_out(&self, chore: Chore) {
        match chore {
            Chore::Look(shelf, key) => self.look(shelf, &key),
            Chore::Gone {
                uid,
                owners,
                namespace,
            } => {
                for (shelf, key) in self.after_removal(&uid, &owners, &namespace) {
                    self.look(shelf, &key);
                }
            }
        }
    }

    /// Lists what the removal of an object may have set free.
    fn after_removal(&self, uid: &str, owners: &[Arc<str>], namespace: &str) -> Vec<Place> {
        let store = self.lock();
        let mut affected = store.dependents(uid);
        for owner in owners {
            if let Some((shelf, object)) =
                store.by_uid(owner).filter(|(_, found)| found.is_ending())
            {
                affected.push((shelf, Arc::clone(&object.key)));
            }
        }
        let home = Key::new("", namespace);
        if store
            .get(NAMESPACES, &home)
            .is_some_and(|found| found.is_ending())
        {
            affected.push((NAMESPACES, Arc::new(home)));
        }
        affected
    }

    fn look(&self, shelf: usize, key: &Key) {
        let Some(object) = self.lock().get(shelf, key).cloned() else {
            return;
        };
        if object.is_ending() {
            if shelf == NAMESPACES {
                self.sweep(&object);
            }
            if object.has_finalizer(FOREGROUND) {
                self.end_dependents(shelf, &object);
            } else if object.has_finalizer(ORPHAN) {
                self.release_dependents(shelf, &object);
            }
        } else if object.is_owned() {
            self.judge(shelf, &object);
        }
    }

    /// Deletes an object whose owners are all gone, or drops the references that hold nothing.
    fn judge(&self, shelf: usize, object: &Arc<Object>) {
        let standing = standing(&self.lock(), object);
        if standing.solid {
            if !standing.void.is_empty() {
                self.drop_owners(shelf, &object.key, &standing.void);
            }
            return;
        }
        let followed = !self.lock().dependents(object.uid()).is_empty();
        let propagation = if standing.waited_for && followed {
            Propagation::Foreground
        } else if object.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else {
            Propagation::Background
        };
        self.end_quietly(shelf, object, propagation);
    }

    /// Deletes on behalf of nobody; an object that has changed meanwhile is looked at again.
    fn end_quietly(&self, shelf: usize, object: &Object, propagation: Propagation) {
        let served = self.registry.on_shelf(shelf);
        let options = DeleteOptions::with_propagation(propagation).only_if(object);
        if let Err(error) = self.delete(served, &object.key, &options)
            && error.reason == "Conflict"
        {
            self.look(shelf, &object.key);
        }
    }

    /// Foreground deletion: the owner goes when no dependent blocks it any more.
    fn end_dependents(&self, shelf: usize, owner: &Arc<Object>) {
        for (place, key) in self.lock_dependents(owner) {
            let Some(dependent) = self.lock().get(place, &key).cloned() else {
                continue;
            };
            if !dependent.is_ending() {
                self.judge(place, &dependent);
            }
        }
        let blocked = {
            let store = self.lock();
            store.dependents(owner.uid()).iter().any(|(place, key)| {
                store.get(*place, key).is_some_and(|dependent| {
                    dependent.owners().iter().any(|reference| {
                        reference["uid"] == owner.uid()
                            && reference["blockOwnerDeletion"] == Value::Bool(true)
                    })
                })
            })
        };
        if !blocked {
            self.drop_finalizer(shelf, &owner.key, FOREGROUND);
        }
    }

    /// Orphaning: dependents forget their owner, then the owner goes.
    fn release_dependents(&self, shelf: usize, owner: &Arc<Object>) {
        let gone = [Arc::clone(&owner.facts.uid)];
        for (place, key) in self.lock_dependents(owner) {
            self.drop_owners(place, &key, &gone);
        }
        self.drop_finalizer(shelf, &owner.key, ORPHAN);
    }

    fn lock_dependents(&self, owner: &Object) -> Vec<Place> {
        self.lock().dependents(owner.uid())
    }

    /// Empties a namespace, and removes it once it is empty.
    fn sweep(&self, namespace: &Arc<Object>) {
        let name = namespace.key.name.as_str();
        let kinds = || {
            self.registry
                .kinds()
                .filter(|served| served.kind.namespaced)
        };
        for served in kinds() {
            let content = self.lock().list(served.kind.shelf, Some(name), None);
            for object in content.iter().filter(|object| !object.is_ending()) {
                self.end_quietly(served.kind.shelf, object, Propagation::Background);
            }
        }
        let mut store = self.lock();
        let empty =
            kinds().all(|served| store.list(served.kind.shelf, Some(name), None).is_empty());
        let current = store.get(NAMESPACES, &namespace.key);
        let free = current.is_some_and(|found| {
            let waits = found.value["spec"]["finalizers"].as_array();
            let others = waits.is_some_and(|names| names.iter().any(|name| name != CONTENT));
            found.uid() == namespace.uid() && finalizers(&found.value).next().is_none() && !others
        });
        if empty && free {
            store.remove(NAMESPACES, &namespace.key);
        }
    }

    fn drop_owners(&self, shelf: usize, key: &Key, uids: &[Arc<str>]) {
        self.edit(shelf, key, |value| {
            let meta = meta_mut(value);
            if let Some(owners) = meta
                .get_mut("ownerReferences")
                .and_then(Value::as_array_mut)
            {
                owners.retain(|owner| uids.iter().all(|uid| owner["uid"] != **uid));
                if owners.is_empty() {
                    meta.remove("ownerReferences");
                }
            }
        });
    }

    fn drop_finalizer(&self, shelf: usize, key: &Key, name: &str) {
        self.edit(shelf, key, |value| {
            let rest = finalizers(value)
                .filter(|entry| *entry != name)
                .map(str::to_owned)
                .collect();
            set_finalizers(value, rest);
        });
    }

    /// Changes an object's metadata, completing a deletion that nothing holds any more.
    fn edit(&self, shelf: usize, key: &Key, edit: impl Fn(&mut Value)) {
        let served = self.registry.on_shelf(shelf);
        let result: Result<_, ApiError> = self.change(served, key, false, |current| {
            let mut value = (*current.value).clone();
            edit(&mut value);
            if value == *current.value {
                return Ok(Next::Keep);
            }
            if current.is_ending() && is_released(served, &value) {
                return Ok(Next::Remove);
            }
            Ok(Next::Write(value))
        });
        // The only possible failure is that the object is gone, which ends the chore as well.
        drop(result);
    }
}

/// Looks up the owners of an object; an owner in another namespace counts as absent.
fn standing(store: &Store, object: &Object) -> Standing {
    let mut standing = Standing::default();
    for uid in &*object.facts.owners {
        let owner = store.by_uid(uid).map(|(_, owner)| owner).filter(|owner| {
            owner.key.namespace.is_empty() || owner.key.namespace == object.key.namespace
        });
        match owner {
            None => standing.void.push(Arc::clone(uid)),
            Some(owner) if owner.is_ending() && owner.has_finalizer(FOREGROUND) => {
                standing.waited_for = true;
                standing.void.push(Arc::clone(uid));
            }
            Some(_) => standing.solid = true,
        }
    }
    standing
}
