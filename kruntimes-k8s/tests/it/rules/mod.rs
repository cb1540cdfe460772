//! The rules of the custom resources, shown through an API service, ours or a real one: what is refused, where and why, and what is
//! stored.
//!
//! Nothing here calls a validator: objects travel as JSON through a client, so schema, defaults, pruning and CEL rules
//! act together as they do for a user. A row of a table is an object, or a change to a valid one, and what must be
//! said about it.

pub(crate) mod action;
pub(crate) mod bounds;
mod list;
mod place;
pub(crate) mod run_create;
pub(crate) mod run_status;
pub(crate) mod run_update;
pub(crate) mod runtime;
pub(crate) mod workflow;
pub(crate) mod workflow_run;
pub(crate) mod workspace;

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Namespace;
use kruntimes_apiserver::{ApiServer, Builder};
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::core::Status;
use serde_json::{Value, json};

pub(crate) use list::every_rule;

/// A refusal: the change, the field that must be blamed and a piece of the message.
type Refused = (&'static str, &'static str, &'static str);

/// The service of all these tests; compiling the definitions is most of the work.
static SERVER: LazyLock<ApiServer> = LazyLock::new(|| {
    let definitions = kruntimes_core::crd::all();
    let builder = definitions
        .into_iter()
        .fold(ApiServer::builder(), Builder::crd);
    builder.build().expect("the definitions compile")
});

macro_rules! against_the_embedded_service {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                $module::$name(&Cluster::open(SERVER.client()).await).await;
            }
        )+)+
    };
}

every_rule!(against_the_embedded_service);

/// A client, and a namespace of its own to work in.
pub(crate) struct Cluster {
    client: kube::Client,
    namespace: String,
}

impl Cluster {
    /// Makes a namespace.
    pub(crate) async fn open(client: kube::Client) -> Self {
        let object = serde_json::from_value(json!({"metadata": {"generateName": "rules-"}}));
        let object: Namespace = object.expect("a namespace needs no more");
        let created = Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await;
        let namespace = created.expect("the namespace is new").name_any();
        Self { client, namespace }
    }

    /// Makes one more namespace beside this one, where every name is free.
    async fn another(&self) -> Self {
        Self::open(self.client.clone()).await
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("kruntimes.io", "v1alpha1", kind);
        let plural = format!("{}s", kind.to_lowercase());
        Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::from_gvk_with_plural(&gvk, &plural),
        )
    }

    async fn create(&self, kind: &str, name: &str, spec: &Value) -> Result<Value, Box<Status>> {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec
        });
        let object = serde_json::from_value(object).expect("an object has a name");
        answer(self.api(kind).create(&PostParams::default(), &object).await)
    }

    async fn replace(&self, kind: &str, name: &str, object: &Value) -> Result<Value, Box<Status>> {
        let object = serde_json::from_value(object.clone()).expect("an object has a name");
        answer(
            self.api(kind)
                .replace(name, &PostParams::default(), &object)
                .await,
        )
    }

    async fn merge(&self, kind: &str, name: &str, patch: &Value) -> Result<Value, Box<Status>> {
        let api = self.api(kind);
        answer(
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await,
        )
    }

    async fn merge_status(
        &self,
        kind: &str,
        name: &str,
        status: &Value,
    ) -> Result<Value, Box<Status>> {
        let (api, patch) = (self.api(kind), json!({"status": status}));
        answer(
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                .await,
        )
    }

    async fn stored(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.expect("reading works");
        found.map(|object| serde_json::to_value(object).expect("an object is JSON"))
    }

    /// Creates an object that must be stored with the spec that was given, plus defaults.
    async fn accepts(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let created = self.create(kind, name, spec).await;
        let created =
            created.unwrap_or_else(|status| panic!("{spec} must be accepted: {}", status.message));
        assert!(
            contains(&created["spec"], spec),
            "{spec} was stored as {}",
            created["spec"]
        );
        assert_eq!(
            self.stored(kind, name).await.as_ref(),
            Some(&created),
            "{spec}"
        );
        created
    }

    /// Tries to create an object that must be refused and leave nothing behind.
    async fn refuses(&self, kind: &str, spec: &Value, field: &str, says: &str) {
        let status = self.create(kind, "refused", spec).await;
        let status = status
            .err()
            .unwrap_or_else(|| panic!("{spec} must be refused"));
        assert_blames(&status, field, says, spec);
        assert_eq!(self.stored(kind, "refused").await, None, "{spec}");
    }

    /// Creates one object per row, each a change to `base`, and expects a refusal every time.
    async fn refuses_all(&self, kind: &str, base: &str, rows: &[Refused]) {
        for (change, field, says) in rows {
            self.refuses(kind, &changed(base, change), field, says)
                .await;
        }
    }

    /// Creates one object per row, each a change to `base`, and expects all of them to be stored.
    async fn accepts_all(&self, kind: &str, base: &str, rows: &[&str]) {
        for (index, change) in rows.iter().enumerate() {
            self.accepts(kind, &format!("row-{index}"), &changed(base, change))
                .await;
        }
    }

    /// Expects that an object with `spec` takes an update which changes the spec by `change`.
    async fn updates(&self, kind: &str, name: &str, spec: &Value, change: &Value) {
        let mut object = self.accepts(kind, name, spec).await;
        merge(&mut object["spec"], change);
        let updated = self.replace(kind, name, &object).await;
        let updated = updated
            .unwrap_or_else(|status| panic!("{spec} must take {change}: {}", status.message));
        assert_eq!(updated["spec"], object["spec"], "{spec} {change}");
        assert_eq!(
            self.stored(kind, name).await,
            Some(updated),
            "{spec} {change}"
        );
    }

    /// Expects that an object with `spec` refuses a change of its spec, as an update and as a patch.
    async fn keeps(
        &self,
        kind: &str,
        name: &str,
        spec: &Value,
        change: &Value,
        field: &str,
        says: &str,
    ) {
        let stored = self.accepts(kind, name, spec).await;
        let mut object = stored.clone();
        merge(&mut object["spec"], change);
        let what = json!([spec, change]);
        let updated = self.replace(kind, name, &object).await;
        assert_blames(
            &updated
                .err()
                .unwrap_or_else(|| panic!("{what} must be refused")),
            field,
            says,
            &what,
        );
        let patched = self.merge(kind, name, &json!({"spec": change})).await;
        assert_blames(
            &patched
                .err()
                .unwrap_or_else(|| panic!("{what} must be refused")),
            field,
            says,
            &what,
        );
        assert_eq!(self.stored(kind, name).await, Some(stored), "{what}");
    }

    /// Writes one status per row onto a new object with `spec` and expects a refusal every time.
    async fn refuses_statuses(&self, kind: &str, spec: &str, rows: &[Refused]) {
        let stored = self.accepts(kind, "refusing", &parsed(spec)).await;
        for (status, field, says) in rows {
            let status = parsed(status);
            let refused = self.merge_status(kind, "refusing", &status).await;
            let refused = refused
                .err()
                .unwrap_or_else(|| panic!("{status} must be refused"));
            assert_blames(&refused, field, says, &status);
            assert_eq!(
                self.stored(kind, "refusing").await.as_ref(),
                Some(&stored),
                "{status}"
            );
        }
    }

    /// Writes one status per row, each onto an object of its own, and expects all of them to be stored.
    async fn accepts_statuses(&self, kind: &str, spec: &str, rows: &[&str]) {
        for (index, status) in rows.iter().enumerate() {
            let (name, status) = (format!("status-{index}"), parsed(status));
            self.accepts(kind, &name, &parsed(spec)).await;
            self.takes_status(kind, &name, &status).await;
        }
    }

    /// Merges `status` into an object that must take it.
    async fn takes_status(&self, kind: &str, name: &str, status: &Value) {
        let written = self.merge_status(kind, name, status).await;
        let written = written
            .unwrap_or_else(|refusal| panic!("{status} must be accepted: {}", refusal.message));
        assert!(
            contains(&written["status"], status),
            "{status} was stored as {}",
            written["status"]
        );
        assert_eq!(self.stored(kind, name).await, Some(written), "{status}");
    }
}

fn answer(result: kube::Result<DynamicObject>) -> Result<Value, Box<Status>> {
    match result {
        Ok(object) => Ok(serde_json::to_value(object).expect("an object is JSON")),
        Err(kube::Error::Api(status)) => Err(status),
        Err(other) => panic!("the service must answer: {other}"),
    }
}

/// Checks that a refusal is the 422 of Kubernetes and that one of its causes is the expected one.
fn assert_blames(status: &Status, field: &str, says: &str, what: &Value) {
    assert_eq!(
        (status.code, status.reason.as_str()),
        (422, "Invalid"),
        "{what}: {status:?}"
    );
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let hit = causes
        .iter()
        .any(|cause| cause.field == field && cause.message.contains(says));
    assert!(
        hit,
        "{what} must blame {field} with {says:?}, not {causes:#?}"
    );
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("the table holds JSON: {error}: {text}"))
}

/// Applies a change, written as a merge patch, to a base.
fn changed(base: &str, change: &str) -> Value {
    let mut value = parsed(base);
    merge(&mut value, &parsed(change));
    value
}

/// A merge patch as in RFC 7386: null takes a member away.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("it was just made an object");
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// Tells whether `whole` has everything that `part` has; defaults may have been added.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole
                    .iter()
                    .zip(part)
                    .all(|(whole, part)| contains(whole, part))
        }
        (whole, part) => whole == part,
    }
}
