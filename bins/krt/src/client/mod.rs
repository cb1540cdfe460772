//! `krt` as a client of an API server: a cluster's, or that of a running local engine.

mod artifacts;
mod connect;
mod definition;
mod explain;
mod jobs;
mod jsonpath;
mod kind;
mod logs;
mod objects;
mod printer;
mod problem;
mod replay;
mod rerun;
mod runs;
mod runtimes;
mod submit;
mod table;
mod wait;
mod workflow_runs;
mod workflows;

use crate::args::client::Verb;
use crate::exit::Exit;
use crate::say;

pub(crate) use connect::Connect;
pub(crate) use jsonpath::SortKey;
pub(crate) use kind::{Kind, Reference};
pub(crate) use objects::Selection;
pub(crate) use printer::Output;
use problem::Problem;

/// Does what a verb asks for; says what went wrong (C-15).
pub(crate) async fn run(connect: Connect, verb: Verb) -> Exit {
    match done(&connect, verb).await {
        Ok(exit) => exit,
        Err(problem) => {
            say::notice(&problem.text);
            problem.exit
        }
    }
}

async fn done(connect: &Connect, verb: Verb) -> Result<Exit, Problem> {
    match verb {
        Verb::Run(request) => submit::run(connect, request).await,
        Verb::Get(request) => runs::get(connect, request).await,
        Verb::List(request) => runs::list(connect, request).await,
        Verb::Cancel(request) => runs::cancel(connect, request).await,
        Verb::Logs(request) => logs::run(connect, request).await,
        Verb::Wait(request) => wait::run(connect, request).await,
        Verb::Runtime(verb) => runtimes::run(connect, verb).await,
        Verb::Graph(request) => workflows::graph(connect, request).await,
        Verb::Artifact(verb) => artifacts::run(connect, verb).await,
        Verb::Workflow(verb) => workflows::run(connect, verb).await,
        Verb::Explain(request) => explain::run(connect, request).await,
    }
}
