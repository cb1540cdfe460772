//! The schema and CEL rules of the server, and what the server says about names.

use kruntimes_apiserver::schema::{FieldError, FieldErrorKind};
use kruntimes_core::nearest::meant;
use kruntimes_workflow::graph::is_definition_name;
use kruntimes_workflow::yaml::{Finding, Segment, Severity, Source};
use serde_json::Value;

use super::document::Document;
use super::schema::EXPORTED;
use crate::NAMESPACE;

/// How the schema says that rules were not evaluated; the errors themselves say enough.
const RULES_SKIPPED: &str = "some validation rules were not checked";

/// Rules of the schema that have a number of their own, by a part of their text.
const NUMBERED: [(&str, &str); 5] = [
    ("exactly one of steps and uses", "K010"),
    ("exactly one of run and uses", "K011"),
    ("requires uses", "K012"),
    ("a step with uses may not set", "K013"),
    ("steps of an Action must set run", "K045"),
];

/// Judges one object; `earlier` holds what reading it already reported.
pub(super) fn check(source: &Source, document: &Document, earlier: &[Finding]) -> Vec<Finding> {
    let mut findings = unknown_fields(source, document);
    findings.extend(metadata(source, document));
    let mut value = document.value.clone();
    if let Some(object) = value.as_object_mut()
        && object.remove("status").is_some()
    {
        let said = "status is left out: the system writes it";
        let place = document.key_place("status");
        findings.push(source.finding(Severity::Warning, "K000", said, place));
    }
    let schema = document.definition.compiled();
    schema.prune(&mut value);
    schema.default(&mut value);
    let reported = |error: &FieldError| {
        let mut earlier = earlier.iter();
        earlier.any(|one| one.document == document.index && one.path == error.field)
    };
    for error in schema.validate(&value, None) {
        let skipped = error.field.is_empty() && error.message.contains(RULES_SKIPPED);
        if !skipped && !reported(&error) && !is_edge_rule(&error) {
            findings.push(violation(source, document, &error));
        }
    }
    findings
}

/// The edges are judged one by one by the graph check, with their places.
fn is_edge_rule(error: &FieldError) -> bool {
    error.message.contains("needs must name other jobs")
}

fn unknown_fields(source: &Source, document: &Document) -> Vec<Finding> {
    let definition = document.definition;
    let mut value = document.value.clone();
    let mut paths = definition.compiled().prune(&mut value);
    let known = definition.members_at(&[Segment::Field("metadata".to_owned())]);
    let written = document.value["metadata"].as_object();
    for (name, _) in written.into_iter().flatten() {
        if !known.contains(&name.as_str()) {
            paths.push(format!("metadata.{name}"));
        }
    }
    let mut findings = Vec::new();
    for path in paths {
        let located = document.node.locate(&path);
        let parents = &located.found[..located.found.len().saturating_sub(1)];
        let name = located.key.map_or(path.as_str(), |key| &key.text);
        let siblings = definition.members_at(parents);
        let siblings = siblings
            .into_iter()
            .filter(|name| !EXPORTED.contains(name) && *name != "status");
        let finding = source.error(
            "K002",
            format!("unknown field `{path}`"),
            document.key_place(&path),
        );
        findings.push(finding.maybe_help(meant(name, siblings)));
    }
    findings
}

/// Judges what the schema leaves to the server: name and namespace.
fn metadata(source: &Source, document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    let metadata = &document.value["metadata"];
    let text = |name: &str| metadata[name].as_str().filter(|text| !text.is_empty());
    let name_rule = "a name has at most 253 characters: lower-case letters, digits, `-` and `.`, \
                     with a letter or digit at both ends of each part";
    if let Some(name) = text("name") {
        if !is_definition_name(name) {
            let said = format!("metadata.name: `{name}` is not a valid name");
            let finding = source.error("K005", said, document.place("metadata.name"));
            findings.push(finding.help(name_rule));
        }
    } else if let Some(prefix) = text("generateName") {
        if !is_definition_name(&format!("{prefix}0")) {
            let said = format!("metadata.generateName: no name can begin with `{prefix}`");
            let finding = source.error("K005", said, document.place("metadata.generateName"));
            findings.push(finding.help(name_rule));
        }
    } else if !matches!(document.kind(), "Run" | "WorkflowRun") {
        let said = "metadata.name: Required value";
        let place = if metadata.is_object() {
            "metadata"
        } else {
            "kind"
        };
        findings.push(source.error("K004", said, document.key_place(place)));
    }
    if let Some(namespace) = text("namespace")
        && namespace != NAMESPACE
    {
        let said = format!("namespace `{namespace}` does not exist here");
        let finding = source.error("K005", said, document.place("metadata.namespace"));
        let help = format!("leave it out, or write `{NAMESPACE}`");
        findings.push(finding.help(help));
    }
    findings
}

fn violation(source: &Source, document: &Document, error: &FieldError) -> Finding {
    let numbered = NUMBERED
        .iter()
        .find(|(text, _)| error.message.contains(text));
    let code = match (numbered, error.kind) {
        (Some((_, code)), _) => code,
        (None, FieldErrorKind::Required) => "K004",
        (None, FieldErrorKind::TypeInvalid) => "K003",
        (None, _) => "K005",
    };
    let message = format!("{}: {}", error.field, without_object(&error.message));
    let place = match error.kind {
        FieldErrorKind::TooMany | FieldErrorKind::Forbidden => document.key_place(&error.field),
        _ => document.place(&error.field),
    };
    source.error(code, message, place)
}

/// Leaves out a bad value that is an object or a list: the file shows it.
fn without_object(message: &str) -> String {
    let Some(rest) = message.strip_prefix("Invalid value: ") else {
        return message.to_owned();
    };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let found = values.next().and_then(Result::ok);
    let said = rest.get(values.byte_offset()..).unwrap_or_default();
    match found {
        Some(Value::Object(_) | Value::Array(_)) => said.trim_start_matches(": ").to_owned(),
        Some(Value::String(word)) if word == "object" => said.trim_start_matches(": ").to_owned(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
            message.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_object_is_not_printed_again() {
        for (message, want) in [
            ("Invalid value: {\"a\":[1]}: too bad", "too bad"),
            ("Invalid value: \"object\": too bad", "too bad"),
            (
                "Invalid value: \"x\": too bad",
                "Invalid value: \"x\": too bad",
            ),
            ("Required value", "Required value"),
        ] {
            assert_eq!(without_object(message), want);
        }
    }
}
