//! Whose token is this?

use k8s_openapi::api::authentication::v1::TokenReviewSpec;
use serde_json::{Value, json};

use super::{described, encoded};
use crate::{commit::Core, error::ApiError};

/// The one audience that static tokens are for: the API itself, under the name Kubernetes gives it.
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Returns spec and status of a TokenReview.
pub(super) fn review(core: &Core, spec: &TokenReviewSpec) -> Result<(Value, Value), ApiError> {
    let token = spec.token.as_deref().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = spec.audiences.as_deref().unwrap_or_default();
    let meant = audiences.is_empty() || audiences.iter().any(|audience| audience == AUDIENCE);
    let status = match core.access.authenticate(token) {
        Some(user) if meant => json!({
            "authenticated": true, "user": described(&user), "audiences": [AUDIENCE],
        }),
        Some(_) | None => json!({ "user": {}, "error": "invalid bearer token" }),
    };
    Ok((encoded(spec), status))
}
