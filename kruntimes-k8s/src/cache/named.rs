//! Kinds whose names are known only when the process starts.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::Cached;

/// An object that may be undecodable, which is no reason to lose the others of its list.
///
/// Read by way of one tree, without who manages which field: nobody who caches asks for that.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K>(pub(super) Result<K, Undecodable>);

/// What is known of an object that cannot be decoded.
#[derive(Clone, Debug)]
pub(super) struct Undecodable {
    pub(super) error: String,
    pub(super) metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tree = Map::deserialize(deserializer)?;
        if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let tree = Value::Object(tree);
        Ok(Self(K::deserialize(&tree).map_err(|error| Undecodable {
            error: error.to_string(),
            metadata: ObjectMeta::deserialize(&tree["metadata"]).unwrap_or_default(),
        })))
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(names: &K::DynamicType) -> Cow<'_, str> {
        K::kind(names)
    }

    fn group(names: &K::DynamicType) -> Cow<'_, str> {
        K::group(names)
    }

    fn version(names: &K::DynamicType) -> Cow<'_, str> {
        K::version(names)
    }

    fn plural(names: &K::DynamicType) -> Cow<'_, str> {
        K::plural(names)
    }

    fn meta(&self) -> &ObjectMeta {
        let object = self.0.as_ref();
        object.map_or_else(|error| &error.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        let object = self.0.as_mut();
        object.map_or_else(|error| &mut error.metadata, K::meta_mut)
    }
}

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
) -> Api<Guarded<Named<K>>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, names),
        None => Api::all_with(client, names),
    }
}

/// Returns the event without the names.
pub(super) fn plain<K: Cached>(event: Event<Guarded<Named<K>>>) -> Event<Guarded<K>> {
    let plain = |object: Guarded<Named<K>>| Guarded(object.0.map(|Named(object)| object));
    match event {
        Event::Apply(object) => Event::Apply(plain(object)),
        Event::Delete(object) => Event::Delete(plain(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(plain(object)),
        Event::InitDone => Event::InitDone,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_decoded_still_has_its_name_and_the_reason() {
        let broken = json!({"metadata": {"name": "a"}, "data": "no map"});
        let read: Guarded<ConfigMap> = serde_json::from_value(broken).unwrap();
        assert_eq!(read.meta().name.as_deref(), Some("a"));
        assert!(read.0.unwrap_err().error.contains("no map"));
    }

    #[test]
    fn who_manages_which_field_is_left_out() {
        let whole = json!({"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}});
        let read: Guarded<ConfigMap> = serde_json::from_value(whole).unwrap();
        assert_eq!(read.0.unwrap().metadata.managed_fields, None);
    }
}
