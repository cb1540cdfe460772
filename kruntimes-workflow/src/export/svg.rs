//! The graph as a picture that a browser shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::layout::columns;
use super::{Graph, JobNode, colour};

/// Sizes in pixels.
const CHARACTER: usize = 8;
const BOX_HEIGHT: usize = 44;
const GAP_BETWEEN_ROWS: usize = 16;
const GAP_BETWEEN_COLUMNS: usize = 56;
const MARGIN: usize = 12;

/// Upper left corner and width of a box.
#[derive(Clone, Copy)]
struct Place {
    x: usize,
    y: usize,
    width: usize,
}

/// Draws the graph from left to right. Text, boxes and lines only: no script, no font, no link.
pub fn svg(graph: &Graph) -> String {
    let jobs = graph.jobs();
    let columns = columns(graph);
    let mut places: BTreeMap<&str, Place> = BTreeMap::new();
    let tallest = columns.iter().map(Vec::len).max().unwrap_or(0);
    let height_of = |count: usize| count * (BOX_HEIGHT + GAP_BETWEEN_ROWS);
    let mut x = MARGIN;
    for column in &columns {
        let width = column
            .iter()
            .map(|job| width(&jobs[*job]))
            .max()
            .unwrap_or(0);
        // Shorter columns stand in the middle of the picture.
        let top = (height_of(tallest) - height_of(column.len())) / 2;
        for (row, job) in column.iter().enumerate() {
            let y = MARGIN + top + height_of(row);
            places.insert(&jobs[*job].name, Place { x, y, width });
        }
        x += width + GAP_BETWEEN_COLUMNS;
    }
    let width = (x + MARGIN).saturating_sub(GAP_BETWEEN_COLUMNS);
    let height = height_of(tallest) + 2 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for job in jobs {
        for need in &job.needs {
            if let (Some(from), Some(to)) = (places.get(need.as_str()), places.get(&*job.name)) {
                line(&mut out, *from, *to);
            }
        }
    }
    for job in jobs {
        if let Some(place) = places.get(&*job.name) {
            boxed(&mut out, job, *place);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn width(job: &JobNode) -> usize {
    let longest = job.name.chars().count().max(job.summary().chars().count());
    longest * CHARACTER + 2 * MARGIN
}

fn line(out: &mut String, from: Place, to: Place) {
    let (x1, y1) = (from.x + from.width, from.y + BOX_HEIGHT / 2);
    let (x2, y2) = (to.x, to.y + BOX_HEIGHT / 2);
    let bend = GAP_BETWEEN_COLUMNS / 2;
    let (c1, c2) = (x1 + bend, x2.saturating_sub(bend));
    let tip = x2.saturating_sub(6);
    let (above, below) = (y2.saturating_sub(4), y2 + 4);
    let _ = writeln!(
        out,
        "<path d=\"M{x1} {y1}C{c1} {y1} {c2} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#888\"/>\
         <path d=\"M{tip} {above}L{x2} {y2}L{tip} {below}\" fill=\"none\" stroke=\"#888\"/>"
    );
}

fn boxed(out: &mut String, job: &JobNode, place: Place) {
    let fill = job.phase.map_or("#ffffff", colour);
    let Place { x, y, width } = place;
    let middle = x + width / 2;
    let (first, second) = (y + 18, y + 35);
    let (name, does) = (escaped(&job.name), escaped(&job.summary()));
    let said = job
        .phase
        .map_or_else(String::new, |phase| format!(": {phase}"));
    let _ = writeln!(
        out,
        "<g><title>{name}{said}</title>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"4\" fill=\"{fill}\" stroke=\"#333\"/>\
         <text x=\"{middle}\" y=\"{first}\" text-anchor=\"middle\" font-weight=\"bold\">{name}</text>\
         <text x=\"{middle}\" y=\"{second}\" text-anchor=\"middle\" fill=\"#555\">{does}</text></g>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
