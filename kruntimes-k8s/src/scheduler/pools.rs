//! Runtime Pods by pool, converted once per change instead of once per cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as ApiPod;
use kruntimes_sched::{Index, Pod, PodName, Vocabulary};

use super::names::Names;
use super::seen;
use crate::cache::ObjectKey;

/// The Pods of every Runtime.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: BTreeMap<ObjectKey, BTreeMap<PodName, Arc<Pod>>>,
}

impl Pools {
    /// Takes in how a Pod changed, and tells the index.
    pub(super) fn change(
        &mut self,
        index: &mut Index,
        vocabulary: &mut Vocabulary,
        names: &Names,
        old: Option<&ApiPod>,
        new: Option<&ApiPod>,
    ) {
        if let Some(old) = old
            && let Some(pool) = pool_of(names, old)
            && let Some(pods) = self.pools.get_mut(&pool)
        {
            let gone = pods.remove(old.metadata.name.as_deref().unwrap_or_default());
            if pods.is_empty() {
                self.pools.remove(&pool);
            }
            if new.and_then(|new| pool_of(names, new)).is_none()
                && let Some(gone) = gone
            {
                index.remove_pod(&pool.namespace.as_str().into(), &gone.name);
            }
        }
        if let Some(new) = new
            && let Some(pool) = pool_of(names, new)
        {
            let mut pod = seen::pod(names, new);
            vocabulary.share_pod(&mut pod);
            let pod = Arc::new(pod);
            let (namespace, runtime) = (pool.namespace.as_str().into(), pool.name.as_str().into());
            index.set_pod(&namespace, &runtime, &pod);
            let pods = self.pools.entry(pool).or_default();
            pods.insert(pod.name.clone(), pod);
        }
    }

    /// Returns one Pod of a Runtime.
    pub(super) fn pod(&self, runtime: &ObjectKey, pod: &PodName) -> Option<&Arc<Pod>> {
        self.pools.get(runtime)?.get(pod)
    }

    /// Returns the Pods of a Runtime by name.
    pub(super) fn pods(&self, runtime: &ObjectKey) -> impl Iterator<Item = &Arc<Pod>> {
        self.pools
            .get(runtime)
            .into_iter()
            .flat_map(BTreeMap::values)
    }
}

fn pool_of(names: &Names, object: &ApiPod) -> Option<ObjectKey> {
    let runtime = names.runtime_of(object)?;
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    Some(ObjectKey::new(namespace, runtime))
}
