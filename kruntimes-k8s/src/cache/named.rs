//! Kinds whose names are known only when the process starts.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DeserializeGuard, DynamicResourceScope};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};

use super::Cached;

/// An object of the shape of `K` under whatever group, version, kind and plural the API has it.
#[derive(Clone, Debug)]
pub struct Named<K>(pub K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Named<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(deserializer).map(Self)
    }
}

impl<K: Resource> Resource for Named<K> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(names: &ApiResource) -> Cow<'_, str> {
        names.kind.as_str().into()
    }

    fn group(names: &ApiResource) -> Cow<'_, str> {
        names.group.as_str().into()
    }

    fn version(names: &ApiResource) -> Cow<'_, str> {
        names.version.as_str().into()
    }

    fn api_version(names: &ApiResource) -> Cow<'_, str> {
        names.api_version.as_str().into()
    }

    fn plural(names: &ApiResource) -> Cow<'_, str> {
        names.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Returns the API of a kind under these names, in one namespace or all of them.
pub(crate) fn api<K: Resource>(
    client: Client,
    namespace: Option<&str>,
    names: &ApiResource,
) -> Api<Named<K>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, names),
        None => Api::all_with(client, names),
    }
}

/// As [`api`], for objects that may be undecodable.
pub(super) fn guarded<K: Resource>(
    client: Client,
    namespace: Option<&str>,
    names: &ApiResource,
) -> Api<DeserializeGuard<Named<K>>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, names),
        None => Api::all_with(client, names),
    }
}

/// Returns the event without the names.
pub(super) fn plain<K: Cached>(
    event: Event<DeserializeGuard<Named<K>>>,
) -> Event<DeserializeGuard<K>> {
    let plain =
        |object: DeserializeGuard<Named<K>>| DeserializeGuard(object.0.map(|Named(object)| object));
    match event {
        Event::Apply(object) => Event::Apply(plain(object)),
        Event::Delete(object) => Event::Delete(plain(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(plain(object)),
        Event::InitDone => Event::InitDone,
    }
}
