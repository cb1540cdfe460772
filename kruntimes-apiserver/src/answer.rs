//! Responses: JSON documents, refusals and streams.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::error::ApiError;

/// Any error of a transport, as tower and kube pass it around.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every answer: one document, or a stream of lines.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// Answers with a document that is already text.
pub(crate) fn document(code: StatusCode, content: Bytes) -> Response<AnswerBody> {
    with_body(code, "application/json", whole(content))
}

/// Answers with a JSON value.
pub(crate) fn value(code: StatusCode, content: &Value) -> Response<AnswerBody> {
    document(code, Bytes::from(content.to_string()))
}

/// Answers with a refusal.
pub(crate) fn refusal(error: &ApiError) -> Response<AnswerBody> {
    value(error.code, &error.to_status())
}

/// Answers with plain text.
pub(crate) fn text(content: String) -> Response<AnswerBody> {
    with_body(
        StatusCode::OK,
        "text/plain; charset=utf-8",
        whole(Bytes::from(content)),
    )
}

/// Answers with a document that clients may keep, or that the one they have is still good.
///
/// `etag` identifies the content; `known` is what the client says it has.
pub(crate) fn cacheable(
    content_type: &'static str,
    content: Bytes,
    etag: &str,
    known: Option<&str>,
) -> Response<AnswerBody> {
    let etag = format!("\"{etag}\"");
    let current = known.is_some_and(|known| {
        let mut known = known.split(',').map(str::trim);
        known.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
    });
    let mut answer = if current {
        let mut answer = Response::new(whole(Bytes::new()));
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer
    } else {
        with_body(StatusCode::OK, content_type, whole(content))
    };
    let headers = answer.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Answers with a stream whose pieces are sent as they come.
pub(crate) fn stream(
    content_type: &'static str,
    pieces: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
) -> Response<AnswerBody> {
    let body = StreamBody::new(pieces.map(|piece| piece.map(Frame::data)));
    with_body(StatusCode::OK, content_type, body.boxed_unsync())
}

/// Adds one `Warning` header per text.
pub(crate) fn warn(mut answer: Response<AnswerBody>, warnings: &[String]) -> Response<AnswerBody> {
    for warning in warnings {
        let quoted = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(header) = HeaderValue::from_str(&quoted) {
            answer.headers_mut().append(header::WARNING, header);
        }
    }
    answer
}

/// Sends a client to another path of this service.
pub(crate) fn moved(path: &str) -> Response<AnswerBody> {
    let mut answer = Response::new(whole(Bytes::new()));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(path) = HeaderValue::from_str(path) {
        answer.headers_mut().insert(header::LOCATION, path);
    }
    answer
}

fn whole(content: Bytes) -> AnswerBody {
    Full::new(content)
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn with_body(
    code: StatusCode,
    content_type: &'static str,
    body: AnswerBody,
) -> Response<AnswerBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
