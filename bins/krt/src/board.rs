//! What is known of everything that runs: a plain state that progress is folded into.

use std::collections::BTreeMap;
use std::time::Duration;

use kruntimes_embedded::{DELETED, Progress, StepPath};
use serde_json::Value;

/// Everything that was submitted to be followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pub(crate) targets: Vec<Item>,
}

/// One target, job, step or step of an Action.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) phase: &'static str,
    /// When it began to run, since the start of the command.
    pub(crate) started: Option<Duration>,
    /// How long it ran, once it has ended.
    pub(crate) took: Option<Duration>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    /// Last line of output; steps only.
    pub(crate) last_line: Option<String>,
    /// Jobs of a target, steps of a job, steps of an Action.
    pub(crate) items: Vec<Item>,
}

impl Item {
    fn new(name: &str, phase: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            phase,
            started: None,
            took: None,
            reason: None,
            message: None,
            last_line: None,
            items: Vec::new(),
        }
    }

    /// How long it has run, as far as it has begun.
    pub(crate) fn ran(&self, now: Duration) -> Option<Duration> {
        self.took
            .or_else(|| self.started.map(|at| now.saturating_sub(at)))
    }

    fn member(&mut self, name: &str) -> &mut Self {
        let index = self.items.iter().position(|item| item.name == name);
        let index = index.unwrap_or_else(|| {
            self.items.push(Self::new(name, "Pending"));
            self.items.len() - 1
        });
        &mut self.items[index]
    }

    fn enter(&mut self, phase: &'static str, now: Duration) {
        let is_running = matches!(phase, "Running" | "Scheduled");
        if is_running && self.started.is_none() {
            self.started = Some(now);
        }
        if is_settled(phase) && self.took.is_none() {
            self.took = self.started.map(|at| now.saturating_sub(at));
        }
        self.phase = phase;
    }
}

/// Tells whether nothing follows a phase of a target, job or step.
pub(crate) fn is_settled(phase: &str) -> bool {
    matches!(
        phase,
        "Succeeded" | "Failed" | "Timeout" | "Cancelled" | "Skipped" | DELETED
    )
}

/// Tells whether a phase is an end that somebody must look at.
pub(crate) fn is_unsuccessful(phase: &str) -> bool {
    matches!(phase, "Failed" | "Timeout" | "Cancelled" | DELETED)
}

impl Board {
    /// Lists everything that was submitted, in the order it will run (C-46).
    pub(crate) fn new(objects: &[Value]) -> Self {
        Self {
            targets: objects.iter().map(target).collect(),
        }
    }

    /// Folds in one piece of progress about a target; `now` counts from the start of the command.
    pub(crate) fn apply(&mut self, target: usize, progress: &Progress, now: Duration) {
        let Some(root) = self.targets.get_mut(target) else {
            return;
        };
        match progress {
            Progress::Transition {
                path,
                to,
                reason,
                message,
                ..
            } => {
                let item = find(root, path);
                item.enter(to, now);
                item.reason.clone_from(reason);
                item.message.clone_from(message);
            }
            Progress::Output { path, line, .. } => {
                let kept: String = line.chars().filter(|c| !c.is_control()).collect();
                find(root, path).last_line = Some(kept);
            }
            Progress::Ended(ending) => {
                root.enter(ending.phase, now);
                root.took = Some(ending.wall);
            }
        }
    }

    /// The phase of a place as known so far.
    pub(crate) fn phase(&self, target: usize, path: &StepPath) -> &'static str {
        let names = [&path.job, &path.step, &path.action_step];
        let names = names.into_iter().flatten();
        let found = self.targets.get(target);
        let found = names.fold(found, |item, name| {
            item?.items.iter().find(|member| member.name == *name)
        });
        found.map_or("Pending", |item| item.phase)
    }

    /// How a place is called in lines; the target stands in front when there are several.
    pub(crate) fn path(&self, target: usize, path: &StepPath) -> String {
        let name = self.targets.get(target).map_or("", |item| &item.name);
        let inner = path.to_string();
        match (inner.is_empty(), self.targets.len()) {
            (true, _) => name.to_owned(),
            (false, 1) => inner,
            (false, _) => format!("{name}/{inner}"),
        }
    }
}

fn find<'a>(root: &'a mut Item, path: &StepPath) -> &'a mut Item {
    let names = [&path.job, &path.step, &path.action_step];
    let names = names.into_iter().flatten();
    names.fold(root, |item, name| item.member(name))
}

fn target(object: &Value) -> Item {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut item = Item::new(name, "Pending");
    let jobs = object["spec"]["jobs"].as_object();
    let mut depths = BTreeMap::new();
    for (name, _) in jobs.into_iter().flatten() {
        depth(&object["spec"]["jobs"], name, &mut depths);
    }
    let mut order: Vec<_> = jobs.into_iter().flatten().collect();
    order.sort_by_key(|(name, _)| (depths.get(*name).copied(), *name));
    for (name, job) in order {
        let waits = job["needs"]
            .as_array()
            .is_some_and(|needs| !needs.is_empty());
        let mut row = Item::new(name, if waits { "Waiting" } else { "Pending" });
        let steps = job["steps"].as_array().into_iter().flatten();
        let names = steps.filter_map(|step| step["name"].as_str());
        row.items = names.map(|name| Item::new(name, "Pending")).collect();
        item.items.push(row);
    }
    item
}

/// Counts the jobs on the longest way to a job. The file was checked to be free of cycles.
fn depth(jobs: &Value, name: &str, known: &mut BTreeMap<String, usize>) -> usize {
    if let Some(depth) = known.get(name) {
        return *depth;
    }
    // Stops the walk where an unchecked object has a cycle after all.
    known.insert(name.to_owned(), 0);
    let needs = jobs[name]["needs"].as_array().into_iter().flatten();
    let before = needs
        .filter_map(Value::as_str)
        .map(|need| depth(jobs, need, known) + 1)
        .max();
    let found = before.unwrap_or(0);
    known.insert(name.to_owned(), found);
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use kruntimes_embedded::OutputStream;
    use serde_json::json;

    use super::*;

    /// A transition as the engine tells it.
    pub(crate) fn moved(
        path: StepPath,
        from: Option<&'static str>,
        to: &'static str,
        took: Option<u64>,
        reason: Option<&str>,
    ) -> Progress {
        Progress::Transition {
            path,
            from,
            to,
            at: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
            took: took.map(Duration::from_millis),
            reason: reason.map(str::to_owned),
            message: None,
        }
    }

    pub(crate) fn said(job: &str, step: &str, line: &str) -> Progress {
        Progress::Output {
            path: StepPath::step(job, step),
            stream: OutputStream::Stdout,
            line: line.to_owned(),
        }
    }

    /// A WorkflowRun of a few jobs: `build`, then `test` and `lint`, then `pack`.
    pub(crate) fn demo() -> Value {
        let steps =
            |names: &[&str]| -> Value { names.iter().map(|n| json!({"name": n})).collect() };
        json!({
            "kind": "WorkflowRun",
            "metadata": {"name": "demo"},
            "spec": {"jobs": {
                "pack": {"needs": ["test", "lint"], "steps": steps(&["tar"])},
                "build": {"steps": steps(&["fetch", "compile"])},
                "test": {"needs": ["build"], "steps": steps(&["unit"])},
                "lint": {"needs": ["build"], "steps": steps(&["style"])},
            }},
        })
    }

    /// The progress of [`demo`] until `test` has failed, with its times in milliseconds.
    pub(crate) fn story() -> Vec<(u64, Progress)> {
        let mut story = vec![(0, moved(StepPath::default(), None, "Pending", None, None))];
        let mut go = |at, path: &str, from, to, took, why: &str| {
            let mut names = path.split('/').filter(|name| !name.is_empty());
            let path = StepPath {
                job: names.next().map(str::to_owned),
                step: names.next().map(str::to_owned),
                action_step: None,
            };
            let why = (!why.is_empty()).then_some(why);
            story.push((at, moved(path, Some(from), to, Some(took), why)));
        };
        go(5, "build/fetch", "Pending", "Running", 5, "");
        go(5, "build", "Pending", "Running", 5, "");
        go(5, "", "Pending", "Running", 5, "");
        go(105, "build/fetch", "Running", "Succeeded", 100, "");
        go(105, "build/compile", "Pending", "Running", 105, "");
        go(1305, "build/compile", "Running", "Succeeded", 1200, "");
        go(1305, "build", "Running", "Succeeded", 1300, "");
        go(1310, "test/unit", "Pending", "Running", 1310, "");
        go(1310, "test", "Waiting", "Running", 1310, "");
        go(1310, "lint/style", "Pending", "Running", 1310, "");
        go(1310, "lint", "Waiting", "Running", 1310, "");
        go(2010, "test/unit", "Running", "Failed", 700, "ExitCode");
        go(2010, "test", "Running", "Failed", 700, "StepFailed");
        go(2010, "pack", "Waiting", "Skipped", 2010, "DependencyFailed");
        let fetching = "fetching \u{1b}[1m3\u{1b}[0m files";
        story.push((20, said("build", "fetch", fetching)));
        story.push((600, said("build", "compile", "cc -o demo demo.c")));
        story.push((2000, said("lint", "style", "checking style")));
        story.sort_by_key(|(at, _)| *at);
        story
    }

    pub(crate) fn board() -> Board {
        let mut board = Board::new(&[demo()]);
        for (at, progress) in story() {
            board.apply(0, &progress, Duration::from_millis(at));
        }
        board
    }

    #[test]
    fn c_46_jobs_stand_in_the_order_they_run() {
        let board = Board::new(&[demo()]);
        let names: Vec<_> = board.targets[0].items.iter().map(|job| &job.name).collect();
        assert_eq!(names, ["build", "lint", "test", "pack"]);
    }

    #[test]
    fn progress_is_folded_into_phases_and_times() {
        let board = board();
        let target = &board.targets[0];
        assert_eq!(target.phase, "Running");
        let build = &target.items[0];
        assert_eq!(
            (build.phase, build.took),
            ("Succeeded", Some(Duration::from_millis(1300)))
        );
        let fetch = &build.items[0];
        assert_eq!(fetch.last_line.as_deref(), Some("fetching [1m3[0m files"));
        let lint = &target.items[1];
        let now = Duration::from_millis(3310);
        assert_eq!(lint.ran(now), Some(Duration::from_secs(2)));
        let pack = &target.items[3];
        assert_eq!((pack.phase, pack.ran(now)), ("Skipped", None));
    }

    #[test]
    fn a_path_names_its_target_only_among_several() {
        let path = StepPath::step("build", "fetch");
        let one = Board::new(&[demo()]);
        assert_eq!(one.path(0, &path), "build/fetch");
        assert_eq!(one.path(0, &StepPath::default()), "demo");
        let two = Board::new(&[demo(), demo()]);
        assert_eq!(two.path(1, &path), "demo/build/fetch");
    }
}
