//! The driver against scripts, crashes and itself.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kruntimes_core::api::{JobPhase, WorkflowRunPhase};

use super::*;
use crate::testing::{a_job, jobs};

fn two_jobs() -> BTreeMap<String, Job> {
    jobs([
        (
            "build",
            a_job()
                .step("compile", "cc")
                .step("pack", "tar ${{ steps.compile.outputs.size }}")
                .output("size", "${{ steps.compile.outputs.size }}"),
        ),
        (
            "test",
            a_job()
                .needs(&["build"])
                .step("run", "./test ${{ jobs.build.outputs.size }}"),
        ),
    ])
}

fn answer(launch: &Launch) -> End {
    End::succeeded([("size", "17"), ("saw", launch.script())])
}

/// Dies in the middle of the step with this name, as a process does.
struct Dying<'a> {
    at: &'a str,
    begun: &'a mut Vec<String>,
    open: Vec<Launch>,
}

#[derive(Debug, thiserror::Error)]
#[error("killed")]
struct Killed;

impl Executor for Dying<'_> {
    type Error = Killed;

    fn start(&mut self, launch: &Launch) -> Result<(), Killed> {
        let step = launch.key.action_step.as_ref().unwrap_or(&launch.key.step);
        self.begun.push(step.clone());
        if step == self.at {
            return Err(Killed);
        }
        self.open.push(launch.clone());
        Ok(())
    }

    fn cancel(&mut self, _run: &str) -> Result<(), Killed> {
        Ok(())
    }

    fn wait(&mut self) -> Result<News, Killed> {
        let launch = self.open.remove(0);
        let end = answer(&launch);
        let run = launch.name;
        Ok(News::Ended { run, end })
    }
}

#[test]
fn w_185_w_186_an_execution_runs_to_its_end_and_its_outputs_can_be_read() {
    let mut seen = Vec::new();
    let executor = Closure::new(|launch: &Launch| {
        seen.push(format!("{} {}", launch.key, launch.script()));
        answer(launch)
    });
    let mut driver = Driver::new(executor, Shelf::default(), MemoryStore::default());
    driver.submit("demo", two_jobs()).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Succeeded);
    let build = &end.status.jobs.as_ref().unwrap()["build"];
    assert_eq!(build.outputs["size"], "17");
    assert_eq!(driver.load("demo").unwrap(), end, "the end is stored");
    drop(driver);
    assert_eq!(
        seen,
        [
            "jobs.build.steps.compile cc",
            "jobs.build.steps.pack tar 17",
            "jobs.test.steps.run ./test 17",
        ]
    );
}

#[test]
fn w_185_after_a_crash_at_any_step_finished_steps_are_not_begun_again() {
    for (at, want) in [
        ("compile", &["compile", "compile", "pack", "run"][..]),
        ("pack", &["compile", "pack", "pack", "run"]),
        ("run", &["compile", "pack", "run", "run"]),
    ] {
        let mut begun = Vec::new();
        let mut store = MemoryStore::default();
        for (life, at) in [at, "never"].into_iter().enumerate() {
            let executor = Dying {
                at,
                begun: &mut begun,
                open: Vec::new(),
            };
            let mut driver = Driver::new(executor, Shelf::default(), store);
            if life == 0 {
                driver.submit("demo", two_jobs()).unwrap();
            }
            let end = driver.run("demo");
            match life {
                0 => assert!(matches!(
                    end,
                    Err(Error::Outside {
                        part: Outside::Executor,
                        ..
                    })
                )),
                _ => assert_eq!(end.unwrap().status.phase, WorkflowRunPhase::Succeeded),
            }
            store = driver.into_parts().2;
        }
        assert_eq!(begun, want, "{at}");
    }
}

#[test]
fn w_186_what_was_interrupted_may_count_as_failed() {
    let mut begun = Vec::new();
    let executor = Dying {
        at: "pack",
        begun: &mut begun,
        open: Vec::new(),
    };
    let mut driver = Driver::new(executor, Shelf::default(), MemoryStore::default());
    driver.submit("demo", two_jobs()).unwrap();
    driver.run("demo").unwrap_err();
    let mut driver = driver.interrupted(Interrupted::Fail);
    let end = driver.run("demo").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Failed);
    assert_eq!(end.status.jobs.unwrap()["test"].phase, JobPhase::Skipped);
    drop(driver);
    assert_eq!(begun, ["compile", "pack"]);
}

#[test]
fn w_185_a_stored_execution_can_be_cancelled() {
    let executor = Closure::new(answer);
    let mut driver = Driver::new(executor, Shelf::default(), MemoryStore::default());
    driver.submit("demo", two_jobs()).unwrap();
    driver.cancel("demo").unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Cancelled);
    assert!(end.runs.is_empty());
}

#[test]
fn w_190_what_cannot_be_stored_is_refused_with_its_kind() {
    let mut driver = Driver::new(
        Closure::new(answer),
        Shelf::default(),
        MemoryStore::default(),
    );
    driver.submit("demo", two_jobs()).unwrap();
    let taken = driver.submit("demo", two_jobs()).unwrap_err();
    assert!(matches!(taken, Error::Conflict(_)), "{taken}");
    let cycle = jobs([("a", a_job().needs(&["a"]))]);
    let error = driver.submit("loop", cycle).unwrap_err();
    assert_eq!(error.to_string(), "workflow job dependency cycle: a -> a");
    let Error::Invalid(invalid) = error else {
        panic!("{error}")
    };
    assert_eq!(invalid.location.job.as_deref(), Some("a"));
    let missing = driver
        .trigger("x", "nothing", &BTreeMap::new())
        .unwrap_err();
    assert_eq!(missing.to_string(), "get workflow nothing: not found");
    assert!(matches!(driver.run("x").unwrap_err(), Error::Unknown(_)));
    assert!(matches!(
        driver.submit("../x", two_jobs()).unwrap_err(),
        Error::Name(_)
    ));
}

/// A Workflow that others call: its only step echoes its input.
fn echo() -> WorkflowSpec {
    let step = a_job().step("say", "${{ inputs.text }}");
    let input = crate::model::Input {
        required: true,
        ..Default::default()
    };
    let output = crate::model::Output {
        value: "${{ jobs.only.outputs.saw }}".into(),
    };
    WorkflowSpec {
        inputs: [("text".to_owned(), input)].into(),
        outputs: [("saw".to_owned(), output)].into(),
        jobs: jobs([("only", step.output("saw", "${{ steps.say.outputs.saw }}"))]),
        ..WorkflowSpec::default()
    }
}

/// An Action of two steps.
fn twice() -> ActionSpec {
    let step = |name: &str| crate::model::Step {
        name: name.into(),
        run: Some(format!("{name} ${{{{ inputs.what }}}}")),
        ..Default::default()
    };
    let output = crate::model::Output {
        value: "${{ steps.second.outputs.saw }}".into(),
    };
    ActionSpec {
        inputs: [("what".to_owned(), crate::model::Input::default())].into(),
        outputs: [("saw".to_owned(), output)].into(),
        steps: vec![step("first"), step("second")],
    }
}

/// A job that calls `echo` with what a job makes that calls `twice`.
fn callers() -> BTreeMap<String, Job> {
    let with = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let step = crate::model::Step {
        name: "both".into(),
        uses: Some("twice".into()),
        with: with("what", "wash"),
        ..Default::default()
    };
    let mut all = jobs([(
        "make",
        a_job()
            .step_with(step)
            .output("saw", "${{ steps.both.outputs.saw }}"),
    )]);
    let call = Job {
        uses: Some("echo".into()),
        needs: vec!["make".into()],
        with: with("text", "heard ${{ jobs.make.outputs.saw }}"),
        ..Job::default()
    };
    all.insert("call".into(), call);
    all
}

fn shelf() -> Shelf {
    Shelf::default()
        .with_workflow("echo", echo())
        .with_action("twice", twice())
}

#[test]
fn w_186_w_111_w_104_actions_and_calls_run_without_kubernetes() {
    let mut driver = Driver::new(Closure::new(answer), shelf(), MemoryStore::default());
    driver.submit("demo", callers()).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(
        end.status.phase,
        WorkflowRunPhase::Succeeded,
        "{:?}",
        end.status
    );
    let call = &end.status.jobs.as_ref().unwrap()["call"];
    assert_eq!(call.outputs["saw"], "heard second wash");
    let child = call.workflow_run_name.clone().unwrap();
    let stored = driver.load(&child).unwrap();
    assert_eq!(stored.owner.as_deref(), Some("demo"));
    assert_eq!(stored.status.phase, WorkflowRunPhase::Succeeded);
}

#[test]
fn w_160_w_117_a_crash_inside_a_call_or_an_action_repeats_nothing_that_had_finished() {
    for (at, want) in [
        ("first", &["first", "first", "second", "say"][..]),
        ("second", &["first", "second", "second", "say"]),
        ("say", &["first", "second", "say", "say"]),
    ] {
        let mut begun = Vec::new();
        let mut store = MemoryStore::default();
        for (life, at) in [at, "never"].into_iter().enumerate() {
            let executor = Dying {
                at,
                begun: &mut begun,
                open: Vec::new(),
            };
            let mut driver = Driver::new(executor, shelf(), store);
            if life == 0 {
                driver.submit("demo", callers()).unwrap();
            }
            let end = driver.run("demo");
            assert_eq!(end.is_ok(), life == 1, "{at}");
            store = driver.into_parts().2;
        }
        assert_eq!(begun, want, "{at}");
        assert_eq!(store.names().count(), 2);
    }
}

#[test]
fn w_96_a_call_of_nothing_fails_its_job_and_an_action_that_is_missing_the_whole() {
    let shelf = Shelf::default().with_action("twice", twice());
    let mut driver = Driver::new(Closure::new(answer), shelf, MemoryStore::default());
    driver.submit("demo", callers()).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(
        end.status.message.as_deref(),
        Some("reusable workflow \"echo\" for job \"call\" does not exist")
    );
    let (closure, store) = (Closure::new(answer), MemoryStore::default());
    let mut driver = Driver::new(closure, Shelf::default(), store);
    driver.submit("demo", callers()).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Failed);
    assert!(end.runs.is_empty());
}

#[test]
fn w_49_a_name_that_another_execution_has_is_not_taken_over() {
    let mut driver = Driver::new(Closure::new(answer), shelf(), MemoryStore::default());
    let child = kruntimes_core::names::child_workflow_run("demo", "call");
    driver.submit(&child, two_jobs()).unwrap();
    driver.submit("demo", callers()).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(
        end.status.message.unwrap(),
        format!("child workflowrun local/{child} is not owned by workflowrun local/demo")
    );
    assert_eq!(
        driver.load(&child).unwrap().status.phase,
        WorkflowRunPhase::Pending
    );
}

/// Polls a future that never really waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// The asynchronous flavour of the parts above; every call is suspended once.
#[derive(Default)]
struct Later {
    store: MemoryStore,
    open: Vec<Launch>,
    suspended: Arc<std::sync::atomic::AtomicUsize>,
}

impl Later {
    async fn later(&self) {
        let mut first = true;
        std::future::poll_fn(|context| {
            if std::mem::take(&mut first) {
                self.suspended
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl future::Executor for Later {
    type Error = NeverFails;

    async fn start(&mut self, launch: &Launch) -> Result<(), NeverFails> {
        self.later().await;
        self.open.push(launch.clone());
        Ok(())
    }

    async fn cancel(&mut self, _run: &str) -> Result<(), NeverFails> {
        Ok(())
    }

    async fn wait(&mut self) -> Result<News, NeverFails> {
        self.later().await;
        let launch = self.open.remove(0);
        let end = answer(&launch);
        let run = launch.name;
        Ok(News::Ended { run, end })
    }
}

impl future::Source for Later {
    type Error = NeverFails;

    async fn workflow(&mut self, _name: &str) -> Result<Option<WorkflowSpec>, NeverFails> {
        Ok(None)
    }

    async fn action(&mut self, _name: &str) -> Result<Option<ActionSpec>, NeverFails> {
        Ok(None)
    }
}

impl future::Store for Later {
    type Error = NeverFails;

    async fn load(&mut self, name: &str) -> Result<Option<String>, NeverFails> {
        Store::load(&mut self.store, name)
    }

    async fn save(&mut self, name: &str, text: &str) -> Result<(), NeverFails> {
        self.later().await;
        Store::save(&mut self.store, name, text)
    }
}

#[test]
fn w_186_the_flavour_with_futures_ends_as_the_blocking_one_does() {
    let mut driver = Driver::new(
        Closure::new(answer),
        Shelf::default(),
        MemoryStore::default(),
    );
    driver.submit("demo", two_jobs()).unwrap();
    let fresh = driver.load("demo").unwrap().to_json();
    let want = driver.run("demo").unwrap();

    let (mut executor, mut source, mut store) =
        (Later::default(), Later::default(), Later::default());
    Store::save(&mut store.store, "demo", &fresh).unwrap();
    let run = future::run(
        "demo",
        &mut executor,
        &mut source,
        &mut store,
        Interrupted::Again,
        Time::default,
    );
    assert_eq!(ready(run).unwrap(), want);
    assert!(
        executor
            .suspended
            .load(std::sync::atomic::Ordering::Relaxed)
            >= 6
    );
}

#[test]
fn w_191_what_a_newer_version_wrote_survives() {
    let mut driver = Driver::new(
        Closure::new(answer),
        Shelf::default(),
        MemoryStore::default(),
    );
    driver.submit("demo", two_jobs()).unwrap();
    let end = driver.run("demo").unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&end.to_json()).unwrap();
    assert_eq!(value["format"], "kruntimes.io/workflow-state");
    value["version"] = "1.7".into();
    value["later"] = serde_json::json!({"deep": [1, 2]});
    value["status"]["jobs"]["build"]["steps"][1]["weight"] = 3.into();
    value["spec"]["jobs"]["test"]["mood"] = "good".into();
    let read = Execution::from_json(&value.to_string()).unwrap();
    let again: serde_json::Value = serde_json::from_str(&read.to_json()).unwrap();
    value["version"] = "1.0".into();
    assert_eq!(again, value);
}

#[test]
fn w_191_other_formats_and_versions_are_refused_by_name() {
    let said = |text: &str| Execution::from_json(text).unwrap_err().to_string();
    assert_eq!(
        said("{}"),
        "its format is missing, not kruntimes.io/workflow-state"
    );
    assert_eq!(said("[1"), "it is not a workflow state");
    let newer = "{\"format\":\"kruntimes.io/workflow-state\",\"version\":\"2.0\"}";
    assert_eq!(
        said(newer),
        "it has version 2.0; this program reads version 1"
    );
    let empty = "{\"format\":\"kruntimes.io/workflow-state\",\"version\":\"1.0\"}";
    assert_eq!(said(empty), "it is not a workflow state");
}

#[cfg(feature = "directory")]
#[test]
fn w_186_a_directory_keeps_the_last_state_and_refuses_other_names() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = DirectoryStore::open(directory.path().join("states")).unwrap();
    assert_eq!(store.load("a").unwrap(), None);
    store.save("a", "1").unwrap();
    store.save("a", "2").unwrap();
    assert_eq!(store.load("a").unwrap().as_deref(), Some("2"));
    for name in ["../a", "", "a/b", ".a.new", "A"] {
        assert!(
            matches!(store.save(name, "x"), Err(DirectoryError::Name(_))),
            "{name}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(directory.path().join("states"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
