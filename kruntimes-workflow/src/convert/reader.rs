//! Walks through a CI file and collects what it says and what it must not say.

mod interface;

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Step};
use kruntimes_core::message::quoted;

use super::expression::{Names, Refused, rewrite};
use super::refused::{instead, is_droppable};
use super::{Converted, Kind, Options};
use crate::graph::{is_definition_name, is_label};
use crate::yaml::{Content, Finding, Node, Place, Severity, Source, expression_span};

type Texts = BTreeMap<String, String>;

/// Longest name of a job or step.
const NAME_MAX: usize = 63;
/// Longest name of a job whose title fits an annotation.
const TITLED_MAX: usize = 53;
/// Variables of another system that a script may write to.
const FOREIGN: [&str; 4] = [
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_PATH",
];

pub(super) struct Reader<'a> {
    source: &'a Source,
    root: &'a Node,
    options: &'a Options,
    annotations: Texts,
    dropped: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Source, root: &'a Node, options: &'a Options) -> Self {
        Self {
            source,
            root,
            options,
            annotations: Texts::new(),
            dropped: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Reads the whole file.
    pub(super) fn read(&mut self) -> Converted {
        self.keys(self.root, "", &["name", "on", "env", "jobs"]);
        if let Some(title) = self.text_at("name") {
            self.annotations.insert("kruntimes.io/title".into(), title);
        }
        let env = self.env(self.root, "");
        let inputs = self.inputs();
        let mut jobs = BTreeMap::new();
        let mut lines = BTreeMap::new();
        let members = self.root.member("jobs").map(|(_, node)| node.members());
        if members.is_none_or(<[_]>::is_empty) {
            let said = "the file has no jobs";
            let help =
                "write `jobs` with at least one job, or a document of kind WorkflowRun or Workflow";
            self.refuse("K004", "jobs", said, Some(help));
        }
        for (key, node) in members.into_iter().flatten() {
            let path = format!("jobs.{}", key.text);
            if !is_label(&key.text) {
                let said = format!("job {} has no valid name", quoted(&key.text));
                let help = "letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
                self.refuse("K005", &path, said, Some(help));
            }
            let (line, _) = self.source.position(key.span.start);
            lines.insert(key.text.clone(), line);
            let job = self.job(node, &path, &env);
            jobs.insert(key.text.clone(), job);
        }
        let outputs = self.outputs();
        let is_workflow = !inputs.is_empty() || !outputs.is_empty();
        let kind = self.options.kind.unwrap_or(if is_workflow {
            Kind::Workflow
        } else {
            Kind::WorkflowRun
        });
        if kind == Kind::WorkflowRun && is_workflow {
            let said = "inputs and outputs need a Workflow";
            self.refuse("K000", "on", said, Some("convert with `--kind Workflow`"));
        }
        if !self.dropped.is_empty() {
            let dropped = self.dropped.join(",");
            self.annotations
                .insert("kruntimes.io/dropped".into(), dropped);
        }
        Converted {
            kind,
            annotations: std::mem::take(&mut self.annotations),
            inputs,
            outputs,
            jobs,
            lines,
            findings: Vec::new(),
        }
    }

    fn job(&mut self, node: &'a Node, path: &str, env: &Texts) -> Job {
        let known = [
            "name", "runs-on", "needs", "outputs", "steps", "uses", "with", "env",
        ];
        self.keys(node, path, &known);
        let needs = self.names(node, &format!("{path}.needs"), "needs");
        let own = self.env(node, path);
        let called = node.member("uses").is_some();
        if called && !own.is_empty() {
            let said = "a call takes no `env`";
            let help = "pass values with `with`";
            self.refuse("K013", &format!("{path}.env"), said, Some(help));
        }
        if let Some(title) = self.text_at(&format!("{path}.name")) {
            let job = path.trim_start_matches("jobs.");
            // The name of an annotation has at most 63 characters; a longer one is told nowhere else.
            if job.len() <= TITLED_MAX {
                let key = format!("kruntimes.io/job-title.{job}");
                self.annotations.insert(key, title);
            }
        }
        let mut merged = env.clone();
        merged.extend(own);
        let ids = self.step_names(node, path);
        let names = Names {
            steps: &ids
                .iter()
                .map(|(id, name)| (id.clone(), name.clone()))
                .collect(),
            needs: Some(&needs),
        };
        let steps = node
            .member("steps")
            .map_or(&[][..], |(_, steps)| steps.elements());
        let mut read = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let name = ids.get(index).map(|(_, name)| name.clone());
            let path = format!("{path}.steps[{index}]");
            read.push(self.step(step, &path, name.unwrap_or_default(), (&merged, &names)));
        }
        Job {
            runs_on: (!called).then(|| self.runs_on(node, path)),
            steps: read,
            uses: self.uses(node, path),
            with: self.texts(node, path, "with", &names),
            outputs: self.texts(node, path, "outputs", &names),
            needs,
            ..Job::default()
        }
    }

    fn step(
        &mut self,
        node: &'a Node,
        path: &str,
        name: String,
        (env, names): (&Texts, &Names<'_>),
    ) -> Step {
        self.keys(
            node,
            path,
            &["id", "name", "run", "env", "uses", "with", "shell"],
        );
        let shell = format!("{path}.shell");
        if let Some(wanted) = self.text_at(&shell).filter(|shell| shell != "bash") {
            let said = format!("shell {} is not that of the runtime", quoted(&wanted));
            let help = "a Runtime has one language: name another one in `runs-on`";
            self.refuse("K005", &shell, said, Some(help));
        }
        let mut merged = env.clone();
        merged.extend(self.env(node, path));
        let calls = node.member("uses").is_some();
        if calls && !merged.is_empty() {
            let said = "an Action takes no `env`, and one would reach this step";
            self.refuse("K013", path, said, Some("pass values with `with`"));
        }
        let env = merged.iter().map(|(key, text)| {
            let path = format!("{path}.env.{key}");
            (key.clone(), self.rewritten(text, &path, names))
        });
        Step {
            name,
            env: env.collect(),
            run: self.script(path, names),
            uses: self.uses(node, path),
            with: self.texts(node, path, "with", names),
            ..Step::default()
        }
    }

    fn script(&mut self, step: &str, names: &Names<'_>) -> Option<String> {
        let path = format!("{step}.run");
        let mut script = self.text_at(&path)?;
        for name in FOREIGN {
            if !script.contains(name) {
                continue;
            }
            if name == "GITHUB_OUTPUT" && self.options.rewrite_output_variable {
                script = script.replace(name, "KRUNTIME_OUTPUTS");
                let said = "`GITHUB_OUTPUT` became `KRUNTIME_OUTPUTS`";
                let place = self.place(&path);
                let finding = self.source.finding(Severity::Advice, "K061", said, place);
                self.findings.push(finding);
            } else {
                let said = format!("the script writes `{name}`, a variable of another system");
                let help = match name {
                    "GITHUB_OUTPUT" => {
                        "write to `$KRUNTIME_OUTPUTS`, or use `--rewrite-output-var`"
                    }
                    "GITHUB_ENV" => "write `kruntimes.io/env/NAME=value` to `$KRUNTIME_OUTPUTS`",
                    _ => "take it out",
                };
                self.refuse("K061", &path, said, Some(help));
            }
        }
        Some(self.rewritten(&script, &path, names))
    }

    fn runs_on(&mut self, node: &'a Node, job: &str) -> String {
        let path = format!("{job}.runs-on");
        let Some((_, wanted)) = node.member("runs-on") else {
            return "bash".to_owned();
        };
        let text = match &wanted.content {
            Content::Sequence(elements) => match &elements[..] {
                [one] => one.text(),
                _ => None,
            },
            Content::Scalar { .. } => wanted.text(),
            Content::Mapping(_) => None,
        };
        let Some(text) = text else {
            self.refuse("K003", &path, "runs-on must be one name", None);
            return String::new();
        };
        let name = self.options.runtimes.get(text).map_or(text, String::as_str);
        if !is_label(name) {
            let said = format!("{} is no name of a Runtime", quoted(name));
            let help = "map it with `--runtime-map from=to`";
            self.refuse("K005", &path, said, Some(help));
        }
        name.to_owned()
    }

    fn uses(&mut self, node: &'a Node, path: &str) -> Option<String> {
        let (_, wanted) = node.member("uses")?;
        let name = wanted.text().unwrap_or_default();
        if !is_definition_name(name) {
            let said = format!("uses {} is not a name of this namespace", quoted(name));
            let help =
                "only Workflows and Actions stored beside it can be called, by their bare names";
            self.refuse("K005", &format!("{path}.uses"), said, Some(help));
        }
        Some(name.to_owned())
    }

    /// Returns what the file calls each step, and its name here.
    fn step_names(&mut self, job: &'a Node, path: &str) -> Vec<(String, String)> {
        let steps = job
            .member("steps")
            .map_or(&[][..], |(_, steps)| steps.elements());
        let mut names: Vec<(String, String)> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let text = |key| step.member(key).and_then(|(_, node)| node.text());
            let id = text("id").map(str::to_owned);
            let slug = text("name").map(slug).filter(|slug| !slug.is_empty());
            let name = id.clone().or(slug);
            let name = name.unwrap_or_else(|| format!("step-{}", index + 1));
            let at = format!("{path}.steps[{index}]");
            if !is_label(&name) {
                let said = format!("step {} has no valid name", quoted(&name));
                self.refuse("K005", &at, said, None);
            }
            if let Some(first) = names.iter().position(|(_, other)| *other == name) {
                let (line, _) = self.source.position(steps[first].span.start);
                let said = format!("step name {} is duplicated", quoted(&name));
                let help = format!("the first one is in line {line}; give one of them an `id`");
                self.refuse("K062", &at, said, Some(&help));
            }
            names.push((id.unwrap_or_else(|| name.clone()), name));
        }
        names
    }

    /// Refuses every key that is neither known nor neutral nor droppable.
    fn keys(&mut self, node: &'a Node, path: &str, known: &[&str]) {
        if !matches!(node.content, Content::Mapping(_)) {
            let said = format!(
                "{} must be a mapping",
                if path.is_empty() { "a file" } else { path }
            );
            self.refuse("K003", path, said, None);
            return;
        }
        for (key, value) in node.members() {
            let span = key.span.clone();
            let key = key.text.as_str();
            if known.contains(&key) || is_neutral(key, value) {
                continue;
            }
            let at = if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            };
            let place = Place {
                document: 0,
                path: at.clone(),
                span,
            };
            if self.options.droppable.contains(key) && is_droppable(key) {
                let said = format!("`{at}` was dropped");
                let finding = self.source.finding(Severity::Warning, "K002", said, place);
                self.findings.push(finding);
                self.dropped.push(at);
                continue;
            }
            let said = format!("`{key}` has no equivalent");
            let near = kruntimes_core::nearest::meant(key, known.iter().copied());
            let help = instead(key).map(str::to_owned).or(near);
            let finding = self.source.error("K002", said, place);
            self.findings.push(match help {
                Some(help) => finding.help(help),
                None => finding,
            });
        }
    }

    fn names(&mut self, node: &'a Node, path: &str, key: &str) -> Vec<String> {
        let Some((_, list)) = node.member(key) else {
            return Vec::new();
        };
        let all: Option<Vec<String>> = match &list.content {
            Content::Scalar { text, .. } => Some(vec![text.clone()]),
            Content::Sequence(elements) => {
                let texts = elements.iter().map(|one| one.text().map(str::to_owned));
                texts.collect()
            }
            Content::Mapping(_) => None,
        };
        all.unwrap_or_else(|| {
            self.refuse(
                "K003",
                path,
                format!("{path} must be a list of names"),
                None,
            );
            Vec::new()
        })
    }

    /// Reads variables: the text as it is written, nothing for no value.
    fn env(&mut self, node: &'a Node, path: &str) -> Texts {
        let mut env = Texts::new();
        let Some((_, map)) = node.member("env") else {
            return env;
        };
        for (key, value) in map.members() {
            let dot = if path.is_empty() { "" } else { "." };
            let at = format!("{path}{dot}env.{}", key.text);
            match value.text() {
                Some(_) if value.is_null() => env.insert(key.text.clone(), String::new()),
                Some(text) => env.insert(key.text.clone(), text.to_owned()),
                None => {
                    self.refuse("K003", &at, format!("{at} must be a text"), None);
                    None
                }
            };
        }
        env
    }

    fn texts(&mut self, node: &'a Node, path: &str, key: &str, names: &Names<'_>) -> Texts {
        let members = node.member(key).map_or(&[][..], |(_, map)| map.members());
        let mut texts = Texts::new();
        for (name, value) in members {
            let at = format!("{path}.{key}.{}", name.text);
            let Some(text) = value.text() else {
                self.refuse("K003", &at, format!("{at} must be a text"), None);
                continue;
            };
            let text = if value.is_null() { "" } else { text };
            texts.insert(name.text.clone(), self.rewritten(text, &at, names));
        }
        texts
    }

    fn rewritten(&mut self, text: &str, path: &str, names: &Names<'_>) -> String {
        match rewrite(text, names) {
            Ok(text) => text,
            Err(refused) => {
                for one in refused {
                    self.refuse_expression(path, one);
                }
                String::new()
            }
        }
    }

    fn refuse_expression(&mut self, path: &str, refused: Refused) {
        let mut place = self.place(path);
        let node = self.root.locate(path).node;
        if let Some(span) = expression_span(self.source, node, refused.offset) {
            place.span = span;
        }
        let finding = self.source.error(refused.code, refused.said, place);
        self.findings.push(match refused.help {
            Some(help) => finding.help(help),
            None => finding,
        });
    }

    fn text_at(&self, path: &str) -> Option<String> {
        let located = self.root.locate(path);
        let found = located.rest.is_empty().then(|| located.node.text())?;
        found.map(str::to_owned)
    }

    fn refuse(
        &mut self,
        code: &'static str,
        path: &str,
        said: impl Into<String>,
        help: Option<&str>,
    ) {
        let finding = self.source.error(code, said, self.place(path));
        self.findings.push(match help {
            Some(help) => finding.help(help),
            None => finding,
        });
    }

    fn place(&self, path: &str) -> Place {
        Place {
            document: 0,
            path: path.to_owned(),
            span: self.root.locate(path).span(),
        }
    }
}

/// Tells whether a key says what is true anyway.
fn is_neutral(key: &str, value: &Node) -> bool {
    let empty = matches!(&value.content, Content::Mapping(members) if members.is_empty());
    match key {
        "continue-on-error" => value.text() == Some("false"),
        "if" => matches!(value.text(), Some("true" | "${{ true }}")),
        "strategy" | "permissions" => empty,
        _ => false,
    }
}

/// Makes a name of a title: lower case, everything else a single `-`.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let cut: String = slug.trim_matches('-').chars().take(NAME_MAX).collect();
    cut.trim_end_matches('-').to_owned()
}
