//! Builds nodes from the events of the YAML parser.
//!
//! Names are texts, names of one mapping are unique, anchors may be used within
//! a budget, tags other than `!!str` and merge keys are refused.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "events of the parser that begin no node are passed over, also those of later versions"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::finding::Finding;
use super::node::{Content, Key, Node};
use super::source::{Place, Source};

/// Nodes that aliases of one file may add.
const ALIAS_BUDGET: usize = 10_000;
/// Bytes that keeping anchors and following aliases may copy, in MiB.
const COPY_BUDGET_MIB: usize = 8;
/// What a node weighs without its text.
const NODE_BYTES: usize = 64;

/// The documents of a file and what is wrong with their YAML.
#[derive(Clone, Debug)]
pub struct Composed {
    /// Documents that hold something, with their index in the file.
    pub documents: Vec<(usize, Node)>,
    /// What was wrong on the way.
    pub findings: Vec<Finding>,
    /// Whether the parser gave up before the end of the file.
    pub broken: bool,
}

/// Why composing stops: a finding was recorded.
struct Stop;

struct Composer<'a> {
    source: &'a Source,
    parser: Parser<'a, StrInput<'a>>,
    document: usize,
    anchors: BTreeMap<usize, Node>,
    budget: usize,
    copy_budget: usize,
    findings: Vec<Finding>,
}

/// Reads every document of a file; nothing but YAML itself is judged.
pub fn compose(source: &Source) -> Composed {
    let mut composer = Composer {
        source,
        parser: Parser::new_from_str(&source.text),
        document: 0,
        anchors: BTreeMap::new(),
        budget: ALIAS_BUDGET,
        copy_budget: COPY_BUDGET_MIB << 20,
        findings: Vec::new(),
    };
    let mut documents = Vec::new();
    let end = composer.stream(&mut documents);
    Composed {
        documents,
        findings: composer.findings,
        broken: end.is_err(),
    }
}

impl<'a> Composer<'a> {
    fn stream(&mut self, documents: &mut Vec<(usize, Node)>) -> Result<(), Stop> {
        let mut next = 0;
        while let Some((event, span)) = self.event()? {
            match event {
                Event::DocumentStart(..) => {
                    self.document = next;
                    self.anchors.clear();
                    next += 1;
                }
                Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::Alias(_) => {
                    let node = self.node(event, span)?;
                    if !node.is_null() {
                        documents.push((self.document, node));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the next event that is not a comment.
    fn event(&mut self) -> Result<Option<(Event<'a>, Span)>, Stop> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(found)) => Ok(Some(found)),
            Some(Err(error)) => {
                let byte = error.marker().byte_offset().unwrap_or_default();
                let end = self.source.text[self.source.text.floor_char_boundary(byte)..]
                    .chars()
                    .next()
                    .map_or(byte, |c| byte + c.len_utf8());
                let finding = self.report("K001", error.kind().to_string(), byte..end);
                let tabbed = self
                    .source
                    .line(finding.line)
                    .trim_start_matches(' ')
                    .starts_with('\t');
                let help = tabbed.then(|| "YAML is indented with spaces only".to_owned());
                self.findings.push(finding.maybe_help(help));
                Err(Stop)
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Stop> {
        let range = range(&span);
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = self.is_text(tag.as_deref(), &range);
                // The parser writes an absent value as `~`.
                let text = if range.is_empty() && style == ScalarStyle::Plain {
                    String::new()
                } else {
                    text.into_owned()
                };
                let plain = style == ScalarStyle::Plain && !is_text;
                (Content::Scalar { text, plain }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.is_text(tag.as_deref(), &range);
                (self.sequence()?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.is_text(tag.as_deref(), &range);
                (self.mapping()?, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, range),
            _ => (
                Content::Scalar {
                    text: String::new(),
                    plain: true,
                },
                0,
            ),
        };
        let node = Node {
            span: range,
            content,
        };
        if anchor > 0 {
            self.pay(weight(&node), &node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self) -> Result<Content, Stop> {
        let mut elements = Vec::new();
        while let Some((event, span)) = self.event()? {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            if event.is_node() {
                elements.push(self.node(event, span)?);
            }
        }
        Ok(Content::Sequence(elements))
    }

    fn mapping(&mut self) -> Result<Content, Stop> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        while let Some((event, span)) = self.event()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            if !event.is_node() {
                continue;
            }
            let name = self.node(event, span)?;
            let value = loop {
                match self.event()? {
                    Some((event, span)) if event.is_node() => break self.node(event, span)?,
                    Some(_) => {}
                    None => return Err(Stop),
                }
            };
            let Some(key) = self.key(name) else { continue };
            if names.insert(key.text.clone()) {
                members.push((key, value));
            } else {
                let said = format!("`{}` stands twice in one mapping", key.text);
                let finding = self.report("K001", said, key.span);
                self.findings
                    .push(finding.help("keep one of them; the other would be lost"));
            }
        }
        Ok(Content::Mapping(members))
    }

    fn key(&mut self, name: Node) -> Option<Key> {
        let span = name.span.clone();
        let said = match name.content {
            Content::Scalar { text, plain: true } if text == "<<" => {
                "merge keys are not supported: write the fields out".to_owned()
            }
            Content::Scalar { text, .. } if !text.is_empty() => return Some(Key { text, span }),
            Content::Scalar { .. } => "a name is missing before `:`".to_owned(),
            Content::Sequence(_) | Content::Mapping(_) => {
                "a name must be a text, not a list or a mapping".to_owned()
            }
        };
        let finding = self.report("K001", said, span);
        self.findings.push(finding);
        None
    }

    fn alias(&mut self, anchor: usize, span: Range<usize>) -> Result<Node, Stop> {
        let Some(node) = self.anchors.get(&anchor) else {
            let finding = self.report("K001", "an alias cannot refer to what contains it", span);
            self.findings.push(finding);
            return Err(Stop);
        };
        let bytes = weight(node);
        let Some(left) = self.budget.checked_sub(size(node)) else {
            let said = format!("aliases expand to more than {ALIAS_BUDGET} nodes");
            let finding = self.report("K001", said, span);
            self.findings.push(finding);
            return Err(Stop);
        };
        self.budget = left;
        self.pay(bytes, &span)?;
        let content = self.anchors[&anchor].content.clone();
        Ok(Node { span, content })
    }

    /// Takes the bytes of a copy from what one file may have copied.
    fn pay(&mut self, bytes: usize, span: &Range<usize>) -> Result<(), Stop> {
        let Some(left) = self.copy_budget.checked_sub(bytes) else {
            let said = format!("anchors and aliases copy more than {COPY_BUDGET_MIB} MiB");
            let finding = self.report("K001", said, span.clone());
            self.findings.push(finding);
            return Err(Stop);
        };
        self.copy_budget = left;
        Ok(())
    }

    /// Tells whether a tag makes a scalar a text, and refuses other tags.
    fn is_text(&mut self, tag: Option<&Tag>, span: &Range<usize>) -> bool {
        match tag {
            None => false,
            Some(tag) if tag.core_suffix() == Some("str") => true,
            Some(tag) => {
                let said = format!("tag `{}` is not supported", tag.original());
                let finding = self.report("K001", said, span.clone());
                self.findings.push(finding);
                false
            }
        }
    }

    fn report(&self, code: &'static str, said: impl Into<String>, span: Range<usize>) -> Finding {
        let place = Place {
            document: self.document,
            path: String::new(),
            span,
        };
        self.source.error(code, said, place)
    }
}

fn range(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or(0..0)
}

fn size(node: &Node) -> usize {
    let inner: usize = match &node.content {
        Content::Scalar { .. } => 0,
        Content::Sequence(elements) => elements.iter().map(size).sum(),
        Content::Mapping(members) => members.iter().map(|(_, value)| size(value)).sum(),
    };
    inner + 1
}

/// About how many bytes a copy takes.
fn weight(node: &Node) -> usize {
    let inner: usize = match &node.content {
        Content::Scalar { text, .. } => text.len(),
        Content::Sequence(elements) => elements.iter().map(weight).sum(),
        Content::Mapping(members) => members
            .iter()
            .map(|(key, value)| NODE_BYTES + key.text.len() + weight(value))
            .sum(),
    };
    inner + NODE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(text: &str) -> (Source, Composed) {
        let source = Source::new("f.yaml", text);
        let composed = compose(&source);
        (source, composed)
    }

    /// Prints nodes with the text of their spans.
    fn printed(source: &Source, node: &Node) -> String {
        match &node.content {
            Content::Scalar { text, plain } => {
                format!("{text:?}/{plain}/{:?}", source.slice(&node.span))
            }
            Content::Sequence(elements) => {
                let all: Vec<_> = elements.iter().map(|e| printed(source, e)).collect();
                format!("[{}]", all.join(", "))
            }
            Content::Mapping(members) => {
                let all: Vec<_> = members
                    .iter()
                    .map(|(k, v)| format!("{}={}", source.slice(&k.span), printed(source, v)))
                    .collect();
                format!("{{{}}}", all.join(", "))
            }
        }
    }

    #[test]
    fn every_node_has_its_place() {
        let text = "a: 1.10\nb: [x, 'y z']\nc:\nd: |\n  one\n   two\ne: >-\n  f\n  g\n# end\n";
        let (source, composed) = composed(text);
        assert!(composed.findings.is_empty(), "{:?}", composed.findings);
        insta::assert_snapshot!(
            printed(&source, &composed.documents[0].1),
            @r#"{a="1.10"/true/"1.10", b=["x"/true/"x", "y z"/false/"'y z'"], c=""/true/"", d="one\n two\n"/false/"one\n   two\n", e="f g"/false/"f\n  g\n"}"#
        );
    }

    #[test]
    fn documents_are_counted_and_empty_ones_left_out() {
        let (_, composed) = composed("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n");
        let indexes: Vec<_> = composed.documents.iter().map(|(index, _)| *index).collect();
        assert_eq!(indexes, [1, 3]);
    }

    /// Case 139: the second of two equal names would be lost.
    #[test]
    fn a_name_that_stands_twice_is_an_error() {
        let (_, composed) = composed("env:\n  A: 1\n  B: 2\n  A: 3\n");
        assert_eq!(composed.findings.len(), 1);
        let finding = &composed.findings[0];
        assert_eq!((finding.line, finding.column, finding.code), (4, 3, "K001"));
        assert_eq!(finding.message, "`A` stands twice in one mapping");
    }

    #[test]
    fn aliases_are_followed_within_a_budget() {
        let (source, good) = composed("a: &x [1, 2]\nb: *x\n");
        assert!(good.findings.is_empty());
        let b = good.documents[0].1.at(&["b"]).unwrap();
        assert_eq!(source.slice(&b.span), "*x");
        assert_eq!(b.elements().len(), 2);
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, of) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d")] {
            let list = vec![format!("*{of}"); 10].join(", ");
            bomb = format!("{bomb}{name}: &{name} [{list}]\n");
        }
        let (_, composed) = composed(&bomb);
        assert!(composed.broken);
        assert_eq!(
            composed.findings[0].message,
            "aliases expand to more than 10000 nodes"
        );
    }

    /// A small file must not become a large one, whichever way it copies.
    #[test]
    fn w_195_few_aliases_of_a_long_text_and_nested_anchors_are_bounded_too() {
        let long = "x".repeat(20_000);
        let aliases = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 500].join(", "));
        let names = format!(
            "a: &a\n  ? {long}\n  : 1\nb: [{}]\n",
            vec!["*a"; 500].join(", ")
        );
        let open = "&a [".repeat(200);
        let elements = "x,".repeat(2000);
        let anchors = format!("{open}{elements}{}", "]".repeat(200));
        for text in [aliases, names, anchors] {
            let (_, composed) = composed(&text);
            assert!(composed.broken);
            let said: Vec<_> = composed.findings.iter().map(|f| &f.message).collect();
            assert_eq!(said, ["anchors and aliases copy more than 8 MiB"]);
        }
        let (_, few) = composed(&format!("a: &a {long}\nb: [{}]\n", "*a, ".repeat(300)));
        assert!(few.findings.is_empty() && !few.broken);
    }

    #[test]
    fn what_yaml_allows_and_manifests_do_not_is_refused() {
        for (text, want) in [
            ("a: !secret x\n", "tag `!secret` is not supported"),
            (
                "a: &b {c: 1}\nd:\n  <<: *b\n",
                "merge keys are not supported: write the fields out",
            ),
            (
                "? [a]\n: b\n",
                "a name must be a text, not a list or a mapping",
            ),
        ] {
            let (_, composed) = composed(text);
            let said: Vec<_> = composed.findings.iter().map(|f| &f.message).collect();
            assert_eq!(said, [want], "{text}");
        }
        let (_, text) = composed("a: !!str 1\n");
        assert!(text.findings.is_empty());
    }

    #[test]
    fn a_tab_is_named() {
        let (_, composed) = composed("a:\n\tb: 1\n");
        assert!(composed.broken);
        let finding = &composed.findings[0];
        assert_eq!((finding.line, finding.code), (2, "K001"));
        assert_eq!(
            finding.help.as_deref(),
            Some("YAML is indented with spaces only")
        );
    }
}
