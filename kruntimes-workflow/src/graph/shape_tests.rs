//! The texts of section 3, and every shape and limit of section 2.

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Job, Step, StepArtifact};

use super::{action, validate};
use crate::testing::{a_job, jobs};

fn text(jobs: &BTreeMap<String, Job>) -> String {
    validate(jobs).map_or_else(|invalid| invalid.to_string(), |()| "fine".into())
}

fn one(edit: impl FnOnce(&mut Job)) -> BTreeMap<String, Job> {
    let mut job = a_job().build();
    edit(&mut job);
    [("j".to_owned(), job)].into()
}

fn step(edit: impl FnOnce(&mut Step)) -> BTreeMap<String, Job> {
    one(|job| edit(&mut job.steps[0]))
}

#[test]
fn w_13_each_problem_has_its_text() {
    let call = |job: &mut Job| job.uses = Some("w".into());
    for (jobs, want) in [
        (one(|_| {}), "fine"),
        (
            one(call),
            "job \"j\" uses reusable workflow \"w\" and may not set runs-on or steps",
        ),
        (
            one(|job| job.runs_on = None),
            "job \"j\" must set runs-on before creating child Runs",
        ),
        (
            one(|job| job.steps.clear()),
            "job \"j\" must contain at least one step before creating child Runs",
        ),
        (
            one(|job| *job = Job::default()),
            "job \"j\" must set runs-on before creating child Runs",
        ),
        (
            jobs([("j", a_job().step("s", "1").step("s", "2"))]),
            "job \"j\" step name \"s\" is duplicated",
        ),
        (
            jobs([("j", a_job().needs(&["x"]))]),
            "job \"j\" needs unknown job \"x\"",
        ),
        (
            jobs([("j", a_job().needs(&["j"]))]),
            "workflow job dependency cycle: j -> j",
        ),
        // Shape first for all jobs, then the graph.
        (
            jobs([("a", a_job().needs(&["x"])), ("b", a_job().step("-", "1"))]),
            "job \"b\" step \"-\": name \"-\" is not a valid name",
        ),
        (BTreeMap::new(), "definition must contain at least one job"),
    ] {
        assert_eq!(text(&jobs), want);
    }
}

#[test]
fn w_7_w_8_members_exclude_each_other() {
    let with = || BTreeMap::from([("a".to_owned(), String::new())]);
    for (jobs, want) in [
        (
            one(|job| job.with = with()),
            "job \"j\" may set with only together with uses",
        ),
        (
            step(|s| s.with = with()),
            "job \"j\" step \"s\" may set with only together with uses",
        ),
        (
            step(|s| s.uses = Some("a".into())),
            "job \"j\" step \"s\" must set exactly one of run and uses",
        ),
        (
            step(|s| s.run = None),
            "job \"j\" step \"s\" must set exactly one of run and uses",
        ),
        (
            step(|s| (s.run, s.uses, s.args) = (None, Some("a".into()), vec![String::new()])),
            "job \"j\" step \"s\" may not set args, env or artifacts together with uses",
        ),
    ] {
        assert_eq!(text(&jobs), want);
    }
}

#[test]
fn w_2_w_36_names_are_names_and_never_expressions() {
    let bad = || "${{ inputs.x }}".to_owned();
    let artifact = |from: &str, path: &str| {
        let (from, path) = (from.to_owned(), path.to_owned());
        step(|s| s.artifacts = vec![StepArtifact { from, path }])
    };
    for (jobs, want) in [
        (
            one(|j| j.runs_on = Some(bad())),
            "job \"j\" runs-on may not contain an expression",
        ),
        (
            one(|j| j.runs_on = Some("a b".into())),
            "job \"j\": runs-on \"a b\" is not a valid name",
        ),
        (
            one(|j| {
                *j = Job {
                    uses: Some("a/b".into()),
                    ..Job::default()
                }
            }),
            "job \"j\": uses \"a/b\" is not a valid name",
        ),
        (
            step(|s| s.env = [(bad(), String::new())].into()),
            "job \"j\" step \"s\" env may not contain an expression",
        ),
        (
            one(|j| j.outputs = [(bad(), String::new())].into()),
            "job \"j\" outputs may not contain an expression",
        ),
        (
            artifact(&bad(), "x"),
            "job \"j\" step \"s\" artifacts may not contain an expression",
        ),
        (
            artifact("x", ""),
            "job \"j\" step \"s\" must set from and path of artifacts",
        ),
    ] {
        assert_eq!(text(&jobs), want);
    }
}

#[test]
fn section_2_limits_are_checked() {
    let many =
        |n: usize| -> BTreeMap<_, _> { (0..n).map(|n| (format!("k{n}"), String::new())).collect() };
    let wide = |n: usize| (0..n).map(|n| (format!("j{n}"), a_job().build())).collect();
    let deep = |n: usize| {
        let add = |job: crate::testing::JobBuilder, n| job.step(&format!("s{n}"), "");
        jobs([("j", (0..n).fold(a_job(), add))])
    };
    let script = |n: usize| step(|s| s.run = Some("é".repeat(n)));
    for (fits, exceeds, want) in [
        (wide(64), wide(65), "definition jobs is 65, exceeds 64"),
        (deep(128), deep(129), "job \"j\" steps is 129, exceeds 128"),
        (
            script(262_144),
            script(262_145),
            "job \"j\" step \"s\" run is 262145, exceeds 262144",
        ),
        (
            step(|s| s.args = vec![String::new(); 256]),
            step(|s| s.args = vec![String::new(); 257]),
            "job \"j\" step \"s\" args is 257, exceeds 256",
        ),
        (
            step(|s| s.args = vec!["x".repeat(8192)]),
            step(|s| s.args = vec!["x".repeat(8193)]),
            "job \"j\" step \"s\" args is 8193, exceeds 8192",
        ),
        (
            step(|s| s.env = many(256)),
            step(|s| s.env = many(257)),
            "job \"j\" step \"s\" env is 257, exceeds 256",
        ),
        (
            one(|j| j.outputs = many(64)),
            one(|j| j.outputs = many(65)),
            "job \"j\" outputs is 65, exceeds 64",
        ),
    ] {
        assert_eq!(text(&fits), "fine");
        assert_eq!(text(&exceeds), want);
    }
}

#[test]
fn w_9_w_11_actions_are_flat() {
    let step = |name: &str| Step {
        name: name.into(),
        run: Some("1".into()),
        ..Step::default()
    };
    let calls = Step {
        run: None,
        uses: Some("b".into()),
        ..step("s")
    };
    let empty = Step {
        run: Some(String::new()),
        ..step("s")
    };
    let plain = "Action step \"s\" must set run and may not use another Action";
    for (steps, want) in [
        (vec![step("s")], "fine"),
        (vec![], "Action must contain at least one step"),
        (vec![calls], plain),
        (vec![empty], plain),
        (
            vec![step("s"), step("s")],
            "Action step name \"s\" is duplicated",
        ),
        (
            vec![step("-")],
            "Action step \"-\": name \"-\" is not a valid name",
        ),
    ] {
        let spec = ActionSpec {
            steps,
            ..ActionSpec::default()
        };
        let said = action(&spec).map_or_else(|invalid| invalid.to_string(), |()| "fine".into());
        assert_eq!(said, want);
    }
}
