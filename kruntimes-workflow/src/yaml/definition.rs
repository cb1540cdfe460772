//! Definitions of a file, typed and judged.

use kruntimes_core::api::{
    ActionSpec, Input, InputType, Job, Output, Step, StepArtifact, WorkflowRunSpec, WorkflowSpec,
};
use kruntimes_core::nearest::meant;

use super::decode::{Decoder, join};
use super::{Finding, Node, Place, Severity, Source, compose, expression_span, has_errors, path};
use crate::extend::Extensions;
use crate::lint;

/// What the group and version of every definition is called.
const API_VERSION: &str = kruntimes_core::api::API_VERSION;
/// Kinds that can be read.
const KINDS: [&str; 3] = ["Workflow", "WorkflowRun", "Action"];

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// `metadata.name`; empty when the file gives none.
    pub name: String,
    /// The spec.
    pub spec: T,
}

/// What a document can hold.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Definition {
    /// A reusable graph of jobs.
    Workflow(Named<WorkflowSpec>),
    /// One execution of inline jobs.
    WorkflowRun(Named<WorkflowRunSpec>),
    /// A reusable sequence of steps.
    Action(Named<ActionSpec>),
}

impl Definition {
    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Workflow(named) => &named.name,
            Self::WorkflowRun(named) => &named.name,
            Self::Action(named) => &named.name,
        }
    }

    fn lint(&self, extensions: &Extensions) -> Vec<lint::Finding> {
        match self {
            Self::Workflow(named) => lint::workflow_with(&named.spec, extensions),
            Self::WorkflowRun(named) => lint::workflow_run_with(&named.spec, extensions),
            Self::Action(named) => lint::action_with(&named.spec, extensions),
        }
    }
}

/// Reads every definition of a file; `name` is only used in messages.
///
/// Each document is judged as [`lint`] does. Returned beside the definitions
/// are findings that do not make them unusable.
///
/// # Errors
///
/// Everything that is wrong with the file, in reading order, if anything is.
pub fn read(name: &str, text: &str) -> Result<(Vec<Definition>, Vec<Finding>), Vec<Finding>> {
    read_with(name, text, &Extensions::none())
}

/// Does what [`read`] does, for an engine that accepts extensions.
///
/// # Errors
///
/// Everything that is wrong with the file, in reading order, if anything is.
pub fn read_with(
    name: &str,
    text: &str,
    extensions: &Extensions,
) -> Result<(Vec<Definition>, Vec<Finding>), Vec<Finding>> {
    let source = Source::new(name, text);
    let composed = compose(&source);
    let mut findings = composed.findings;
    let mut definitions = Vec::new();
    for (document, root) in &composed.documents {
        let mut decoder = Decoder {
            source: &source,
            document: *document,
            root,
            findings: Vec::new(),
        };
        let definition = decoder.definition(root);
        let sound = !has_errors(&decoder.findings);
        findings.append(&mut decoder.findings);
        let Some(definition) = definition.filter(|_| sound) else {
            continue;
        };
        let found = definition.lint(extensions);
        findings.extend(
            found
                .iter()
                .map(|one| placed(&source, *document, root, one)),
        );
        definitions.push(definition);
    }
    findings.sort_by_key(|finding| finding.span.start);
    if has_errors(&findings) || composed.broken {
        return Err(findings);
    }
    Ok((definitions, findings))
}

/// Gives a finding of the engine its place in the file.
fn placed(source: &Source, document: usize, root: &Node, found: &lint::Finding) -> Finding {
    let path = path(root, &found.location);
    let located = root.locate(&path);
    let offset = found.location.offset;
    let span = offset.and_then(|offset| expression_span(source, located.node, offset));
    let span = span.unwrap_or_else(|| located.span());
    let (severity, code) = match found.severity {
        lint::Severity::Error if offset.is_some() => (Severity::Error, "K030"),
        lint::Severity::Error => (Severity::Error, "K005"),
        lint::Severity::Warning => (Severity::Warning, "K000"),
        lint::Severity::Advice => (Severity::Advice, "K000"),
    };
    let place = Place {
        document,
        path,
        span,
    };
    source.finding(severity, code, found.message.as_str(), place)
}

impl<'a> Decoder<'a> {
    fn definition(&mut self, root: &'a Node) -> Option<Definition> {
        let known = ["apiVersion", "kind", "metadata", "spec", "status"];
        let members = self.members(root, "", &known);
        let version = members.get("apiVersion").and_then(|node| node.text());
        if version != Some(API_VERSION) {
            let help = format!("write `apiVersion: {API_VERSION}`");
            let said = "apiVersion is missing or unknown";
            self.report("K004", "apiVersion", said, Some(help));
        }
        let name = members.get("metadata").map(|node| self.name(node));
        let name = name.unwrap_or_default();
        let kind = members.get("kind").and_then(|node| node.text());
        let Some(spec) = members.get("spec") else {
            self.report("K004", "", "spec: Required value", None);
            return None;
        };
        match kind.unwrap_or_default() {
            "Workflow" => {
                let spec = self.workflow(spec);
                Some(Definition::Workflow(Named { name, spec }))
            }
            "WorkflowRun" => {
                let spec = self.workflow_run(spec);
                Some(Definition::WorkflowRun(Named { name, spec }))
            }
            "Action" => {
                let spec = self.action(spec);
                Some(Definition::Action(Named { name, spec }))
            }
            word => {
                let said = format!("unknown kind `{word}`");
                self.report("K005", "kind", said, meant(word, KINDS));
                None
            }
        }
    }

    fn name(&mut self, node: &'a Node) -> String {
        let known = ["name", "namespace", "labels", "annotations", "generateName"];
        let members = self.members(node, "metadata", &known);
        let name = members.get("name");
        name.map_or_else(String::new, |node| self.text(node, "metadata.name"))
    }

    fn workflow(&mut self, node: &'a Node) -> WorkflowSpec {
        let members = self.members(node, "spec", &["inputs", "outputs", "jobs", "strategy"]);
        WorkflowSpec {
            inputs: self.map(members.get("inputs"), "spec.inputs", Self::input),
            outputs: self.map(members.get("outputs"), "spec.outputs", Self::output),
            jobs: self.map(members.get("jobs"), "spec.jobs", Self::job),
            strategy: self.strategy(members.get("strategy"), "spec.strategy"),
        }
    }

    fn workflow_run(&mut self, node: &'a Node) -> WorkflowRunSpec {
        let known = [
            "jobs",
            "cancelRequested",
            "strategy",
            "suspend",
            "decisions",
            "reuse",
        ];
        let members = self.members(node, "spec", &known);
        let cancel = members.get("cancelRequested");
        WorkflowRunSpec {
            jobs: self.map(members.get("jobs"), "spec.jobs", Self::job),
            cancel_requested: self.boolean(cancel, "spec.cancelRequested"),
            strategy: self.strategy(members.get("strategy"), "spec.strategy"),
            suspend: self.boolean(members.get("suspend"), "spec.suspend"),
            decisions: self.decisions(members.get("decisions"), "spec.decisions"),
            reuse: self.map(members.get("reuse"), "spec.reuse", Self::reused),
        }
    }

    fn action(&mut self, node: &'a Node) -> ActionSpec {
        let members = self.members(node, "spec", &["inputs", "outputs", "steps"]);
        ActionSpec {
            inputs: self.map(members.get("inputs"), "spec.inputs", Self::input),
            outputs: self.map(members.get("outputs"), "spec.outputs", Self::output),
            steps: self.list(members.get("steps"), "spec.steps", false, Self::step),
        }
    }

    fn input(&mut self, node: &'a Node, path: &str) -> Input {
        let members = self.members(node, path, &["type", "required", "default"]);
        let wanted = members
            .get("type")
            .map(|node| self.text(node, &join(path, "type")));
        let default = members.get("default");
        Input {
            input_type: wanted.map_or(InputType::String, InputType::from),
            required: self.boolean(members.get("required"), &join(path, "required")),
            default: default.map(|node| self.text(node, &join(path, "default"))),
        }
    }

    fn output(&mut self, node: &'a Node, path: &str) -> Output {
        let members = self.members(node, path, &["value"]);
        let value = members.get("value");
        Output {
            value: value.map_or_else(String::new, |node| self.text(node, &join(path, "value"))),
        }
    }

    pub(super) fn optional(&mut self, node: Option<&&'a Node>, path: &str) -> Option<String> {
        node.map(|node| self.text(node, path))
    }

    fn job(&mut self, node: &'a Node, path: &str) -> Job {
        let known = [
            "runs-on",
            "needs",
            "steps",
            "uses",
            "with",
            "outputs",
            "if",
            "continueOnError",
            "timeout",
            "matrix",
            "gate",
        ];
        let members = self.members(node, path, &known);
        let at = |name: &str| join(path, name);
        Job {
            runs_on: self.optional(members.get("runs-on"), &at("runs-on")),
            needs: self.list(members.get("needs"), &at("needs"), true, Self::text),
            steps: self.list(members.get("steps"), &at("steps"), false, Self::step),
            uses: self.optional(members.get("uses"), &at("uses")),
            with: self.map(members.get("with"), &at("with"), Self::text),
            outputs: self.map(members.get("outputs"), &at("outputs"), Self::text),
            condition: self.optional(members.get("if"), &at("if")),
            continue_on_error: self.boolean(members.get("continueOnError"), &at("continueOnError")),
            timeout: self.duration(members.get("timeout"), &at("timeout")),
            matrix: self.matrix(members.get("matrix"), &at("matrix")),
            gate: self.optional(members.get("gate"), &at("gate")),
        }
    }

    fn step(&mut self, node: &'a Node, path: &str) -> Step {
        let known = [
            "name",
            "run",
            "args",
            "env",
            "uses",
            "with",
            "artifacts",
            "if",
            "continueOnError",
            "timeout",
            "retry",
            "gate",
        ];
        let members = self.members(node, path, &known);
        let at = |name: &str| join(path, name);
        let artifacts = members.get("artifacts");
        Step {
            name: self
                .optional(members.get("name"), &at("name"))
                .unwrap_or_default(),
            run: self.optional(members.get("run"), &at("run")),
            args: self.list(members.get("args"), &at("args"), false, Self::text),
            env: self.map(members.get("env"), &at("env"), Self::text),
            uses: self.optional(members.get("uses"), &at("uses")),
            with: self.map(members.get("with"), &at("with"), Self::text),
            artifacts: self.list(artifacts, &at("artifacts"), false, Self::artifact),
            condition: self.optional(members.get("if"), &at("if")),
            continue_on_error: self.boolean(members.get("continueOnError"), &at("continueOnError")),
            timeout: self.duration(members.get("timeout"), &at("timeout")),
            retry: self.retry(members.get("retry"), &at("retry")),
            gate: self.optional(members.get("gate"), &at("gate")),
        }
    }

    fn artifact(&mut self, node: &'a Node, path: &str) -> StepArtifact {
        let members = self.members(node, path, &["from", "path"]);
        let mut text = |name: &str| {
            let node = members.get(name);
            node.map_or_else(String::new, |node| self.text(node, &join(path, name)))
        };
        StepArtifact {
            from: text("from"),
            path: text("path"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n";

    fn said(text: &str) -> Vec<String> {
        let text = format!("{HEAD}{text}");
        let shown = |one: &Finding| format!("{}:{} {}", one.line, one.column, one.message);
        match read("f.yaml", &text) {
            Ok((_, findings)) | Err(findings) => findings.iter().map(shown).collect(),
        }
    }

    /// Case 139: scalars are the text as written, `needs` may be one name.
    #[test]
    fn w_185_a_definition_is_read_without_a_schema() {
        let text = format!(
            "{HEAD}  inputs: {{who: {{required: true}}}}\n  jobs:\n    a: {{runs-on: bash, steps: [{{name: s, run: x, \
             env: {{PORT: 8080, V: 1.10}}}}]}}\n    b: {{runs-on: bash, needs: a, steps: [{{name: s, run: y}}]}}\n"
        );
        let (definitions, findings) = read("f.yaml", &text).unwrap();
        assert_eq!(findings, []);
        let [Definition::Workflow(workflow)] = &definitions[..] else {
            panic!("one Workflow: {definitions:?}")
        };
        assert_eq!(workflow.name, "w");
        assert!(workflow.spec.inputs["who"].required);
        assert_eq!(workflow.spec.jobs["a"].steps[0].env["PORT"], "8080");
        assert_eq!(workflow.spec.jobs["a"].steps[0].env["V"], "1.10");
        assert_eq!(workflow.spec.jobs["b"].needs, ["a"]);
    }

    #[test]
    fn w_190_every_mistake_has_its_line_and_column() {
        let found = said(
            "  jobs:\n    a:\n      runs-on: bash\n      stpes: 1\n      steps: {}\n    b: {runs-on: [x], needs: {}}\n",
        );
        assert_eq!(
            found,
            [
                "8:7 unknown field `spec.jobs.a.stpes`",
                "9:7 spec.jobs.a.steps must be a list",
                "10:9 spec.jobs.b.runs-on must be a text",
                "10:23 spec.jobs.b.needs must be a list",
            ]
        );
        let found = said(
            "  jobs:\n    a:\n      runs-on: bash\n      steps:\n      - name: s\n        run: |\n          one\n          \
             echo ${{ inputs.nope }}\n",
        );
        assert_eq!(
            found[0],
            "12:16 job \"a\" step \"s\" run: unknown input \"nope\""
        );
    }

    #[test]
    fn w_1_w_2_a_workflow_run_has_jobs_and_names_no_template() {
        let head =
            "apiVersion: kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {name: w}\nspec:\n";
        let jobs = "  jobs:\n    a: {runs-on: bash, steps: [{name: s, run: x}]}\n";
        assert!(read("f.yaml", &format!("{head}{jobs}")).is_ok());
        for (member, named) in [("uses: lib", "spec.uses"), ("with: {a: b}", "spec.with")] {
            let found = read("f.yaml", &format!("{head}  {member}\n{jobs}")).unwrap_err();
            assert_eq!(found[0].message, format!("unknown field `{named}`"));
        }
        for uses in [
            "./lib",
            "https://x/lib",
            "other/lib",
            "lib@v1",
            "${{ inputs.lib }}",
        ] {
            let call = format!("{head}  jobs:\n    a: {{uses: \"{uses}\"}}\n");
            let found = read("f.yaml", &call).unwrap_err();
            assert!(found[0].message.contains("uses"), "{}", found[0].message);
        }
    }

    #[test]
    fn kinds_and_versions_are_judged() {
        let text = "apiVersion: v1\nkind: Workflwo\nspec: {}\n---\n[]\n";
        let found = read("f.yaml", text).unwrap_err();
        let said: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(
            said,
            [
                "apiVersion is missing or unknown",
                "unknown kind `Workflwo`",
                " must be a mapping",
                "apiVersion is missing or unknown",
                "spec: Required value",
            ]
        );
    }
}
