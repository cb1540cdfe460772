//! Events on objects, written by controllers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruntimes_core::limits::MESSAGE_MAX_BYTES;
use kruntimes_core::message::bounded;
use kruntimes_core::names;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Resource, ResourceExt as _};

/// Writes a warning about an object, as [`record`] does.
pub(crate) async fn warn<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &K,
    component: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    record(client, object, (component, "Warning", reason), message, now).await;
}

/// Writes an Event about an object: who says it, `Normal` or `Warning`, and its reason.
///
/// One that cannot be written is dropped with a log line: it decides nothing.
///
/// The name follows from the content, so that a repeated turn does not tell it twice.
pub async fn record<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &K,
    (component, kind, reason): (&str, &str, &str),
    message: &str,
    now: Timestamp,
) {
    let message = bounded(message, MESSAGE_MAX_BYTES);
    let version = object.resource_version().unwrap_or_default();
    let identity = format!(
        "{}/{version}/{reason}/{message}",
        object.uid().unwrap_or_default()
    );
    let name = object.name_any();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}.{}",
                names::trim(&name, 236),
                names::hash(&identity, 16)
            )),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            resource_version: None,
            ..object.object_ref(&())
        },
        type_: Some(kind.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    if let Err(error) = api.create(&PostParams::default(), &event).await
        && !matches!(&error, kube::Error::Api(status) if status.is_already_exists())
    {
        tracing::warn!(object = name, reason, error = %crate::chain(&error), "an event cannot be recorded");
    }
}
