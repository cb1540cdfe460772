//! One object of a manifest file: its kind, its JSON, the places of its fields.

use kruntimes_core::api::API_VERSION;
use kruntimes_core::crd::KINDS;
use kruntimes_core::nearest::meant;
use kruntimes_workflow::yaml::{Content, Finding, Node, Place, Source};
use serde_json::Value;

use super::schema::{Definition, definition};
use super::shape::Shaper;

/// What a file may hold, as a refusal says it.
const ACCEPTED: &str = "a document is a kruntimes manifest: `apiVersion: kruntimes.io/v1alpha1`, then `kind: \
                        WorkflowRun`, `Workflow`, `Run` or `Runtime`, then `metadata` and `spec`";

/// One object.
pub(super) struct Document {
    pub(super) index: usize,
    pub(super) definition: &'static Definition,
    pub(super) node: Node,
    /// The object as JSON, in the types of its schema, with everything that was written.
    pub(super) value: Value,
}

impl Document {
    /// Reads the kind and converts the object; `None` when it is of no known kind.
    pub(super) fn read(
        index: usize,
        node: Node,
        source: &Source,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let definition = match kind(index, &node, source, findings) {
            Ok(definition) => definition,
            Err(finding) => {
                findings.push(*finding);
                return None;
            }
        };
        let mut shaper = Shaper {
            source,
            document: index,
            findings: Vec::new(),
        };
        let value = shaper.shape(&node, Some(definition.root()), "");
        findings.append(&mut shaper.findings);
        Some(Self {
            index,
            definition,
            node,
            value,
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        self.definition.kind
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.value["metadata"]["name"].as_str()
    }

    /// The place of a path, or of the nearest thing above it that was written.
    pub(super) fn place(&self, path: &str) -> Place {
        let located = self.node.locate(path);
        Place {
            document: self.index,
            path: path.to_owned(),
            span: located.span(),
        }
    }

    /// The place of the name in front of a path.
    pub(super) fn key_place(&self, path: &str) -> Place {
        let located = self.node.locate(path);
        Place {
            document: self.index,
            path: path.to_owned(),
            span: located.key_span(),
        }
    }
}

fn kind(
    index: usize,
    node: &Node,
    source: &Source,
    findings: &mut Vec<Finding>,
) -> Result<&'static Definition, Box<Finding>> {
    let place = |path: &str| Place {
        document: index,
        path: path.to_owned(),
        span: node.locate(path).span(),
    };
    if !matches!(node.content, Content::Mapping(_)) {
        let finding = source.error("K003", "a document must be a mapping", place(""));
        return Err(Box::new(finding.help(ACCEPTED)));
    }
    let Some((_, kind)) = node.member("kind") else {
        let is_ci = node.member("jobs").is_some();
        let said = if is_ci {
            "this looks like the file of a CI system, which is not accepted here"
        } else {
            "kind: Required value"
        };
        let help = if is_ci {
            format!("{ACCEPTED}; `jobs` goes below `spec`, and every step has a `name`")
        } else {
            ACCEPTED.to_owned()
        };
        let at = place(if is_ci { "jobs" } else { "" });
        return Err(Box::new(source.error("K004", said, at).help(help)));
    };
    let word = kind.text().unwrap_or_default();
    let Some(definition) = definition(word) else {
        let said = format!("unknown kind `{word}`");
        let finding = source.error("K005", said, place("kind"));
        return Err(Box::new(finding.maybe_help(meant(word, KINDS))));
    };
    match node.member("apiVersion").map(|(_, value)| value.text()) {
        Some(Some(API_VERSION)) => {}
        found => {
            let at = place(if found.is_some() {
                "apiVersion"
            } else {
                "kind"
            });
            let (code, said) = match found.flatten() {
                Some(version) => ("K005", format!("unknown apiVersion `{version}`")),
                None => ("K004", "apiVersion: Required value".to_owned()),
            };
            let finding = source.error(code, said, at);
            findings.push(finding.help(format!("write `apiVersion: {API_VERSION}`")));
        }
    }
    Ok(definition)
}
