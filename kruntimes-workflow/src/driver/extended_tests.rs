//! Extension points of the driver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kruntimes_core::api::{
    ActionSpec, Input, Job, JobPhase, RetryPolicy, Step, WorkflowRunPhase, WorkflowSpec,
};
use kruntimes_core::duration::Duration;
use kruntimes_core::time::Time;

use super::*;
use crate::bind::InputTypes;
use crate::extend::Extensions;
use crate::rerun::{Finished, Which, rerun};
use crate::testing::{a_job, jobs};

fn fine() -> End {
    End::succeeded([("", ""); 0])
}

#[test]
fn w_204_each_runtime_has_its_executor() {
    let (send, seen) = std::sync::mpsc::channel();
    let executor = |name: &'static str| {
        let send = send.clone();
        Closure::new(move |launch: &Launch| {
            send.send(format!("{name} {}", launch.key)).unwrap();
            fine()
        })
    };
    let routes = ByRuntime::default()
        .with("bash", executor("one"))
        .with("python", executor("two"));
    let on = |runtime: &str| Job {
        runs_on: Some(runtime.to_owned()),
        ..a_job().build()
    };
    let mut driver = Driver::new(routes, Shelf::default(), MemoryStore::default());
    let both = ["bash", "python"].map(|name| (name.to_owned(), on(name)));
    driver.submit("both", both.into()).unwrap();
    assert_eq!(
        driver.run("both").unwrap().status.phase,
        WorkflowRunPhase::Succeeded
    );
    let told: Vec<String> = seen.try_iter().collect();
    assert_eq!(told, ["one jobs.bash.steps.s", "two jobs.python.steps.s"]);
    driver
        .submit("none", [("a".to_owned(), on("perl"))].into())
        .unwrap();
    let error = driver.run("none").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "no executor serves runtime \"perl\"");
}

/// A Workflow with a number, and an Action, as somebody else offers them.
fn remote() -> Shelf {
    let input = Input {
        input_type: "number".to_owned().into(),
        ..Input::default()
    };
    let called = WorkflowSpec {
        inputs: [("n".to_owned(), input)].into(),
        jobs: jobs([("j", a_job().step("s", "n is ${{ inputs.n }}"))]),
        ..WorkflowSpec::default()
    };
    let action = ActionSpec {
        steps: vec![Step {
            name: "one".into(),
            run: Some("1".into()),
            ..Step::default()
        }],
        ..ActionSpec::default()
    };
    Shelf::default()
        .with_workflow("build@v1", called)
        .with_action("tools", action)
}

#[test]
fn w_205_w_206_definitions_from_elsewhere_and_inputs_of_further_types() {
    let step = |uses: &str| Step {
        name: "s".into(),
        uses: Some(uses.to_owned()),
        ..Step::default()
    };
    let remote = remote();
    let resolver = Resolver::new(Shelf::default()).with("ci/", remote);
    let mut extensions = Extensions::none();
    extensions.references = resolver.references();
    extensions.input_types = InputTypes::usual();
    let call = |n: &str| Job {
        uses: Some("ci/build@v1".into()),
        with: [("n".to_owned(), n.to_owned())].into(),
        ..Job::default()
    };
    let all: BTreeMap<String, Job> = [
        ("good".to_owned(), call("007")),
        ("bad".to_owned(), call("many")),
        (
            "act".to_owned(),
            a_job().step_with(step("ci/tools")).build(),
        ),
    ]
    .into();
    let (send, seen) = std::sync::mpsc::channel();
    let steps = Closure::new(move |launch: &Launch| {
        send.send(launch.script().to_owned()).unwrap();
        fine()
    });
    let mut plain = Driver::new(
        Closure::new(|_| fine()),
        Shelf::default(),
        MemoryStore::default(),
    );
    assert!(
        plain.submit("x", all.clone()).is_err(),
        "only local names by default"
    );
    let mut driver = Driver::new(steps, resolver, MemoryStore::default()).extensions(extensions);
    driver.submit("x", all).unwrap();
    let end = driver.run("x").unwrap();
    let of = end.status.jobs.unwrap();
    assert_eq!(of["good"].phase, JobPhase::Succeeded);
    assert_eq!(
        of["bad"].message.as_deref(),
        Some(
            "materialize reusable workflow \"ci/build@v1\" for job \"bad\": input \"n\" must be a whole number"
        )
    );
    let mut told: Vec<String> = seen.try_iter().collect();
    told.sort();
    assert_eq!(told, ["1", "n is 7"]);
}

#[test]
fn w_199_a_driver_repeats_steps_as_their_policy_says() {
    let tries = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&tries);
    let steps = Closure::new(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) < 2 {
            End::failed("not yet")
        } else {
            fine()
        }
    });
    let retry = |most| Step {
        name: "s".into(),
        run: Some("1".into()),
        retry: Some(Box::new(RetryPolicy {
            max_attempts: Some(most),
            ..RetryPolicy::default()
        })),
        ..Step::default()
    };
    let mut driver =
        Driver::new(steps, Shelf::default(), MemoryStore::default()).extensions(Extensions::all());
    driver
        .submit("x", jobs([("a", a_job().step_with(retry(3)))]))
        .unwrap();
    let end = driver.run("x").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Succeeded);
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    tries.store(0, Ordering::Relaxed);
    driver
        .submit("y", jobs([("a", a_job().step_with(retry(2)))]))
        .unwrap();
    assert_eq!(
        driver.run("y").unwrap().status.phase,
        WorkflowRunPhase::Failed
    );
}

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

/// A step that ends only when it is asked to; the clock is moved by waiting.
struct Slow {
    now: Arc<AtomicI64>,
    asked: Option<String>,
}

impl Executor for Slow {
    type Error = NeverFails;

    fn start(&mut self, _: &Launch) -> Result<(), NeverFails> {
        Ok(())
    }

    fn cancel(&mut self, run: &str) -> Result<(), NeverFails> {
        self.asked = Some(run.to_owned());
        Ok(())
    }

    fn wait(&mut self) -> Result<News, NeverFails> {
        let run = self
            .asked
            .take()
            .expect("it is only ended when it was asked to");
        let end = End::cancelled();
        Ok(News::Ended { run, end })
    }

    fn wait_until(&mut self, deadline: Time) -> Result<Option<News>, NeverFails> {
        if self.asked.is_some() {
            return self.wait().map(Some);
        }
        self.now.store(deadline.0.as_second(), Ordering::Relaxed);
        Ok(None)
    }
}

#[test]
fn w_209_a_driver_waits_no_longer_than_a_deadline() {
    let now = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&now);
    let steps = Slow { now, asked: None };
    let mut driver = Driver::new(steps, Shelf::default(), MemoryStore::default())
        .clock(move || at(clock.load(Ordering::Relaxed)))
        .extensions(Extensions::all());
    let job = Job {
        timeout: Some(Duration::from_secs(60)),
        ..a_job().build()
    };
    driver.submit("x", [("a".to_owned(), job)].into()).unwrap();
    let end = driver.run("x").unwrap();
    assert_eq!(end.status.message.as_deref(), Some("job \"a\" timed out"));
}

#[test]
fn w_207_a_driver_runs_what_a_finished_execution_left_to_do() {
    let (send, seen) = std::sync::mpsc::channel();
    let steps = Closure::new(move |launch: &Launch| {
        send.send(format!("{} {}", launch.execution, launch.key.job))
            .unwrap();
        match (launch.execution.as_str(), launch.key.job.as_str()) {
            ("old", "b") => End::failed("once"),
            _ => fine(),
        }
    });
    let mut driver =
        Driver::new(steps, Shelf::default(), MemoryStore::default()).extensions(Extensions::all());
    driver
        .submit("old", jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]))
        .unwrap();
    let old = driver.run("old").unwrap();
    let finished = Finished {
        name: &old.name,
        annotations: &old.annotations,
        spec: &old.spec,
        status: &old.status,
    };
    let again = rerun(&finished, &Which::Failed).unwrap();
    driver
        .submit_spec("new", again.spec, again.annotations)
        .unwrap();
    assert_eq!(
        driver.run("new").unwrap().status.phase,
        WorkflowRunPhase::Succeeded
    );
    let told: Vec<String> = seen.try_iter().collect();
    assert_eq!(told, ["old a", "old b", "new b"]);
}
