//! Pictures are pinned byte for byte.

use kruntimes_core::api::{Job, JobStatus};

use super::*;
use crate::testing::{a_job, jobs};

fn release() -> BTreeMap<String, Job> {
    let mut all = jobs([
        ("build", a_job().step("compile", "cc").step("pack", "tar")),
        ("lint", a_job()),
        (
            "test",
            a_job()
                .needs(&["build"])
                .step("run", "./test ${{ jobs.build.outputs.size }} ${{ 'x' }}"),
        ),
    ]);
    let call = Job {
        uses: Some("publish".into()),
        needs: vec!["test".into(), "lint".into()],
        with: [("to".to_owned(), "${{ jobs.test.outputs.v }}".to_owned())].into(),
        ..Job::default()
    };
    all.insert("deploy".into(), call);
    all
}

#[test]
fn w_193_a_graph_is_text_dot_and_mermaid() {
    let graph = Graph::new(&release()).unwrap();
    insta::assert_snapshot!(text(&graph), @"
      1  build   bash, 2 steps
      1  lint    bash, 1 step
      2  test    bash, 1 step   needs build
      3  deploy  calls publish  needs lint, test
    ");
    insta::assert_snapshot!(dot(&graph), @r#"
    digraph workflow {
      rankdir=LR;
      node [shape=box];
      "build" [label="build\nbash, 2 steps"];
      "lint" [label="lint\nbash, 1 step"];
      "test" [label="test\nbash, 1 step"];
      "deploy" [label="deploy\ncalls publish"];
      "build" -> "test";
      "lint" -> "deploy";
      "test" -> "deploy";
    }
    "#);
    insta::assert_snapshot!(mermaid(&graph), @r#"
    flowchart LR
      j0["build<br/>bash, 2 steps"]
      j1["lint<br/>bash, 1 step"]
      j2["test<br/>bash, 1 step"]
      j3["deploy<br/>calls publish"]
      j0 --> j2
      j1 --> j3
      j2 --> j3
    "#);
}

#[test]
fn w_193_a_picture_has_every_job_once_and_no_two_boxes_touch() {
    let mut wide = release();
    for number in 0..60 {
        let job = a_job().needs(&["build", "lint"]).build();
        wide.insert(format!("extra-{number:02}"), job);
    }
    let picture = svg(&Graph::new(&wide).unwrap());
    assert_eq!(picture.matches("<rect x=").count(), 64);
    assert_eq!(picture.matches("stroke=\"#888\"").count(), 2 * (3 + 120));
    let mut boxes: Vec<(&str, &str)> = picture
        .split("<rect x=\"")
        .skip(1)
        .map(|rest| {
            let (x, rest) = rest.split_once("\" y=\"").unwrap();
            (x, rest.split_once('"').unwrap().0)
        })
        .collect();
    boxes.sort_unstable();
    let all = boxes.len();
    boxes.dedup();
    assert_eq!(boxes.len(), all);
    assert_eq!(picture, svg(&Graph::new(&wide).unwrap()), "byte for byte");
}

#[test]
fn w_193_phases_are_shown() {
    let failed = JobStatus {
        phase: JobPhase::Failed,
        ..JobStatus::default()
    };
    let status = WorkflowRunStatus {
        jobs: Some([("lint".to_owned(), failed)].into()),
        ..WorkflowRunStatus::default()
    };
    let graph = Graph::new(&release()).unwrap().with_status(&status);
    assert!(
        text(&graph).contains("lint    bash, 1 step   Failed\n"),
        "{}",
        text(&graph)
    );
    assert!(dot(&graph).contains("fillcolor=\"#f8d7da\""));
    assert!(mermaid(&graph).contains("style j1 fill:#f8d7da"));
    assert!(svg(&graph).contains("<title>lint: Failed</title>"));
}

#[test]
fn w_193_a_dry_run_lists_the_steps_and_marks_what_is_not_known_yet() {
    let steps = expand(&release()).unwrap();
    let shown: Vec<String> = steps
        .iter()
        .map(|step| {
            format!(
                "{} on {:?}: {} {:?}",
                step.path, step.runs_on, step.what, step.unresolved
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    jobs.build.steps.compile on "bash": cc []
    jobs.build.steps.pack on "bash": tar []
    jobs.lint.steps.s on "bash": true []
    jobs.test.steps.run on "bash": ./test ${{ jobs.build.outputs.size }} ${{ 'x' }} ["${{ jobs.build.outputs.size }}"]
    jobs.deploy on "": workflow publish ["${{ jobs.test.outputs.v }}"]
    "#);
}

#[test]
fn w_193_what_cannot_run_has_no_picture() {
    let jobs = jobs([("a", a_job().needs(&["b"])), ("b", a_job().needs(&["a"]))]);
    assert!(Graph::new(&jobs).is_err() && expand(&jobs).is_err());
}
