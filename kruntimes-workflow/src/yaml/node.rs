//! A YAML document as written: every node with its place in the file.

use std::ops::Range;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Bytes of the file.
    pub span: Range<usize>,
    /// What stands there.
    pub content: Content,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text; `plain` when nothing quotes it, so that it may stand for another type.
    Scalar {
        /// The text, unescaped.
        text: String,
        /// Whether it is unquoted.
        plain: bool,
    },
    /// Elements.
    Sequence(Vec<Node>),
    /// Members in the order of the file, names unique.
    Mapping(Vec<(Key, Node)>),
}

/// The name of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name itself.
    pub text: String,
    /// Bytes of the file.
    pub span: Range<usize>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A member of a mapping.
    Field(String),
    /// An element of a list, counted from zero.
    Index(usize),
}

/// The deepest node on a path.
#[derive(Clone, Debug)]
pub struct Located<'a> {
    /// The node.
    pub node: &'a Node,
    /// The name in front of it.
    pub key: Option<&'a Key>,
    /// Steps that were found.
    pub found: Vec<Segment>,
    /// The part of the path that is not in the file.
    pub rest: String,
}

impl Node {
    /// Returns the members of a mapping, nothing for anything else.
    pub fn members(&self) -> &[(Key, Node)] {
        match &self.content {
            Content::Mapping(members) => members,
            Content::Scalar { .. } | Content::Sequence(_) => &[],
        }
    }

    /// Returns the elements of a list, nothing for anything else.
    pub fn elements(&self) -> &[Node] {
        match &self.content {
            Content::Sequence(elements) => elements,
            Content::Scalar { .. } | Content::Mapping(_) => &[],
        }
    }

    /// Returns one member with its name as written.
    pub fn member(&self, name: &str) -> Option<(&Key, &Node)> {
        let mut members = self.members().iter();
        let found = members.find(|(key, _)| key.text == name);
        found.map(|(key, node)| (key, node))
    }

    /// Returns the text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            Content::Sequence(_) | Content::Mapping(_) => None,
        }
    }

    /// Tells whether the node is an unquoted text that YAML reads as no value.
    pub fn is_null(&self) -> bool {
        matches!(
            &self.content,
            Content::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
        )
    }

    /// Follows a chain of member names.
    pub fn at(&self, names: &[&str]) -> Option<&Node> {
        let mut node = self;
        for name in names {
            node = node.member(name)?.1;
        }
        Some(node)
    }

    /// Follows a path such as `spec.jobs[build].steps[0].name` as far as it exists.
    ///
    /// Member names may contain dots; the longest name that fits wins.
    pub fn locate(&self, path: &str) -> Located<'_> {
        let mut located = Located {
            node: self,
            key: None,
            found: Vec::new(),
            rest: path.to_owned(),
        };
        while let Some(next) = step(&located) {
            located = next;
        }
        located
    }
}

fn step<'a>(from: &Located<'a>) -> Option<Located<'a>> {
    let path = from.rest.strip_prefix('.').unwrap_or(&from.rest);
    if path.is_empty() {
        return None;
    }
    let advance = |key, node, segment, rest: &str| {
        let mut found = from.found.clone();
        found.push(segment);
        Some(Located {
            node,
            key,
            found,
            rest: rest.to_owned(),
        })
    };
    if let Content::Sequence(elements) = &from.node.content {
        let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
        let index = index.parse().ok()?;
        return advance(None, elements.get(index)?, Segment::Index(index), rest);
    }
    if let (Content::Scalar { .. }, Some(rest)) = (&from.node.content, path.strip_prefix("[0]")) {
        // A text that was taken as a list of one.
        return advance(from.key, from.node, Segment::Index(0), rest);
    }
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    let bracketed = path.strip_prefix('[');
    let rest_after = |name: &str| {
        let dotted = path.strip_prefix(name).filter(|rest| ends(rest));
        let keyed = || bracketed?.strip_prefix(name)?.strip_prefix(']');
        dotted.or_else(keyed)
    };
    let fits = from.node.members().iter().filter_map(|(key, node)| {
        let rest = rest_after(&key.text)?;
        Some((key, node, rest))
    });
    let (key, node, rest) = fits.max_by_key(|(key, _, _)| key.text.len())?;
    advance(Some(key), node, Segment::Field(key.text.clone()), rest)
}

impl Located<'_> {
    /// The range to show for the node: the text itself, else the name in front of it.
    pub fn span(&self) -> Range<usize> {
        let is_text = self.node.text().is_some() && !self.node.span.is_empty();
        let single_line = self.rest.is_empty() && is_text;
        match self.key {
            _ if single_line => self.node.span.clone(),
            Some(key) => key.span.clone(),
            None => self.head(),
        }
    }

    /// The range of the name of the node, else of the first thing in it.
    pub fn key_span(&self) -> Range<usize> {
        self.key.map_or_else(|| self.head(), |key| key.span.clone())
    }

    fn head(&self) -> Range<usize> {
        let mut node = self.node;
        loop {
            node = match &node.content {
                Content::Mapping(members) if !members.is_empty() => {
                    return members[0].0.span.clone();
                }
                Content::Sequence(elements) if !elements.is_empty() => &elements[0],
                Content::Mapping(_) | Content::Sequence(_) | Content::Scalar { .. } => {
                    return node.span.clone();
                }
            };
        }
    }
}
