//! The gate every request passes: who is it, for whom does it speak, is it allowed.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderMap, StatusCode, header, request::Parts};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::{
    asked::Asked,
    identity::{AUTHENTICATED, Identity},
    policy::Policy,
    token::TokenDigest,
};
use crate::error::ApiError;

const IMPERSONATE: &str = "impersonate-";
const IMPERSONATE_EXTRA: &str = "impersonate-extra-";

/// From where requests come, which decides how a caller is known.
#[derive(Clone)]
pub(crate) enum Caller {
    /// From this process, as this user.
    Known(Arc<Identity>),
    /// From the network: with a bearer token, or not at all.
    Network,
}

/// The policy together with the tokens that listeners have issued.
pub(crate) struct Access {
    pub(crate) policy: Policy,
    issued: RwLock<Vec<(TokenDigest, Arc<Identity>)>>,
}

impl Access {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            issued: RwLock::default(),
        }
    }

    /// Lets in whoever shows `token`, beside the users of the policy.
    pub(crate) fn issue(&self, token: &str, identity: Identity) {
        let digest = TokenDigest::of(token);
        let mut issued = self.issued.write().unwrap_or_else(PoisonError::into_inner);
        issued.retain(|(known, _)| !known.is_same(&digest));
        issued.push((digest, Arc::new(identity)));
    }

    /// Returns whose token this is.
    pub(crate) fn authenticate(&self, token: &str) -> Option<Arc<Identity>> {
        if token.is_empty() {
            return None;
        }
        let digest = TokenDigest::of(token);
        let issued = self.issued.read().unwrap_or_else(PoisonError::into_inner);
        let same = |(known, _): &&(TokenDigest, _)| known.is_same(&digest);
        let found = issued.iter().filter(same).map(|(_, user)| user);
        let found = found.reduce(|first, _| first).cloned();
        found.or_else(|| self.policy.find(&digest).cloned())
    }

    /// Lets a request pass, with its [`Identity`] as an extension, or says why not.
    pub(crate) fn admit(&self, caller: &Caller, parts: &mut Parts) -> Result<(), ApiError> {
        let caller = match caller {
            Caller::Known(identity) => Arc::clone(identity),
            Caller::Network => self.caller(&parts.headers)?,
        };
        let identity = match impersonated(&parts.headers)? {
            Some(other) if caller.is_master() => Arc::new(other),
            Some(other) => return Err(may_not_impersonate(&caller, &other)),
            None => caller,
        };
        if !identity.is_master() {
            let asked = Asked::of(parts);
            if !self.policy.allows(&identity, &asked) {
                return Err(refuse(&identity, &asked));
            }
        }
        parts.extensions.insert(identity);
        Ok(())
    }

    /// Reads the credentials; showing none is not an error, showing wrong ones is.
    fn caller(&self, headers: &HeaderMap) -> Result<Arc<Identity>, ApiError> {
        let Some(shown) = headers.get(header::AUTHORIZATION) else {
            return Ok(Arc::new(Identity::anonymous()));
        };
        let shown = shown.to_str().unwrap_or_default();
        let (scheme, token) = shown.split_once(' ').unwrap_or((shown, ""));
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| self.authenticate(token.trim()))
            .flatten()
            .ok_or_else(unauthorized)
    }
}

fn unauthorized() -> ApiError {
    ApiError {
        code: StatusCode::UNAUTHORIZED,
        reason: "Unauthorized",
        message: "Unauthorized".to_owned(),
        details: None,
    }
}

/// Refuses what no rule allows; who has shown no credentials is asked for them instead.
fn refuse(identity: &Identity, asked: &Asked) -> ApiError {
    let known = identity.groups.iter().any(|group| group == AUTHENTICATED);
    if !known && *identity == Identity::anonymous() {
        return unauthorized();
    }
    ApiError {
        code: StatusCode::FORBIDDEN,
        reason: "Forbidden",
        message: asked.refusal(&identity.user),
        details: Some(Box::new(asked.details())),
    }
}

fn may_not_impersonate(caller: &Identity, other: &Identity) -> ApiError {
    let asked = Asked {
        verb: "impersonate".to_owned(),
        resource: "users".to_owned(),
        name: other.user.clone(),
        ..Asked::default()
    };
    refuse(caller, &asked)
}

/// Reads for whom a request wants to speak.
fn impersonated(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    if !headers
        .keys()
        .any(|name| name.as_str().starts_with(IMPERSONATE))
    {
        return Ok(None);
    }
    let texts = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).into_iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .filter(|text| !text.is_empty())
            .collect()
    };
    let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(IMPERSONATE_EXTRA) {
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().extend(texts(name.as_str()));
        }
    }
    let user = first("impersonate-user");
    if user.is_empty() {
        let mut error = ApiError::bad_request("impersonation headers without Impersonate-User");
        error.details = Some(Box::new(json!({})));
        return Err(error);
    }
    let mut identity = Identity::new(user);
    identity.uid = first("impersonate-uid");
    identity.groups = texts("impersonate-group");
    identity.extra = extra;
    if identity.groups.is_empty()
        && let Some(account) = identity.user.strip_prefix("system:serviceaccount:")
    {
        let namespace = account.split(':').next().unwrap_or_default();
        let group = format!("system:serviceaccounts:{namespace}");
        identity = identity.group("system:serviceaccounts").group(group);
    }
    let anonymous = Identity::anonymous();
    Ok(Some(if identity.user == anonymous.user {
        identity.group(anonymous.groups[0].as_str())
    } else {
        identity.group(AUTHENTICATED)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Rule;

    fn access() -> Access {
        let access = Access::new(
            Policy::default()
                .user("of-ann", Identity::new("ann").group("viewers"))
                .user("", Identity::new("nobody"))
                .grant("viewers", Rule::view()),
        );
        access.issue("of-admin", Identity::system_admin());
        access
    }

    fn passes(path: &str, headers: &[(&str, &str)]) -> Result<String, (u16, String)> {
        let mut request = http::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        match access().admit(&Caller::Network, &mut parts) {
            Ok(()) => Ok(parts
                .extensions
                .get::<Arc<Identity>>()
                .unwrap()
                .user
                .clone()),
            Err(error) => Err((error.code.as_u16(), error.message)),
        }
    }

    #[test]
    fn only_the_right_token_opens() {
        let pods = "/api/v1/pods";
        let admin = ("authorization", "Bearer of-admin");
        assert_eq!(passes(pods, &[admin]), Ok("system:admin".to_owned()));
        let ann = ("authorization", "bearer of-ann");
        assert_eq!(passes(pods, &[ann]), Ok("ann".to_owned()));
        for wrong in [
            "Bearer of-eve",
            "Bearer ",
            "Bearer",
            "Basic of-ann",
            "of-ann",
            "",
        ] {
            for path in [pods, "/healthz"] {
                let answer = passes(path, &[("authorization", wrong)]);
                assert_eq!(answer, Err((401, "Unauthorized".to_owned())), "{wrong:?}");
            }
        }
        assert_eq!(passes(pods, &[]), Err((401, "Unauthorized".to_owned())));
        assert_eq!(passes("/version", &[]), Ok("system:anonymous".to_owned()));
    }

    #[test]
    fn masters_speak_for_others_and_nobody_else_does() {
        let admin = ("authorization", "Bearer of-admin");
        let viewers = ("impersonate-group", "viewers");
        let bob = ("impersonate-user", "bob");
        assert_eq!(
            passes("/api/v1/pods", &[admin, bob, viewers]),
            Ok("bob".to_owned())
        );
        let (code, message) = passes("/api/v1/secrets", &[admin, bob, viewers]).unwrap_err();
        assert_eq!(code, 403);
        assert!(
            message.starts_with("secrets is forbidden: User \"bob\""),
            "{message}"
        );
        assert_eq!(
            passes("/api/v1/pods", &[admin, viewers]).unwrap_err().0,
            400
        );
        let ann = ("authorization", "Bearer of-ann");
        let (code, message) = passes("/api/v1/pods", &[ann, bob]).unwrap_err();
        assert_eq!(code, 403);
        assert_eq!(
            message,
            "users \"bob\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
    }
}
