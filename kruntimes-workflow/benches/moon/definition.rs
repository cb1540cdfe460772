//! The graphs that are measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kruntimes_core::api::Job;
use kruntimes_workflow::plan::{Action, State, calculate};
use kruntimes_workflow::snapshot::{FrozenSpec, Snapshot};
use kruntimes_workflow::testing::{JobBuilder, a_job};

/// Jobs of one step in which each needs up to three earlier ones.
pub(crate) fn graph(jobs: usize) -> BTreeMap<String, Job> {
    let name = |job: usize| format!("job-{job:06}");
    let one = |job: usize| {
        let needs = [job / 2, job / 3, job.saturating_sub(7)];
        let needs: Vec<String> = needs
            .into_iter()
            .filter(|need| *need < job)
            .map(name)
            .collect();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        (
            name(job),
            a_job()
                .needs(&needs)
                .step("main", "make -C src all")
                .build(),
        )
    };
    (0..jobs).map(one).collect()
}

/// Jobs beside each other with steps one after the other.
pub(crate) fn wide(jobs: usize, steps: usize) -> BTreeMap<String, Job> {
    let add = |job: JobBuilder, step: usize| job.step(&format!("step-{step:03}"), "make all");
    let job = |job: usize| {
        (
            format!("job-{job:02}"),
            (0..steps).fold(a_job(), add).build(),
        )
    };
    (0..jobs).map(job).collect()
}

/// A frozen definition.
pub(crate) fn frozen(jobs: BTreeMap<String, Job>) -> Arc<Snapshot> {
    let spec = FrozenSpec { jobs };
    Arc::new(Snapshot {
        spec,
        ..Snapshot::default()
    })
}

/// A state that has just been initialized.
pub(crate) fn accepted(snapshot: &Arc<Snapshot>) -> State {
    let mut state = State {
        namespace: "ns".into(),
        name: "nightly".into(),
        uid: "5f0c7a52-8d1e-4a6b-9c33-000000000000".into(),
        // As after a crash: it is not validated again, so its size has no limit.
        snapshot: Some(Arc::clone(snapshot)),
        ..State::default()
    };
    let step = calculate(&state);
    assert!(
        matches!(step.action, Action::Initialize(_)),
        "it is accepted"
    );
    state.status = step.desired;
    state
}

/// A Workflow file of at least so many lines.
pub(crate) fn file(lines: usize) -> String {
    let mut text = String::from(
        "apiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {name: big}\nspec:\n  jobs:\n",
    );
    let (mut written, mut job) = (5, 0);
    while written < lines {
        let _ = write!(
            text,
            "    job-{job:03}:\n      runs-on: bash\n      steps:\n"
        );
        written += 3;
        for step in 0..30 {
            let before = match step {
                0 => "'none'".to_owned(),
                step => format!("steps.step-{:02}.outputs.v", step - 1),
            };
            let _ = write!(
                text,
                "        - name: step-{step:02}\n          env:\n            A: ${{{{ {before} }}}}\n          run: |\n            make all\n            echo v=1 >> \"$KRUNTIME_OUTPUTS\"\n"
            );
            written += 6;
        }
        job += 1;
    }
    text
}
