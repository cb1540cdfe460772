//! Reading, creating, patching and deleting objects of a kind.

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::Value;

use super::Kind;
use super::connect::Server;
use super::jsonpath::SortKey;
use super::problem::{Asked, Problem};

/// Objects per page of a list (C-12).
const PAGE: u32 = 500;

/// Which objects are listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// All namespaces instead of one.
    pub(crate) everywhere: bool,
    /// Label selector.
    pub(crate) labels: Option<String>,
    /// Field selector.
    pub(crate) fields: Option<String>,
    /// Most objects.
    pub(crate) limit: Option<usize>,
    /// Order, instead of newest first.
    pub(crate) sort_by: Option<SortKey>,
}

impl Server {
    /// Gives a request as long as `--request-timeout` says.
    async fn within<T>(
        &self,
        request: impl Future<Output = kube::Result<T>> + Send,
    ) -> kube::Result<T> {
        let Some(limit) = self.limit else {
            return request.await;
        };
        let answer = tokio::time::timeout(limit, request).await;
        answer.unwrap_or_else(|_| {
            Err(kube::Error::Service(
                format!("no answer within {limit:?}").into(),
            ))
        })
    }

    /// The objects of a kind in the namespace.
    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    /// Reads one object.
    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Result<DynamicObject, Problem> {
        let asked = Asked::new("get", kind.plural(), &self.namespace);
        let found = self.within(self.api(kind).get(name)).await;
        found.map_err(|error| asked.failed(&format!("get {} {name}", kind.as_str()), &error))
    }

    /// Reads one object, or finds that there is none.
    pub(crate) async fn find(
        &self,
        kind: Kind,
        name: &str,
    ) -> Result<Option<DynamicObject>, Problem> {
        let asked = Asked::new("get", kind.plural(), &self.namespace);
        let found = self.within(self.api(kind).get_opt(name)).await;
        found.map_err(|error| asked.failed(&format!("get {} {name}", kind.as_str()), &error))
    }

    /// Reads all objects of a selection, newest first.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        selection: &Selection,
    ) -> Result<Vec<DynamicObject>, Problem> {
        let (api, namespace) = if selection.everywhere {
            (Api::all_with(self.client.clone(), &kind.resource()), "")
        } else {
            (self.api(kind), self.namespace.as_str())
        };
        let asked = Asked::new("list", kind.plural(), namespace);
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector.clone_from(&selection.labels);
        params.field_selector.clone_from(&selection.fields);
        let mut all: Vec<DynamicObject> = Vec::new();
        loop {
            let page = self.within(api.list(&params)).await;
            let page =
                page.map_err(|error| asked.failed(&format!("list {}", kind.plural()), &error))?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        all.sort_by_key(|object| {
            let created = object.creation_timestamp().map(|time| time.0);
            (
                std::cmp::Reverse(created),
                object.namespace(),
                object.name_any(),
            )
        });
        if let Some(key) = &selection.sort_by {
            let mut keyed: Vec<(Value, DynamicObject)> = all
                .into_iter()
                .map(|object| (serde_json::to_value(&object).unwrap_or_default(), object))
                .collect();
            keyed.sort_by(|(a, _), (b, _)| key.compare(a, b));
            all = keyed.into_iter().map(|(_, object)| object).collect();
        }
        all.truncate(selection.limit.unwrap_or(usize::MAX));
        Ok(all)
    }

    /// Creates an object; after an answer that was lost the name is read before anything is said (C-16).
    pub(crate) async fn create(&self, kind: Kind, object: Value) -> Result<DynamicObject, Problem> {
        let mut object: DynamicObject = serde_json::from_value(object).map_err(|error| {
            let text = format!("krt: this is no {}: {error}", kind.as_str());
            Problem::new(text, "it needs apiVersion, kind, metadata and spec")
                .exit(crate::exit::Exit::Refused)
        })?;
        let token = object.annotations().get(TOKEN).cloned();
        let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
        object.metadata.namespace = Some(namespace.clone());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &kind.resource());
        let asked = Asked::new("create", kind.plural(), &namespace);
        let name = object.name_any();
        let failed =
            |error: &kube::Error| asked.failed(&format!("create {} {name}", kind.as_str()), error);
        match self
            .within(api.create(&PostParams::default(), &object))
            .await
        {
            Ok(created) => Ok(created),
            Err(error @ kube::Error::Api(_)) => Err(failed(&error)),
            Err(error) => match api.get_opt(&name).await {
                Ok(Some(found))
                    if token.is_some() && found.annotations().get(TOKEN) == token.as_ref() =>
                {
                    Ok(found)
                }
                Ok(_) | Err(_) => Err(failed(&error)),
            },
        }
    }

    /// Merges a change into an object.
    pub(crate) async fn patch(
        &self,
        kind: Kind,
        name: &str,
        change: &Value,
    ) -> Result<DynamicObject, Problem> {
        let asked = Asked::new("patch", kind.plural(), &self.namespace);
        let (api, params) = (self.api(kind), PatchParams::default());
        let patched = self
            .within(api.patch(name, &params, &Patch::Merge(change)))
            .await;
        patched.map_err(|error| asked.failed(&format!("change {} {name}", kind.as_str()), &error))
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, kind: Kind, name: &str) -> Result<(), Problem> {
        let asked = Asked::new("delete", kind.plural(), &self.namespace);
        let (api, params) = (self.api(kind), DeleteParams::default());
        let deleted = self.within(api.delete(name, &params)).await;
        let deleted = deleted.map(drop);
        deleted.map_err(|error| asked.failed(&format!("delete {} {name}", kind.as_str()), &error))
    }
}

/// Annotation that tells an object of this call from a namesake.
pub(crate) const TOKEN: &str = "kruntimes.io/client-token";

/// Draws letters and digits for names, as many as asked for.
pub(crate) fn random(count: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut out = String::new();
    while out.len() < count {
        // Each state is seeded by the system; nothing here has to be secret.
        let bits = std::hash::RandomState::new().build_hasher().finish();
        let index = usize::try_from(bits % LETTERS.len() as u64).unwrap_or(0);
        out.push(char::from(LETTERS[index]));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;

    use super::*;

    fn run(name: &str, token: &str) -> Value {
        json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Run",
            "metadata": {"name": name, "annotations": {TOKEN: token}},
            "spec": {"runtime": "bash", "mode": {"task": {"args": ["true"]}}},
        })
    }

    #[tokio::test]
    async fn c_16_a_lost_answer_makes_one_run_and_no_failure() {
        let mut api = kruntimes_apiserver::ApiServer::builder();
        for crd in kruntimes_core::crd::all() {
            api = api.crd(crd);
        }
        let api = api.build().unwrap();
        let (inner, first) = (api.client(), AtomicBool::new(true));
        let losing = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (client, lost) = (inner.clone(), first.swap(false, Ordering::Relaxed));
            async move {
                let answer = client.send(request).await?;
                if lost {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
                }
                Ok::<_, tower::BoxError>(answer)
            }
        });
        let server = Server {
            client: kube::Client::new(losing, "default"),
            namespace: "default".to_owned(),
            limit: None,
        };
        let made = server.create(Kind::Run, run("a", "mine")).await.unwrap();
        assert_eq!(made.name_any(), "a");
        let all = server.list(Kind::Run, &Selection::default()).await.unwrap();
        assert_eq!(all.len(), 1);
        // A namesake of somebody else is none of ours.
        let refused = server
            .create(Kind::Run, run("a", "other"))
            .await
            .unwrap_err();
        assert!(refused.text.contains("already exists"), "{}", refused.text);
    }

    #[test]
    fn c_22_random_parts_of_names_are_names_and_differ() {
        let names: std::collections::BTreeSet<String> = (0..50).map(|_| random(8)).collect();
        assert_eq!(names.len(), 50);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 8 && name.chars().all(|c| c.is_ascii_alphanumeric()))
        );
    }
}
