//! What the documents of several files call: targets, inputs, circles (C-67).

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Input, Job, WorkflowSpec};
use kruntimes_core::nearest::meant;
use kruntimes_workflow::definitions::{Definitions, Lookup};
use kruntimes_workflow::graph::{CallError, callees, calls};
use kruntimes_workflow::yaml::{Finding, Severity};
use serde_json::Value;

use super::Manifest;
use super::document::Document;

/// Judges references among all files of one call, whatever their order.
///
/// A target that no file holds may still exist where the objects go, so it is
/// a warning unless `required`. Returned are the findings of each file.
pub fn references(files: &[&Manifest], required: bool) -> Vec<Vec<Finding>> {
    let documents = files.iter().flat_map(|file| &file.documents);
    let mut known = Definitions::default();
    for document in documents.clone() {
        let name = document.name().unwrap_or_default();
        let spec = document.value["spec"].clone();
        match document.kind() {
            "Workflow" => {
                if let Ok(spec) = serde_json::from_value::<WorkflowSpec>(spec) {
                    known = known.with_workflow(name, spec);
                }
            }
            "Action" => {
                if let Ok(spec) = serde_json::from_value::<ActionSpec>(spec) {
                    known = known.with_action(name, spec);
                }
            }
            _ => {}
        }
    }
    // What is called and not there is known to be absent: a graph with holes can be judged too.
    let called: Vec<String> = documents
        .filter_map(|document| {
            serde_json::from_value::<WorkflowSpec>(document.value["spec"].clone()).ok()
        })
        .flat_map(|spec| {
            callees(&spec)
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    for name in called {
        known.workflows.entry(name).or_insert(None);
    }
    let judge = Judge {
        known: &known,
        required,
    };
    files.iter().map(|file| judge.file(file)).collect()
}

struct Judge<'a> {
    known: &'a Definitions,
    required: bool,
}

impl Judge<'_> {
    fn file(&self, file: &Manifest) -> Vec<Finding> {
        let mut findings = Vec::new();
        for document in &file.documents {
            if !matches!(document.kind(), "Workflow" | "WorkflowRun") {
                continue;
            }
            for (name, body) in document.value["spec"]["jobs"]
                .as_object()
                .into_iter()
                .flatten()
            {
                if let Ok(job) = serde_json::from_value::<Job>(body.clone()) {
                    findings.extend(self.job(file, document, name, &job));
                }
            }
            findings.extend(self.graph(file, document));
        }
        findings
    }

    fn job(&self, file: &Manifest, document: &Document, name: &str, job: &Job) -> Vec<Finding> {
        let mut findings = Vec::new();
        let path = format!("spec.jobs.{name}");
        let place = At { file, document };
        if let Some(workflow) = &job.uses {
            match self.known.workflow(workflow) {
                Lookup::Found(spec) => {
                    findings.extend(place.inputs(&path, &job.with, &spec.inputs));
                }
                Lookup::Absent | Lookup::Unread => {
                    let names = present(&self.known.workflows);
                    findings.push(self.missing(&place, &path, ("Workflow", workflow), &names));
                }
            }
        }
        for (index, step) in job.steps.iter().enumerate() {
            let path = format!("{path}.steps[{index}]");
            let Some(action) = &step.uses else { continue };
            match self.known.action(action) {
                Lookup::Found(spec) => {
                    findings.extend(place.inputs(&path, &step.with, &spec.inputs));
                }
                Lookup::Absent | Lookup::Unread => {
                    let names = present(&self.known.actions);
                    findings.push(self.missing(&place, &path, ("Action", action), &names));
                }
            }
        }
        findings
    }

    fn missing(
        &self,
        at: &At<'_>,
        path: &str,
        (kind, name): (&str, &str),
        known: &[&str],
    ) -> Finding {
        let severity = if self.required {
            Severity::Error
        } else {
            Severity::Warning
        };
        let said = format!("{kind} `{name}` is in none of the files");
        let place = at.document.place(&format!("{path}.uses"));
        let finding = at.file.source.finding(severity, "K040", said, place);
        match meant(name, known.iter().copied()) {
            Some(help) => finding.help(help),
            None => finding,
        }
    }

    /// Reports a circle once, at the Workflow in it whose name comes first.
    fn graph(&self, file: &Manifest, document: &Document) -> Option<Finding> {
        let name = document.name().filter(|_| document.kind() == "Workflow")?;
        let error = calls(name, self.known).err()?;
        let (code, chain) = match &error {
            CallError::Cycle(chain) if chain.first().map(String::as_str) == Some(name) => {
                let first = chain.iter().min();
                (first.map(String::as_str) == Some(name)).then_some(("K041", chain))?
            }
            CallError::TooDeep(chain) => ("K042", chain),
            _ => return None,
        };
        let jobs = document.value["spec"]["jobs"].as_object()?;
        let caller = jobs
            .iter()
            .find(|(_, job)| job["uses"] == Value::from(chain.get(1).map(String::as_str)))?;
        let place = document.place(&format!("spec.jobs.{}.uses", caller.0));
        Some(file.source.error(code, error.to_string(), place))
    }
}

/// One document of one file.
struct At<'a> {
    file: &'a Manifest,
    document: &'a Document,
}

impl At<'_> {
    /// Compares what a call gives with what its target declares (K043, K044).
    fn inputs(
        &self,
        path: &str,
        with: &BTreeMap<String, String>,
        declared: &BTreeMap<String, Input>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for key in with.keys().filter(|key| !declared.contains_key(*key)) {
            let said = format!("unknown input `{key}`");
            let place = self.document.key_place(&format!("{path}.with.{key}"));
            let finding = self.file.source.error("K043", said, place);
            findings.push(match meant(key, declared.keys().map(String::as_str)) {
                Some(help) => finding.help(help),
                None => finding.help("the target declares no inputs"),
            });
        }
        let open =
            |input: &Input| input.required && input.default.as_deref().unwrap_or("").is_empty();
        for (key, _) in declared.iter().filter(|(_, input)| open(input)) {
            if !with.contains_key(key) {
                let said = format!("missing required input `{key}`");
                let place = self.document.place(&format!("{path}.uses"));
                let finding = self.file.source.error("K044", said, place);
                findings.push(finding.help(format!("add `{key}` to `with`")));
            }
        }
        findings
    }
}

/// Lists the names of what was found.
fn present<T>(known: &BTreeMap<String, Option<T>>) -> Vec<&str> {
    let found = known.iter().filter(|(_, spec)| spec.is_some());
    found.map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn workflow(name: &str, rest: &str) -> String {
        format!(
            "---\napiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {{name: {name}}}\nspec:\n{rest}"
        )
    }

    fn said(files: &[String], required: bool) -> Vec<String> {
        let read = |text: &String| read("f.yaml", text).unwrap_or_else(|found| panic!("{found:?}"));
        let files: Vec<Manifest> = files.iter().map(read).collect();
        let found = references(&files.iter().collect::<Vec<_>>(), required);
        let all = found.iter().flatten();
        all.map(|one| {
            let help = one.help.as_deref().unwrap_or("-");
            let word = one.severity.as_str();
            format!(
                "{}:{} {word} {} {} ({help})",
                one.line, one.column, one.code, one.message
            )
        })
        .collect()
    }

    /// C-67: the order of files is irrelevant, and what is missing may be elsewhere.
    #[test]
    fn c_67_references_are_resolved_among_all_files() {
        let caller = workflow(
            "caller",
            "  jobs:\n    a:\n      uses: target\n      with: {whom: x}\n    b: {uses: tarjet}\n",
        );
        let target = workflow(
            "target",
            "  inputs: {who: {required: true}}\n  jobs:\n    a: {runs-on: bash, steps: [{name: s, run: 'true'}]}\n",
        );
        let want = [
            "9:14 error K043 unknown input `whom` (did you mean `who`?)",
            "8:13 error K044 missing required input `who` (add `who` to `with`)",
            "10:15 warning K040 Workflow `tarjet` is in none of the files (did you mean `target`?)",
        ];
        assert_eq!(said(&[caller.clone(), target.clone()], false), want);
        assert_eq!(said(&[target, caller.clone()], false), want);
        assert!(said(&[caller], true)[0].contains("error K040"));
    }

    #[test]
    fn c_66_circles_are_told_once_with_their_way() {
        let call = |name: &str, other: &str| {
            workflow(name, &format!("  jobs:\n    a: {{uses: {other}}}\n"))
        };
        assert_eq!(
            said(&[call("b", "a"), call("a", "b"), call("c", "a")], false),
            ["7:15 error K041 workflow call cycle: a -> b -> a (-)"]
        );
        let deep: Vec<String> = (1..9)
            .map(|n| call(&format!("w{n}"), &format!("w{}", n + 1)))
            .collect();
        let last = workflow(
            "w9",
            "  jobs:\n    a: {runs-on: bash, steps: [{name: s, run: 'true'}]}\n",
        );
        let found = said(&[deep, vec![last]].concat(), false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("K042 workflow call depth exceeds maximum 8"),
            "{found:?}"
        );
    }
}
