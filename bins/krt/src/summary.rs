//! What is said at the end: phase, time, jobs, outputs; as a table or as JSON.

use serde_json::{Value, json};
use std::fmt::Write as _;

use crate::board::{Item, is_settled, is_unsuccessful};
use crate::elapsed::compact;
use crate::paint::Paint;

/// Longest output value that is shown in full.
const VALUE_MAX: usize = 200;

/// Renders the end of one target; `object` is the final object.
pub(crate) fn table(item: &Item, object: &Value, paint: Paint) -> String {
    let mut out = String::new();
    let took = item
        .took
        .map_or_else(String::new, |took| format!(" in {}", compact(took)));
    let head = format!("{} {}", paint.glyph(item.phase), item.phase);
    let head = paint.phase(item.phase, &head);
    let _ = writeln!(out, "{head} {}{took}", paint.strong(&item.name));
    let message = object["status"]["message"].as_str().unwrap_or_default();
    if item.phase != "Succeeded" && !message.is_empty() {
        let _ = writeln!(out, "  {}", first_line(message));
    }
    if !item.items.is_empty() {
        jobs(&mut out, item, object, paint);
    }
    let outputs = outputs(object);
    if !outputs.is_empty() {
        let _ = writeln!(out, "\nOUTPUTS");
        for (name, value) in outputs {
            let _ = writeln!(out, "  {name} = {}", shown(value, paint));
        }
    }
    out
}

fn jobs(out: &mut String, item: &Item, object: &Value, paint: Paint) {
    let header = ["JOB", "PHASE", "STEPS", "TIME", "NOTE"].map(str::to_owned);
    let mut rows = vec![header];
    for job in &item.items {
        let is_done = |step: &&Item| step.phase == "Succeeded";
        let done = job.items.iter().filter(is_done).count();
        rows.push([
            job.name.clone(),
            job.phase.to_owned(),
            format!("{done}/{}", job.items.len()),
            job.took.map_or_else(|| "-".to_owned(), compact),
            note(job, object),
        ]);
    }
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    out.push('\n');
    for (index, row) in rows.iter().enumerate() {
        let [job, phase, steps, time, note] = row;
        let [job_width, phase_width, steps_width, time_width] = widths;
        let phase_cell = format!("{phase:<phase_width$}");
        let phase_cell = if index == 0 {
            phase_cell
        } else {
            paint.phase(phase, &phase_cell)
        };
        let line = format!(
            "{job:<job_width$}  {phase_cell}  {steps:<steps_width$}  {time:<time_width$}  {note}"
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Why a job is not `Succeeded`.
fn note(job: &Item, object: &Value) -> String {
    let status = &object["status"]["jobs"][&job.name];
    let text = |name: &str| status[name].as_str().map(str::to_owned);
    if !is_settled(job.phase) {
        let said = if job.started.is_some() {
            "did not finish"
        } else {
            "did not run"
        };
        return said.to_owned();
    }
    if is_unsuccessful(job.phase) || job.phase == "Skipped" {
        let said = text("message").or_else(|| job.message.clone());
        let said = said
            .or_else(|| text("reason"))
            .or_else(|| job.reason.clone());
        return first_line(&said.unwrap_or_default()).to_owned();
    }
    String::new()
}

/// The rest of a long message stands with the failing step.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The outputs of an object: its own, else those of its jobs.
fn outputs(object: &Value) -> Vec<(String, &str)> {
    let status = &object["status"];
    let of = |map: &'_ Value, prefix: &str| -> Vec<(String, String)> {
        let all = map.as_object().into_iter().flatten();
        all.filter(|(name, _)| !name.starts_with(kruntimes_core::keys::OUTPUT_ENV_PREFIX))
            .map(|(name, _)| (format!("{prefix}{name}"), name.clone()))
            .collect()
    };
    let mut found = Vec::new();
    for (shown, name) in of(&status["outputs"], "") {
        found.push((shown, status["outputs"][&name].as_str().unwrap_or_default()));
    }
    if !found.is_empty() {
        return found;
    }
    for (job, body) in status["jobs"].as_object().into_iter().flatten() {
        for (shown, name) in of(&body["outputs"], &format!("{job}.")) {
            found.push((shown, body["outputs"][&name].as_str().unwrap_or_default()));
        }
    }
    found
}

fn shown(value: &str, paint: Paint) -> String {
    let one_line: String = value
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if one_line.chars().count() <= VALUE_MAX {
        return one_line;
    }
    let cut: String = one_line.chars().take(VALUE_MAX).collect();
    format!("{cut}{}", paint.ellipsis())
}

/// Renders final objects as exactly one JSON document (C-8): the object, or a List of several.
pub(crate) fn json(mut objects: Vec<Value>) -> String {
    for object in &mut objects {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
    }
    let document = if objects.len() == 1 {
        objects.remove(0)
    } else {
        json!({ "apiVersion": "v1", "kind": "List", "items": objects })
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("a JSON value has no keys that are not texts")
}

/// Names what a cancellation ended and what it kept from running.
pub(crate) fn cancelled(target: &Item, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: String, item: &Item, note: &str| {
        let head = format!("{} {}", paint.glyph(item.phase), item.phase);
        let head = paint.phase(item.phase, &head);
        let ran = item
            .took
            .map(|ran| format!(" after {}", compact(ran)))
            .unwrap_or_default();
        lines.push(format!("{head} {name}{ran}{note}"));
    };
    if target.items.is_empty() {
        line(target.name.clone(), target, "");
    }
    for job in &target.items {
        for step in &job.items {
            let name = format!("{}/{}", job.name, step.name);
            if is_unsuccessful(step.phase) {
                line(name, step, "");
            } else if step.started.is_some() && !is_settled(step.phase) {
                line(name, step, ", killed");
            }
        }
        if !is_settled(job.phase) && job.started.is_none() {
            line(job.name.clone(), job, ", did not run");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::board::tests::board;

    fn object() -> Value {
        json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "WorkflowRun",
            "metadata": {"name": "demo", "managedFields": [1]},
            "status": {
                "phase": "Failed",
                "message": "step \"unit\" failed",
                "jobs": {
                    "build": {"outputs": {"version": "1.10", "kruntimes.io/env/A": "x", "notes": "a\nb"}},
                    "pack": {"message": "job \"test\" did not succeed"},
                    "test": {"reason": "StepFailed"},
                },
            },
        })
    }

    #[test]
    fn c_53_the_summary_tells_phase_time_jobs_and_outputs() {
        let mut board = board();
        board.targets[0].phase = "Failed";
        board.targets[0].took = Some(Duration::from_millis(3310));
        insta::assert_snapshot!(table(&board.targets[0], &object(), Paint::default()));
    }

    #[test]
    fn outputs_of_the_object_stand_for_those_of_its_jobs() {
        let mut object = object();
        object["status"]["outputs"] = json!({"image": "demo"});
        assert_eq!(outputs(&object), [("image".to_owned(), "demo")]);
    }

    #[test]
    fn c_8_json_is_one_document_without_managed_fields() {
        let one: Value = serde_json::from_str(&json(vec![object()])).unwrap();
        assert_eq!(one["kind"], "WorkflowRun");
        assert!(one["metadata"].get("managedFields").is_none());
        let two: Value = serde_json::from_str(&json(vec![object(), object()])).unwrap();
        assert_eq!(two["kind"], "List");
        assert_eq!(two["items"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_cancellation_names_what_it_ended_and_what_never_ran() {
        let mut board = board();
        let target = &mut board.targets[0];
        let style = &mut target.items[1].items[0];
        (style.phase, style.took) = ("Cancelled", Some(Duration::from_millis(2500)));
        target.items[3].phase = "Waiting";
        insta::assert_snapshot!(cancelled(target, Paint::default()).join("\n"));
    }
}
