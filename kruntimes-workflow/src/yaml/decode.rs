//! Turns nodes into values, reporting what does not fit instead of stopping.

use std::collections::BTreeMap;

use kruntimes_core::nearest::meant;

use super::{Content, Finding, Key, Node, Place, Source};

/// Reads the nodes of one document.
pub(super) struct Decoder<'a> {
    pub(super) source: &'a Source,
    pub(super) document: usize,
    pub(super) root: &'a Node,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Decoder<'a> {
    /// Reports a mistake at a path.
    pub(super) fn report(
        &mut self,
        code: &'static str,
        path: &str,
        said: impl Into<String>,
        help: Option<String>,
    ) {
        let place = Place {
            document: self.document,
            path: path.to_owned(),
            span: self.root.locate(path).span(),
        };
        let finding = self.source.error(code, said, place);
        self.findings.push(finding.maybe_help(help));
    }

    /// Returns the members of a mapping; every name must be a known one.
    pub(super) fn members(
        &mut self,
        node: &'a Node,
        path: &str,
        known: &[&str],
    ) -> BTreeMap<&'a str, &'a Node> {
        let mut members = BTreeMap::new();
        for (key, value) in self.mapping(node, path) {
            let name = key.text.as_str();
            if known.contains(&name) {
                members.insert(name, value);
            } else {
                let at = join(path, name);
                let said = format!("unknown field `{at}`");
                let place = Place {
                    document: self.document,
                    path: at,
                    span: key.span.clone(),
                };
                let finding = self.source.error("K002", said, place);
                let help = meant(name, known.iter().copied());
                self.findings.push(finding.maybe_help(help));
            }
        }
        members
    }

    fn mapping(
        &mut self,
        node: &'a Node,
        path: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Node)> + use<'a> {
        if !matches!(node.content, Content::Mapping(_)) {
            self.wants("a mapping", path, "`{}`");
        }
        node.members().iter().map(|(key, value)| (key, value))
    }

    /// Reads a mapping whose names are free.
    pub(super) fn map<T>(
        &mut self,
        node: Option<&&'a Node>,
        path: &str,
        mut read: impl FnMut(&mut Self, &'a Node, &str) -> T,
    ) -> BTreeMap<String, T> {
        let Some(node) = node else {
            return BTreeMap::new();
        };
        let mut map = BTreeMap::new();
        for (key, value) in self.mapping(node, path) {
            let value = read(self, value, &join(path, &key.text));
            map.insert(key.text.clone(), value);
        }
        map
    }

    /// Reads a list; a scalar is a list of one where `lone` says so.
    pub(super) fn list<T>(
        &mut self,
        node: Option<&&'a Node>,
        path: &str,
        lone: bool,
        mut read: impl FnMut(&mut Self, &'a Node, &str) -> T,
    ) -> Vec<T> {
        let Some(node) = node else { return Vec::new() };
        match &node.content {
            Content::Sequence(elements) => {
                let mut list = Vec::new();
                for (index, element) in elements.iter().enumerate() {
                    list.push(read(self, element, &format!("{path}[{index}]")));
                }
                list
            }
            Content::Scalar { .. } if lone && !node.is_null() => {
                vec![read(self, node, &format!("{path}[0]"))]
            }
            Content::Scalar { .. } | Content::Mapping(_) => {
                self.wants("a list", path, "`[]`");
                Vec::new()
            }
        }
    }

    /// Reads a text: what is written, whatever type it resembles.
    pub(super) fn text(&mut self, node: &'a Node, path: &str) -> String {
        match &node.content {
            Content::Scalar { text, .. } if !node.is_null() => text.clone(),
            Content::Scalar { .. } | Content::Mapping(_) | Content::Sequence(_) => {
                self.wants("a text", path, "`\"\"`");
                String::new()
            }
        }
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(&mut self, node: Option<&&'a Node>, path: &str) -> bool {
        match node.map(|node| node.text()) {
            None | Some(Some("false")) => false,
            Some(Some("true")) => true,
            Some(_) => {
                self.wants("a boolean", path, "`true` or `false`");
                false
            }
        }
    }

    fn wants(&mut self, what: &str, path: &str, write: &str) {
        let said = format!("{path} must be {what}");
        let help = format!("write {write}, or leave the field out");
        self.report("K003", path, said, Some(help));
    }
}

/// Adds a name to a path.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
