//! From places of the engine to places in a file.

use std::ops::Range;

use super::{Node, Source};
use crate::expr::{Segment, segments};
use crate::location::Location;

const OPEN: &str = "${{";

/// Returns the bytes of the expression that begins at `offset` of the text of a node.
///
/// The text of a quoted or a block scalar is not what stands in the file, but
/// its expressions stand there in the same order.
pub fn expression_span(source: &Source, node: &Node, offset: usize) -> Option<Range<usize>> {
    let text = node.text()?;
    let before = text.get(..offset)?.matches(OPEN).count();
    let raw = source.slice(&node.span);
    let (at, _) = raw.match_indices(OPEN).nth(before)?;
    let written = expression_at(text, offset).map_or(OPEN, |(source, _)| source);
    let written = if raw[at..].starts_with(written) {
        written
    } else {
        OPEN
    };
    let start = node.span.start + at;
    Some(start..start + written.len())
}

/// Returns source and body of the expression that begins at `offset`.
pub fn expression_at(text: &str, offset: usize) -> Option<(&str, &str)> {
    segments(text).find_map(|segment| match segment {
        Ok(Segment::Expression {
            offset: at,
            source,
            body,
        }) if at == offset => Some((source, body)),
        Ok(Segment::Expression { .. } | Segment::Text(_)) | Err(_) => None,
    })
}

/// Translates a place of the engine into a path of the object.
pub fn path(document: &Node, location: &Location) -> String {
    let mut path = match &location.job {
        Some(job) => format!("spec.jobs.{job}"),
        None => "spec".to_owned(),
    };
    if let Some(step) = &location.step {
        let steps = document.locate(&format!("{path}.steps"));
        let named = |name: &str| {
            let elements = steps.node.elements().iter();
            // Of two equal names the later one is the mistake.
            elements
                .rev()
                .position(|one| one.at(&["name"]).and_then(|n| n.text()) == Some(name))
        };
        let count = steps.node.elements().len();
        let index = named(step).map_or(0, |from_end| count - 1 - from_end);
        path = format!("{path}.steps[{index}]");
    }
    let Some(field) = &location.field else {
        return path;
    };
    let inside = |open: &str, close: &str| field.strip_prefix(open)?.strip_suffix(close);
    let member = if let Some(index) = inside("arg[", "]") {
        format!("args[{index}]")
    } else if let Some(name) = inside("env[", "]") {
        format!("env.{name}")
    } else if let Some(name) = inside("input \"", "\"") {
        format!("with.{name}")
    } else if let Some(name) = inside("output \"", "\"") {
        let value = if location.job.is_some() { "" } else { ".value" };
        format!("outputs.{name}{value}")
    } else {
        field.clone()
    };
    format!("{path}.{member}")
}
