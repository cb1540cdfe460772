//! A definition as a picture, as text, or as the list of steps it stands for.
//!
//! Everything is a pure function of the definition, so equal definitions give
//! equal bytes. Jobs are the nodes, `needs` are the edges (W-193).

mod expand;
mod layout;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kruntimes_core::api::{Job, JobPhase, WorkflowRunStatus};

use crate::graph::{self, Invalid};

pub use expand::{PlannedStep, expand};
pub use svg::svg;

/// The jobs of one definition, sorted by layer and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    jobs: Vec<JobNode>,
}

/// One job of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNode {
    /// Its name.
    pub name: String,
    /// Predecessors, sorted and unique.
    pub needs: Vec<String>,
    /// How many jobs must end before it on the longest way to it.
    pub layer: usize,
    /// Runtime and steps, or the Workflow that is called.
    pub body: Body,
    /// Where it is, in a graph of an execution.
    pub phase: Option<JobPhase>,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Steps on a runtime, by name.
    Steps {
        /// The runtime.
        runs_on: String,
        /// Names of the steps, in order.
        steps: Vec<String>,
    },
    /// A call of this Workflow.
    Call(String),
}

impl Graph {
    /// Takes the jobs of a definition.
    ///
    /// # Errors
    ///
    /// Fails when the jobs are invalid: a cycle has no layers.
    pub fn new(jobs: &BTreeMap<String, Job>) -> Result<Self, Invalid> {
        graph::validate(jobs)?;
        let layers = graph::layers(jobs)?;
        let node = |(name, job): (&String, &Job)| JobNode {
            name: name.clone(),
            needs: graph::needs(job),
            layer: layers[name.as_str()],
            body: match &job.uses {
                Some(workflow) => Body::Call(workflow.clone()),
                None => Body::Steps {
                    runs_on: job.runs_on.clone().unwrap_or_default(),
                    steps: job.steps.iter().map(|step| step.name.clone()).collect(),
                },
            },
            phase: None,
        };
        let mut jobs: Vec<JobNode> = jobs.iter().map(node).collect();
        jobs.sort_by(|a, b| (a.layer, &a.name).cmp(&(b.layer, &b.name)));
        Ok(Self { jobs })
    }

    /// Adds where each job is.
    pub fn with_status(mut self, status: &WorkflowRunStatus) -> Self {
        for job in &mut self.jobs {
            let known = status.jobs.as_ref().and_then(|jobs| jobs.get(&job.name));
            job.phase = known.map(|known| known.phase);
        }
        self
    }

    /// Returns the jobs, sorted by layer and name.
    pub fn jobs(&self) -> &[JobNode] {
        &self.jobs
    }
}

impl JobNode {
    /// Says in few words what the job does: `bash, 2 steps` or `calls release`.
    pub fn summary(&self) -> String {
        match &self.body {
            Body::Call(workflow) => format!("calls {workflow}"),
            Body::Steps { runs_on, steps } if steps.len() == 1 => format!("{runs_on}, 1 step"),
            Body::Steps { runs_on, steps } => format!("{runs_on}, {} steps", steps.len()),
        }
    }
}

/// Prints one line per job: layer, name, what it does, what it needs, where it is.
pub fn text(graph: &Graph) -> String {
    let widest = |of: &dyn Fn(&JobNode) -> usize| graph.jobs.iter().map(of).max().unwrap_or(0);
    let name = widest(&|job| job.name.len());
    let summary = widest(&|job| job.summary().len());
    let mut out = String::new();
    for job in &graph.jobs {
        let needs = match job.needs.len() {
            0 => String::new(),
            _ => format!("  needs {}", job.needs.join(", ")),
        };
        let phase = job
            .phase
            .map_or_else(String::new, |phase| format!("  {phase}"));
        let line = format!(
            "{:>3}  {:name$}  {:summary$}{needs}{phase}",
            job.layer + 1,
            job.name,
            job.summary()
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Writes the graph in the language of Graphviz.
pub fn dot(graph: &Graph) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = String::from("digraph workflow {\n  rankdir=LR;\n  node [shape=box];\n");
    for job in &graph.jobs {
        let colour = job.phase.map_or_else(String::new, |phase| {
            format!(", style=filled, fillcolor=\"{}\"", colour(phase))
        });
        let (name, does) = (quoted(&job.name), quoted(&job.summary()));
        let _ = writeln!(out, "  \"{name}\" [label=\"{name}\\n{does}\"{colour}];");
    }
    for job in &graph.jobs {
        for need in &job.needs {
            let _ = writeln!(out, "  \"{}\" -> \"{}\";", quoted(need), quoted(&job.name));
        }
    }
    out.push_str("}\n");
    out
}

/// Writes the graph in the language of Mermaid.
pub fn mermaid(graph: &Graph) -> String {
    let quoted = |text: &str| text.replace('"', "#quot;");
    let mut numbers = BTreeMap::new();
    let mut out = String::from("flowchart LR\n");
    for (number, job) in graph.jobs.iter().enumerate() {
        numbers.insert(job.name.as_str(), number);
        let (name, does) = (quoted(&job.name), quoted(&job.summary()));
        let _ = writeln!(out, "  j{number}[\"{name}<br/>{does}\"]");
        if let Some(phase) = job.phase {
            let _ = writeln!(out, "  style j{number} fill:{}", colour(phase));
        }
    }
    for (number, job) in graph.jobs.iter().enumerate() {
        for need in job
            .needs
            .iter()
            .filter_map(|need| numbers.get(need.as_str()))
        {
            let _ = writeln!(out, "  j{need} --> j{number}");
        }
    }
    out
}

/// The colour of a phase; light enough for black text on it.
fn colour(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Pending | JobPhase::Waiting => "#eeeeee",
        JobPhase::Running => "#cfe2ff",
        JobPhase::Succeeded => "#d1e7dd",
        JobPhase::Failed => "#f8d7da",
        JobPhase::Skipped => "#fff3cd",
    }
}
