//! Jobs of a Workflow or WorkflowRun in a stable order (C-46).

use std::collections::BTreeMap;

use serde_json::Value;

use super::printer::text;

/// One job, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobLine {
    /// Name of the job.
    pub(super) name: String,
    /// `uses X`, or `runs-on X, n steps`.
    pub(super) what: String,
    /// Jobs it waits for.
    pub(super) needs: Vec<String>,
}

/// The jobs of a spec, ordered by dependency, then by name.
pub(super) fn ordered(spec: &Value) -> Vec<JobLine> {
    let jobs = spec["jobs"].as_object();
    let mut lines: Vec<JobLine> = jobs
        .into_iter()
        .flatten()
        .map(|(name, job)| line(name, job))
        .collect();
    let needs: BTreeMap<String, Vec<String>> = lines
        .iter()
        .map(|line| (line.name.clone(), line.needs.clone()))
        .collect();
    let mut depths: BTreeMap<String, usize> = needs.keys().map(|name| (name.clone(), 0)).collect();
    // As many rounds as jobs settle every graph without a cycle, and end for one with.
    for _ in 0..needs.len() {
        for (name, needs) in &needs {
            let deepest = needs.iter().filter_map(|need| depths.get(need)).max();
            let depth = deepest
                .map_or(0, |depth| depth + 1)
                .min(needs.len().max(depths.len()));
            depths.insert(name.clone(), depth);
        }
    }
    lines.sort_by(|a, b| (depths[&a.name], &a.name).cmp(&(depths[&b.name], &b.name)));
    lines
}

fn line(name: &str, job: &Value) -> JobLine {
    let needs = job["needs"].as_array().into_iter().flatten();
    let what = if let Some(called) = job["uses"].as_str() {
        format!("uses {called}")
    } else {
        let steps = job["steps"].as_array().map_or(0, Vec::len);
        let plural = if steps == 1 { "" } else { "s" };
        format!("runs-on {}, {steps} step{plural}", text(&job["runs-on"]))
    };
    JobLine {
        name: name.to_owned(),
        what,
        needs: needs.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn c_46_jobs_come_after_what_they_need_and_then_by_name() {
        let spec = json!({"jobs": {
            "a": {"runs-on": "bash", "needs": ["z"], "steps": [{}, {}]},
            "b": {"uses": "other", "needs": ["a", "c"]},
            "c": {"runs-on": "bash", "steps": [{}]},
            "z": {"runs-on": "bash", "steps": []},
        }});
        let lines = ordered(&spec);
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["c", "z", "a", "b"]);
        let what: Vec<&str> = lines.iter().map(|line| line.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "runs-on bash, 1 step",
                "runs-on bash, 0 steps",
                "runs-on bash, 2 steps",
                "uses other"
            ]
        );
        let cycle = json!({"jobs": {"a": {"needs": ["b"]}, "b": {"needs": ["a"]}}});
        assert_eq!(ordered(&cycle).len(), 2, "a cycle ends too");
    }
}
