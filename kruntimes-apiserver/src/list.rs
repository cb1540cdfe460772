//! Lists: everything, or pages that all show the state of the first one.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    commit::Core,
    error::ApiError,
    kind::Served,
    object::{Key, Object},
    query::Query,
    selector::Selector,
    shape::{Form, View},
};

/// Where the next page starts and which state it shows.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    rv: u64,
    namespace: String,
    name: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Token {
    fn write(version: u64, last: &Key) -> String {
        let token = json!({
            "v": TOKEN_VERSION, "rv": version, "namespace": last.namespace, "name": last.name,
        });
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn read(text: &str) -> Result<Self, ApiError> {
        let invalid = || ApiError::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        if token.v == TOKEN_VERSION {
            Ok(token)
        } else {
            Err(invalid())
        }
    }
}

/// What a list request asks for.
pub(crate) struct ListRequest {
    selector: Selector,
    limit: Option<usize>,
    start: Option<Key>,
    /// The state to show; the present one when absent.
    version: Option<u64>,
    /// The state shown must not be older than this.
    at_least: u64,
    paged: bool,
}

impl ListRequest {
    pub(crate) fn of_query(query: &Query, served: &Served) -> Result<Self, ApiError> {
        let version = query.number::<u64>("resourceVersion")?;
        let exact = match query.text("resourceVersionMatch") {
            None | Some("NotOlderThan") => false,
            Some("Exact") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "resourceVersionMatch: Unsupported value: {other:?}"
                )));
            }
        };
        let mut request = Self {
            selector: Selector::of_query(query, served)?,
            limit: query.number::<usize>("limit")?.filter(|limit| *limit > 0),
            start: None,
            version: version.filter(|version| exact && *version > 0),
            at_least: version.unwrap_or(0),
            paged: false,
        };
        if let Some(text) = query.text("continue") {
            let token = Token::read(text)?;
            request.start = Some(Key::new(token.namespace, token.name));
            request.version = Some(token.rv);
            request.at_least = 0;
            request.paged = true;
        }
        Ok(request)
    }
}

impl Core {
    /// Answers a list request with the text of the list object.
    pub(crate) fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        request: &ListRequest,
        view: &View,
    ) -> Result<Bytes, ApiError> {
        let shelf = served.kind.shelf;
        let start = request.start.as_ref();
        let (found, version) = {
            let store = self.lock();
            let current = store.version();
            if request.at_least > current || request.version.is_some_and(|asked| asked > current) {
                let asked = request.version.unwrap_or(request.at_least);
                return Err(ApiError::too_new(asked, current));
            }
            match request.version {
                _ if served.kind.fixed => (self.registry.definitions.list(start), current),
                None => (store.list(shelf, namespace, start), current),
                Some(version) => {
                    let past = store.list_at(shelf, namespace, start, version);
                    (
                        past.map_err(|expired| refuse_expired(request, version, expired.0))?,
                        version,
                    )
                }
            }
        };
        let mut matching = found
            .into_iter()
            .filter(|object| request.selector.admits(object));
        let limit = request.limit.unwrap_or(usize::MAX);
        let page: Vec<Arc<Object>> = matching.by_ref().take(limit).collect();
        let left = matching.count();
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if let Some(last) = page.last().filter(|_| left > 0) {
            metadata["continue"] = Value::from(Token::write(version, &last.key));
            if request.selector.is_everything() {
                metadata["remainingItemCount"] = Value::from(left);
            }
        }
        Ok(write(served, view, &metadata, &page))
    }
}

fn refuse_expired(request: &ListRequest, version: u64, oldest: u64) -> ApiError {
    if request.paged {
        ApiError::continue_expired()
    } else {
        ApiError::too_old(version, oldest)
    }
}

/// Joins the texts of the items into the text of a list.
pub(crate) fn write(
    served: &Served,
    view: &View,
    metadata: &Value,
    items: &[Arc<Object>],
) -> Bytes {
    let (api_version, kind) = match &view.form {
        Form::Whole => (view.api_version.as_str(), served.kind.list_name.as_str()),
        Form::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadataList"),
        Form::Table(table) => return table.of_list(view, metadata, items),
    };
    let items: Vec<Bytes> = items.iter().map(|object| view.bytes(object)).collect();
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(api_version),
        Value::from(kind)
    );
    text.extend_from_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item);
    }
    text.extend_from_slice(b"]}");
    Bytes::from(text)
}
