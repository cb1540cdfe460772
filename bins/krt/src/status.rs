//! `krt local status` and `krt local kubeconfig`: what is known about an engine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kruntimes_embedded::home::Record;
use serde_json::{Value, json};

use crate::args::Format;
use crate::counts::Counts;
use crate::exit::Exit;
use crate::place::Place;
use crate::say;

/// Says whether an engine runs, and what it is busy with.
pub(crate) async fn run(asked: Option<PathBuf>, format: Format) -> Exit {
    match seen(asked, format).await {
        Ok(()) => Exit::Done,
        Err(exit) => exit,
    }
}

async fn seen(asked: Option<PathBuf>, format: Format) -> Result<(), Exit> {
    let place = Place::find_or_say(asked)?;
    let record = place.serving().inspect_err(|exit| {
        if format == Format::Json && *exit == Exit::NotRunning {
            say::data(&pretty(&json!({"running": false, "directory": place.dir})));
        }
    })?;
    let counts = Counts::of(&record).await.map_err(|error| {
        let next = format!("end it with `krt local down --now{}`", place.flag);
        say::notice(&say::problem(&error, &next));
        Exit::NotCarriedOut
    })?;
    say::data(&match format {
        Format::Table => table(&place, &record, &counts),
        Format::Json => pretty(&object(&place, &record, &counts)),
    });
    Ok(())
}

/// Prints the kubeconfig of an engine, or where it is.
pub(crate) fn kubeconfig(asked: Option<PathBuf>, path: bool) -> Exit {
    match text(asked, path) {
        Ok(text) => {
            say::data(&text);
            Exit::Done
        }
        Err(exit) => exit,
    }
}

fn text(asked: Option<PathBuf>, path: bool) -> Result<String, Exit> {
    let record = Place::find_or_say(asked)?.serving()?;
    let file = record.kubeconfig.unwrap_or_default();
    if path {
        return Ok(file.display().to_string());
    }
    std::fs::read_to_string(&file).map_err(|error| {
        let next = format!("it should be in {}", file.display());
        say::notice(&say::problem(&error, &next));
        Exit::NotCarriedOut
    })
}

fn table(place: &Place, record: &Record, counts: &Counts) -> String {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let pid = record.process().map(|process| process.pid());
    let rows = [
        (
            "Running",
            format!(
                "process {}, since {}",
                pid.unwrap_or_default(),
                record.since
            ),
        ),
        ("Serves", record.endpoint.clone().unwrap_or_default()),
        ("Kubeconfig", path(&record.kubeconfig).unwrap_or_default()),
        ("Directory", place.dir.display().to_string()),
        ("WorkflowRuns", phases(&counts.workflow_runs)),
        ("Runs", phases(&counts.runs)),
        (
            "Pods",
            format!("{} of {} ready", counts.ready_pods, counts.pods),
        ),
    ];
    let lines = rows.map(|(name, value)| format!("{name:<14}{value}"));
    lines.join("\n")
}

fn phases(counts: &BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let parts = counts
        .iter()
        .map(|(phase, count)| format!("{count} {phase}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn object(place: &Place, record: &Record, counts: &Counts) -> Value {
    json!({
        "running": true,
        "directory": place.dir,
        "pid": record.process().map(|process| process.pid()),
        "since": record.since,
        "version": record.version,
        "endpoint": record.endpoint,
        "kubeconfig": record.kubeconfig,
        "workflowRuns": counts.workflow_runs,
        "runs": counts.runs,
        "pods": {"total": counts.pods, "ready": counts.ready_pods},
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
