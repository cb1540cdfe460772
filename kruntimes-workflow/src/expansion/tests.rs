//! Legs, their names, and what the others make of them.

use kruntimes_core::api::Matrix;

use super::*;
use crate::extend::Extensions;
use crate::graph::{is_label, validate_with};
use crate::testing::{JobBuilder, a_job, jobs};

type Values<'a> = &'a [(&'a str, &'a str)];

fn entry(values: Values<'_>) -> BTreeMap<String, String> {
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    values.iter().map(own).collect()
}

fn matrix(axes: &[(&str, &[&str])], exclude: &[Values<'_>], include: &[Values<'_>]) -> Matrix {
    let list = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
    Matrix {
        axes: axes
            .iter()
            .map(|(axis, values)| ((*axis).to_owned(), list(values)))
            .collect(),
        exclude: exclude.iter().map(|values| entry(values)).collect(),
        include: include.iter().map(|values| entry(values)).collect(),
    }
}

fn shown(job: &str, matrix: &Matrix) -> Result<Vec<String>, String> {
    let show = |leg: Leg| {
        let values: Vec<String> = leg.values.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!("{} {}", leg.name, values.join(" "))
    };
    let found = legs(job, matrix).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(show).collect())
}

#[test]
fn w_200_legs_have_a_fixed_order_and_names_of_their_own() {
    let axes: &[(&str, &[&str])] = &[("os", &["linux", "mac"]), ("py", &["3.12", "3.13"])];
    let plain = [
        "t.linux-3.12 os=linux py=3.12",
        "t.linux-3.13 os=linux py=3.13",
        "t.mac-3.12 os=mac py=3.12",
        "t.mac-3.13 os=mac py=3.13",
    ];
    assert_eq!(shown("t", &matrix(axes, &[], &[])).unwrap(), plain);
    // An exclusion takes legs away and renames none; an inclusion that fits adds values.
    let less = matrix(
        axes,
        &[&[("os", "mac"), ("py", "3.12")]],
        &[&[("os", "linux"), ("cc", "gcc")]],
    );
    assert_eq!(
        shown("t", &less).unwrap(),
        [
            "t.linux-3.12 cc=gcc os=linux py=3.12",
            "t.linux-3.13 cc=gcc os=linux py=3.13",
            "t.mac-3.13 os=mac py=3.13",
        ]
    );
    let more = matrix(
        &[("os", &["linux"])],
        &[],
        &[&[("os", "bsd")], &[("level", "2")]],
    );
    let found = shown("t", &more).unwrap();
    assert_eq!(found[0], "t.linux level=2 os=linux");
    assert!(
        found[1].starts_with("t.bsd-") && found[1].ends_with(" os=bsd"),
        "{found:?}"
    );
    let only = matrix(&[], &[], &[&[("a", "1")], &[("b", "1")]]);
    assert_eq!(shown("t", &only).unwrap().len(), 2);
}

#[test]
fn w_200_names_of_legs_are_labels_and_differ_when_their_values_do() {
    let long = "x".repeat(80);
    let odd: &[&str] = &["", "a-b", "a b", "a_b", "ä", "a.", &long];
    let job = "j".repeat(63);
    for job in ["t", job.as_str()] {
        let found = legs(job, &matrix(&[("v", odd)], &[], &[])).unwrap();
        for leg in &found {
            assert!(is_label(&leg.name), "{}", leg.name);
        }
        assert_eq!(found.len(), odd.len());
    }
    // Two axes whose values could be joined to the same text.
    let two = matrix(&[("a", &["x-y", "x"]), ("b", &["z", "y-z"])], &[], &[]);
    assert_eq!(legs("t", &two).unwrap().len(), 4);
}

#[test]
fn w_200_what_cannot_be_expanded_is_refused() {
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (case, given, want) in [
        ("nothing", matrix(&[], &[], &[]), "has no legs"),
        (
            "an empty axis",
            matrix(&[("a", &[])], &[], &[]),
            "has no legs",
        ),
        (
            "all excluded",
            matrix(&[("a", &["1"])], &[&[("a", "1")]], &[]),
            "has no legs",
        ),
        (
            "twice",
            matrix(&[("a", &["1", "1"])], &[], &[]),
            "has the leg \"t.1\" twice",
        ),
        (
            "bad axis",
            matrix(&[("a b", &["1"])], &[], &[]),
            "axis \"a b\" is not a valid name",
        ),
        (
            "many",
            matrix(&[("a", &many)], &[], &[]),
            "has 65 legs, exceeds 64",
        ),
        (
            "very many",
            matrix(&[("a", &many), ("b", &many)], &[], &[]),
            "has more than 1024 combinations",
        ),
    ] {
        assert_eq!(shown("t", &given).unwrap_err(), want, "{case}");
    }
}

fn with(job: JobBuilder, axes: &[(&str, &[&str])]) -> Job {
    Job {
        matrix: Some(Box::new(matrix(axes, &[], &[]))),
        ..job.build()
    }
}

#[test]
fn w_200_texts_are_bound_and_dependents_need_every_leg() {
    let mut all = jobs([("z", a_job().needs(&["t", "a"])), ("a", a_job())]);
    let leg = a_job()
        .step("s", "run ${{ matrix.os }} ${{ steps.x.outputs.y }}")
        .output("o", "${{ matrix.os }}");
    let mut leg = with(leg, &[("os", &["linux", "${{ mac"])]);
    leg.runs_on = Some("bash-${{ matrix.os }}".to_owned());
    leg.condition = Some("matrix.os == 'linux' || failure()".to_owned());
    all.insert("t".to_owned(), leg);
    let expanded = expand(&all).unwrap();
    let names = &expanded.legs["t"];
    assert_eq!(
        expanded.jobs["z"].needs,
        ["a", names[0].as_str(), names[1].as_str()]
    );
    let linux = &expanded.jobs["t.linux"];
    assert_eq!(linux.runs_on.as_deref(), Some("bash-linux"));
    assert_eq!(
        linux.condition.as_deref(),
        Some("'linux' == 'linux' || failure()")
    );
    assert_eq!(
        linux.steps[0].run.as_deref(),
        Some("run linux ${{ steps.x.outputs.y }}")
    );
    assert_eq!(linux.matrix, None);
    // W-26: a value is never an expression.
    let evil = &expanded.jobs[&names[1]];
    assert_eq!(evil.outputs["o"], "${{ '${{' }} mac");
}

#[test]
fn w_200_problems_name_the_leg() {
    let text = |all: BTreeMap<String, Job>| {
        let expanded = expand(&all).map_err(|error| error.to_string())?;
        validate_with(&expanded.jobs, &Extensions::all()).map_err(|error| error.to_string())
    };
    let mut all = jobs([("t.b", a_job())]);
    all.insert("t".to_owned(), with(a_job(), &[("x", &["b"])]));
    assert_eq!(
        text(all).unwrap_err(),
        "job \"t\" matrix leg \"t.b\" has the name of another job"
    );
    let job = with(a_job().step("s", "${{ matrix.y }}"), &[("x", &["b"])]);
    assert_eq!(
        text([("t".to_owned(), job)].into()).unwrap_err(),
        "job \"t\" matrix leg \"t.b\" run: no value matrix.y"
    );
    let each: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    let two = ["t", "u"].map(|name| (name.to_owned(), with(a_job(), &[("x", &each)])));
    assert_eq!(
        text(two.into()).unwrap_err(),
        "job \"u\" matrix makes more than 64 jobs"
    );
}

#[test]
fn w_200_outputs_are_lists_in_leg_order() {
    let done = |outputs: Values<'_>| JobStatus {
        phase: JobPhase::Succeeded,
        outputs: entry(outputs),
        ..JobStatus::default()
    };
    let mut all: BTreeMap<String, JobStatus> = [
        ("t.b".to_owned(), done(&[("v", "2\"")])),
        ("t.a".to_owned(), done(&[("v", "1"), ("w", "x")])),
    ]
    .into();
    let order = ["t.b".to_owned(), "t.a".to_owned()];
    let found = combined(&order, |leg| all.get(leg)).unwrap();
    assert_eq!(found["v"], "[\"2\\\"\",\"1\"]");
    assert_eq!(found["w"], "[\"\",\"x\"]");
    all.get_mut("t.a").unwrap().phase = JobPhase::Failed;
    assert_eq!(combined(&order, |leg| all.get(leg)), None);
}
