//! What form of answer a client asks for in its `Accept` header.

use crate::error::ApiError;

const META_GROUP: &str = "meta.k8s.io";

/// The form in which objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Object,
    Metadata,
    /// Rows and columns, in this version of their own API.
    Table(&'static str),
}

/// One entry of the header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parameter(&self, name: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|pair| pair.0 == name);
        found.map(|pair| pair.1)
    }

    fn is_json(&self) -> bool {
        matches!(self.media, "application/json" | "application/*" | "*/*")
    }
}

/// Lists the entries of a header, those the client likes best first.
fn clauses(header: Option<&str>) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = header
        .unwrap_or("*/*")
        .split(',')
        .map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            Clause {
                media: parts.next().unwrap_or_default(),
                parameters: parts.filter_map(|part| part.split_once('=')).collect(),
            }
        })
        .filter(|clause| !clause.media.is_empty())
        .collect();
    clauses.sort_by_key(|clause| {
        let quality = clause
            .parameter("q")
            .and_then(|text| text.parse::<f32>().ok());
        // Thousandths are all that a quality may have.
        std::cmp::Reverse(
            (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0)
                .round()
                .to_bits(),
        )
    });
    clauses
}

/// Whether a client that sends this header can read plain JSON.
pub(crate) fn takes_json(header: Option<&str>) -> bool {
    let taken = |clause: &Clause<'_>| clause.is_json() && clause.parameter("as").is_none();
    header.is_none_or(|header| header.trim().is_empty()) || clauses(header).iter().any(taken)
}

/// Whether a client prefers the discovery of all groups in one document.
pub(crate) fn wants_aggregated(header: Option<&str>) -> bool {
    let wanted = clauses(header).into_iter().find_map(|clause| {
        if !clause.is_json() {
            return None;
        }
        match clause.parameter("as") {
            None => Some(false),
            Some("APIGroupDiscoveryList")
                if clause.parameter("g") == Some("apidiscovery.k8s.io")
                    && clause.parameter("v") == Some("v2") =>
            {
                Some(true)
            }
            Some(_) => None,
        }
    });
    wanted == Some(true)
}

/// Picks the form a client likes best among those that are served.
///
/// `list` tells whether the answer is a list; watches answer with one object at a time.
pub(crate) fn target(header: Option<&str>, list: bool) -> Result<Target, ApiError> {
    if header.is_none_or(|header| header.trim().is_empty()) {
        return Ok(Target::Object);
    }
    for clause in clauses(header).iter().filter(|clause| clause.is_json()) {
        let Some(wanted) = clause.parameter("as") else {
            return Ok(Target::Object);
        };
        let version = match (clause.parameter("g"), clause.parameter("v")) {
            (Some(META_GROUP), Some("v1")) => "meta.k8s.io/v1",
            (Some(META_GROUP), Some("v1beta1")) => "meta.k8s.io/v1beta1",
            _ => continue,
        };
        match wanted {
            "Table" => return Ok(Target::Table(version)),
            "PartialObjectMetadata" if !list => return Ok(Target::Metadata),
            "PartialObjectMetadataList" if list => return Ok(Target::Metadata),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => {
                let is = if list { "a list" } else { "not a list" };
                return Err(ApiError::not_acceptable(format!(
                    "you requested {wanted}, but the requested object is {is}"
                )));
            }
            _ => {}
        }
    }
    Err(nothing_served())
}

/// Refuses a client that reads nothing that is served here.
pub(crate) fn nothing_served() -> ApiError {
    ApiError::not_acceptable("only the following media types are accepted: application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn the_first_form_that_is_served_wins() {
        for (header, list, want) in [
            ("", false, Some(Target::Object)),
            ("*/*", false, Some(Target::Object)),
            (TABLE, true, Some(Target::Table("meta.k8s.io/v1"))),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,*/*",
                true,
                Some(Target::Table("meta.k8s.io/v1beta1")),
            ),
            (
                "application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9",
                true,
                Some(Target::Table("meta.k8s.io/v1")),
            ),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                false,
                Some(Target::Object),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                false,
                Some(Target::Metadata),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                true,
                Some(Target::Metadata),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                false,
                None,
            ),
            ("application/json;as=Fancy;g=meta.k8s.io;v=v1", false, None),
            ("text/html", false, None),
        ] {
            assert_eq!(target(Some(header), list).ok(), want, "{header}");
        }
        assert_eq!(target(None, true).unwrap(), Target::Object);
    }

    #[test]
    fn discovery_comes_as_one_document_to_those_who_ask() {
        let whole = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert!(wants_aggregated(Some(whole)));
        let kubectl = format!(
            "{whole},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
        );
        assert!(wants_aggregated(Some(&kubectl)));
        assert!(!wants_aggregated(Some("application/json")));
        assert!(!wants_aggregated(None));
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert!(!wants_aggregated(Some(old)));
        assert!(!takes_json(Some(old)));
        assert!(takes_json(Some(&kubectl)));
    }
}
