//! Claims about any Kubernetes-style API, each a function of a client.

pub(crate) mod apply;
pub(crate) mod builtins;
mod claims;
pub(crate) mod deletion;
pub(crate) mod lists;
pub(crate) mod operators;
pub(crate) mod owners;
pub(crate) mod reading;
pub(crate) mod refusals;
pub(crate) mod reviews;
pub(crate) mod watches;
pub(crate) mod writes;

pub(crate) use claims::every_claim;

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Client, CustomResource, Resource as _, ResourceExt as _,
    api::{ObjectMeta, PostParams},
    core::Status,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the suite writes about: a custom kind with a schema, defaults, a status and a selectable field.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "suite.example.org",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    selectable = ".spec.color",
    shortname = "wd",
    printcolumn = r#"{"name":"Color","type":"string","jsonPath":".spec.color"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    derive = "PartialEq"
)]
pub(crate) struct WidgetSpec {
    #[serde(default = "red")]
    pub(crate) color: String,
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub(crate) size: i64,
}

/// What a controller would report about a widget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WidgetStatus {
    pub(crate) phase: Option<String>,
}

fn red() -> String {
    "red".to_owned()
}

/// A namespace of its own for one claim.
pub(crate) struct Room {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) widgets: Api<Widget>,
}

impl Room {
    pub(crate) async fn open(client: Client) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let asked = Namespace {
            metadata: ObjectMeta {
                generate_name: Some("suite-".to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = namespaces
            .create(&PostParams::default(), &asked)
            .await
            .unwrap();
        let namespace = made.name_any();
        Self {
            widgets: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        }
    }

    pub(crate) async fn create(&self, widget: Widget) -> Widget {
        self.widgets
            .create(&PostParams::default(), &widget)
            .await
            .unwrap()
    }
}

/// Builds a widget; it is valid as it is.
pub(crate) fn a_widget(name: &str) -> Widget {
    Widget::new(
        name,
        WidgetSpec {
            color: red(),
            size: 1,
        },
    )
}

/// Sentence-like changes to a widget under construction.
pub(crate) trait Shaped {
    fn colored(self, color: &str) -> Self;
    fn labelled(self, name: &str, value: &str) -> Self;
    fn held_by(self, finalizer: &str) -> Self;
    fn owned_by(self, owner: &Widget) -> Self;
}

impl Shaped for Widget {
    fn colored(mut self, color: &str) -> Self {
        color.clone_into(&mut self.spec.color);
        self
    }

    fn labelled(mut self, name: &str, value: &str) -> Self {
        self.labels_mut().insert(name.to_owned(), value.to_owned());
        self
    }

    fn held_by(mut self, finalizer: &str) -> Self {
        self.finalizers_mut().push(finalizer.to_owned());
        self
    }

    fn owned_by(mut self, owner: &Widget) -> Self {
        let reference = OwnerReference {
            block_owner_deletion: Some(true),
            ..owner.owner_ref(&()).unwrap()
        };
        self.owner_references_mut().push(reference);
        self
    }
}

/// Unwraps the refusal of a request that must fail.
pub(crate) fn refused<T>(result: Result<T, kube::Error>) -> Status {
    match result {
        Ok(_) => panic!("the request was accepted"),
        Err(kube::Error::Api(status)) => *status,
        Err(other) => panic!("not a refusal: {other}"),
    }
}

/// Lists the names of objects in order.
pub(crate) fn names<K: kube::Resource<DynamicType = ()>>(items: &[K]) -> Vec<String> {
    items.iter().map(kube::ResourceExt::name_any).collect()
}
