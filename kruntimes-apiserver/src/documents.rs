//! Everything that is read besides objects: health, version, discovery and schemas.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    accept,
    answer::{self, AnswerBody},
    discovery,
    error::ApiError,
    query::Query,
    registry::Registry,
    route::Route,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

type Answer = Response<AnswerBody>;

/// Answers a request for anything but objects.
pub(crate) fn serve(registry: &Registry, route: Route, parts: &Parts) -> Result<Answer, ApiError> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    if let Route::Health { check, below } = &route {
        return health(check, below, parts);
    }
    let accepted = text_of(parts, &header::ACCEPT);
    let aggregated = accept::wants_aggregated(accepted);
    let document = match route {
        Route::CoreVersions if aggregated => {
            return Ok(whole(&discovery::aggregated_core(registry), parts));
        }
        Route::Groups if aggregated => {
            return Ok(whole(&discovery::aggregated_groups(registry), parts));
        }
        Route::Nowhere => return Err(ApiError::no_such_path()),
        _ if !accept::takes_json(accepted) => return Err(accept::nothing_served()),
        Route::SchemasOf(path) => return schemas(registry, &path, parts),
        Route::Schemas => registry.openapi.index(registry),
        Route::Root => discovery::paths(registry),
        Route::Version => discovery::version(),
        Route::CoreVersions => discovery::core_versions(),
        Route::Groups => discovery::groups(registry),
        Route::Group(name) => discovery::group(registry, &name)?,
        Route::Resources { group, version } => discovery::resources(registry, &group, &version)?,
        Route::Health { .. } | Route::Objects(_) => {
            return Err(ApiError::no_such_path());
        }
    };
    Ok(answer::value(StatusCode::OK, &document))
}

/// Returns a header of the request, if it is text.
fn text_of<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

/// Answers with the discovery of many groups, which clients keep as long as it stays the same.
fn whole(document: &Value, parts: &Parts) -> Answer {
    let text = document.to_string();
    let known = text_of(parts, &header::IF_NONE_MATCH);
    answer::cacheable(
        AGGREGATED,
        Bytes::from(text.clone()),
        &tag(text.as_bytes()),
        known,
    )
}

/// Answers with the schemas of one group and version; under an address with their tag they never change.
fn schemas(registry: &Registry, path: &str, parts: &Parts) -> Result<Answer, ApiError> {
    let found = registry.openapi.document(registry, path);
    let document = found.ok_or_else(ApiError::no_such_path)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let asked = query.text("hash");
    if asked.is_some_and(|asked| asked != document.tag) {
        let url = registry.openapi.url(registry, path).unwrap_or_default();
        return Ok(answer::moved(&url));
    }
    let known = text_of(parts, &header::IF_NONE_MATCH);
    let content = document.content.clone();
    let mut answer = answer::cacheable("application/json", content, &document.tag, known);
    let keep = if asked.is_some() {
        "public, immutable, max-age=31536000"
    } else {
        "no-cache, private"
    };
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    Ok(answer)
}

/// Identifies a content.
pub(crate) fn tag(content: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(content);
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Answers whether the service is well; there is nothing below it that could be unwell.
fn health(check: &str, below: &[String], parts: &Parts) -> Result<Answer, ApiError> {
    match below {
        [] => {}
        [one] if one == "ping" => return Ok(answer::text("ok".to_owned())),
        _ => return Err(ApiError::no_such_path()),
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    Ok(answer::text(if query.has("verbose") {
        format!("[+]ping ok\n{check} check passed\n")
    } else {
        "ok".to_owned()
    }))
}
