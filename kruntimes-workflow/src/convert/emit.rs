//! Writes a converted file as a manifest, with the line each job comes from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kruntimes_core::api::{API_VERSION, Job, Step};

use super::{Converted, Kind};

/// Words that YAML 1.1 or 1.2 takes for something else than a text.
const RESERVED: [&str; 10] = [
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~",
];

/// Prints the manifest; equal files give equal text.
///
/// `name` is the file that the comments refer to.
pub fn to_yaml(name: &str, converted: &Converted) -> String {
    let (kind, prefix) = match converted.kind {
        Kind::Workflow => ("Workflow", "wf-"),
        Kind::WorkflowRun => ("WorkflowRun", "wfr-"),
    };
    let name = name.replace(['\n', '\r'], " ");
    let mut out = format!(
        "# converted from {name}\napiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  generateName: {prefix}\n"
    );
    map(&mut out, 2, "annotations", &converted.annotations);
    out.push_str("spec:\n");
    if !converted.inputs.is_empty() {
        out.push_str("  inputs:\n");
    }
    for (name, input) in &converted.inputs {
        let _ = writeln!(out, "    {}:", plain(name));
        let _ = writeln!(out, "      required: {}", input.required);
        if let Some(default) = &input.default {
            let _ = writeln!(out, "      default: {}", plain(default));
        }
    }
    if !converted.outputs.is_empty() {
        out.push_str("  outputs:\n");
    }
    for (name, output) in &converted.outputs {
        let value = plain(&output.value);
        let _ = writeln!(out, "    {}:\n      value: {value}", plain(name));
    }
    out.push_str("  jobs:\n");
    for (job_name, body) in &converted.jobs {
        if let Some(line) = converted.lines.get(job_name) {
            let _ = writeln!(out, "    # {name}:{line}");
        }
        job(&mut out, job_name, body);
    }
    out
}

fn job(out: &mut String, name: &str, job: &Job) {
    let _ = writeln!(out, "    {}:", plain(name));
    if let Some(runtime) = &job.runs_on {
        let _ = writeln!(out, "      runs-on: {}", plain(runtime));
    }
    if !job.needs.is_empty() {
        let needs: Vec<String> = job.needs.iter().map(|need| plain(need)).collect();
        let _ = writeln!(out, "      needs: [{}]", needs.join(", "));
    }
    if let Some(workflow) = &job.uses {
        let _ = writeln!(out, "      uses: {}", plain(workflow));
    }
    map(out, 6, "with", &job.with);
    map(out, 6, "outputs", &job.outputs);
    if !job.steps.is_empty() {
        out.push_str("      steps:\n");
    }
    for one in &job.steps {
        step(out, one);
    }
}

fn step(out: &mut String, step: &Step) {
    let _ = writeln!(out, "      - name: {}", plain(&step.name));
    if let Some(action) = &step.uses {
        let _ = writeln!(out, "        uses: {}", plain(action));
    }
    map(out, 8, "with", &step.with);
    map(out, 8, "env", &step.env);
    if let Some(script) = &step.run {
        let _ = writeln!(out, "        run: {}", block(script, 10));
    }
}

fn map(out: &mut String, indent: usize, name: &str, map: &BTreeMap<String, String>) {
    if map.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:indent$}{name}:", "");
    for (key, value) in map {
        let (key, value) = (plain(key), block(value, indent + 4));
        let _ = writeln!(out, "{:indent$}  {key}: {value}", "");
    }
}

/// Writes a text over several lines where that reads better and means the same.
fn block(text: &str, indent: usize) -> String {
    let (body, sign) = match text.strip_suffix('\n') {
        Some(body) => (body, "|"),
        None => (text, "|-"),
    };
    let printable = |c: char| {
        c == '\n' || c == '\t' || !(c.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c))
    };
    let fits = body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n', '\t'])
        && body.chars().all(printable);
    if !fits {
        return plain(text);
    }
    let mut out = sign.to_owned();
    for line in body.split('\n') {
        if line.is_empty() {
            out.push('\n');
        } else {
            let _ = write!(out, "\n{:indent$}{line}", "");
        }
    }
    out
}

/// Writes a text on one line, quoted when it could be taken for anything else.
fn plain(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || " _./-".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.chars().all(safe)
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}
