//! Every other extension point (scheduler, sections 16 and 16.1).

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering as Memory};

use jiff::Timestamp;
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    RunBuilder, SnapshotBuilder, a_pod, a_run, a_snapshot, at, rejected, winner,
};
use kruntimes_sched::{
    Action, Admission, Admittance, Bind, Binding, Broken, Event, EventKind, Filter, Held, Intent,
    Nomination, Placement, PodState, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
    PrepareError, Prepared, Profile, ProfileBuilder, QueueSort, Reason, Run, Score, Scorer,
    Scoring, Snapshot, Trial, Verdict, bind, post_bind, pre_bind,
};

/// Lets one point of priority count as much as ten seconds of waiting; panics on request.
struct Ageing {
    panics: bool,
}

impl QueueSort for Ageing {
    fn name(&self) -> &'static str {
        "Ageing"
    }

    fn compare(&self, a: &Run, b: &Run, now: Timestamp) -> Ordering {
        assert!(!self.panics, "scripted");
        let rank = |run: &Run| {
            let waited = run
                .created
                .map_or(0, |created| now.duration_since(created).as_secs());
            i64::from(run.priority) + waited / 10
        };
        rank(b).cmp(&rank(a))
    }
}

fn sorted(profile: &Profile, second: i64) -> Vec<String> {
    let mut runs = [
        a_run("young").created(20).priority(3).shared(),
        a_run("old").created(0).shared(),
        a_run("twin-b").created(20).shared(),
        a_run("twin-a").created(20).shared(),
    ];
    profile.sort(&mut runs, at(second));
    runs.iter().map(|run| run.name.to_string()).collect()
}

#[test]
fn s_19_s_159_waiting_can_count_and_ties_end_at_age_and_uid() {
    let plain = standard().build().unwrap();
    let want = ["young", "old", "twin-a", "twin-b"];
    assert_eq!(sorted(&plain, 50), want);
    let ageing = standard()
        .queue_sort(Ageing { panics: false })
        .build()
        .unwrap();
    assert_eq!(
        sorted(&ageing, 20),
        want,
        "two points of waiting are not enough"
    );
    // S-19: with the same priority everywhere, age decides.
    let mut equal = [a_run("b").created(2), a_run("a").created(1)].map(RunBuilder::shared);
    ageing.sort(&mut equal, at(3));
    assert_eq!(equal[0].name.as_str(), "a");
    let later = [a_run("x").priority(1).created(40), a_run("y").created(0)];
    let mut later = later.map(RunBuilder::shared);
    ageing.sort(&mut later, at(50));
    assert_eq!(later[0].name.as_str(), "y", "five points of waiting are");
    // S-153: an order that panics is replaced by the default one.
    let panics = standard()
        .queue_sort(Ageing { panics: true })
        .build()
        .unwrap();
    assert_eq!(sorted(&panics, 50), want);
}

/// Holds Runs back that carry the label `hold`.
struct Office;

impl PreEnqueue for Office {
    fn name(&self) -> &'static str {
        "Office"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("Closed")];
        REASONS
    }

    fn admit(&self, run: &Run, now: Timestamp) -> Admittance {
        match run.labels.get("hold").map(String::as_str) {
            Some("panic") => panic!("scripted"),
            Some("odd") => Admittance::Hold("Undeclared"),
            Some(_) if now < at(9) => Admittance::Hold("Closed"),
            Some(_) | None => Admittance::Admit,
        }
    }

    fn events(&self) -> &'static [EventKind] {
        &[EventKind::WorkspaceChanged]
    }
}

#[test]
fn pre_enqueue_holds_runs_until_an_event_that_it_asks_for() {
    let profile = standard().pre_enqueue(Office).build().unwrap();
    let run = a_run("r").label("hold", "yes").workspace("w").build();
    let held = Held {
        plugin: "Office",
        reason: "Closed",
    };
    assert_eq!(profile.held(&run, at(8)), Ok(Some(held)));
    assert_eq!(profile.held(&run, at(9)), Ok(None));
    assert_eq!(profile.held(&a_run("s").build(), at(0)), Ok(None));
    let error = |why: &str| {
        let run = a_run("r").label("hold", why).build();
        profile.held(&run, at(0)).unwrap_err().to_string()
    };
    assert_eq!(error("panic"), "plugin \"Office\" panicked");
    assert!(error("odd").contains("undeclared reason"));
    let workspace = "w".into();
    let changed = Event::WorkspaceChanged {
        namespace: &run.namespace,
        workspace: &workspace,
    };
    assert!(profile.wakes(&changed, &run, &["Office"]));
    let other = a_run("t").build();
    let released = Event::CapacityReleased { run: &other };
    assert!(!profile.wakes(&released, &run, &["Office"]));
}

/// A filter that its own pre-filter can switch off.
struct Switch;

impl PreFilter for Switch {
    fn name(&self) -> &'static str {
        "Switch"
    }

    fn admit(&self, _: &Snapshot, run: &Run) -> Result<Admission, PrepareError> {
        Ok(if run.labels.contains_key("off") {
            Admission::Skip
        } else {
            Admission::All
        })
    }
}

impl Filter for Switch {
    fn name(&self) -> &'static str {
        "Switch"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("On")];
        REASONS
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, _: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Check(Box::new(|_| Verdict::Rejects("On"))))
    }
}

#[test]
fn a_pre_filter_skips_the_filter_of_its_plugin() {
    let profile = Profile::builder()
        .pre_filter(Switch)
        .filter(Switch)
        .build()
        .unwrap();
    let snapshot = a_snapshot().pod(a_pod("p"));
    let on = snapshot.decide(&a_run("r"), &profile);
    assert_eq!(rejected(&on, "Switch", "On"), 1);
    let off = snapshot.decide(&a_run("r").label("off", ""), &profile);
    assert_eq!(winner(&off), Some("p"));
}

/// Scores by what it saw of all candidates.
struct Second {
    fault: Option<&'static str>,
}

struct Seen {
    fault: Option<&'static str>,
    second: Option<String>,
}

impl Score for Second {
    fn name(&self) -> &'static str {
        "Second"
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(Seen {
            fault: self.fault,
            second: None,
        }))
    }
}

impl Scorer for Seen {
    fn pre_score(&mut self, candidates: &[&PodState]) -> Result<Scoring, Broken> {
        match self.fault {
            Some("panic") => panic!("scripted"),
            Some("skip") => return Ok(Scoring::Skip),
            Some(cause) => return Err(Broken(cause.into())),
            None => {}
        }
        self.second = candidates.get(1).map(|state| state.pod.name.to_string());
        Ok(Scoring::Each)
    }

    fn score(&self, state: &PodState) -> Result<i64, Broken> {
        let second = self.second.as_deref() == Some(state.pod.name.as_str());
        Ok(if second { 100 } else { 0 })
    }
}

fn three() -> SnapshotBuilder {
    ["a", "b", "c"]
        .map(a_pod)
        .into_iter()
        .fold(a_snapshot(), SnapshotBuilder::pod)
}

#[test]
fn pre_score_sees_the_candidates_and_may_skip() {
    let decide = |fault| {
        let profile = standard().score(9, Second { fault }).build().unwrap();
        let snapshot = three().pod(a_pod("aa").unready());
        snapshot.decide(&a_run("r"), &profile)
    };
    assert_eq!(winner(&decide(None)), Some("b"), "only candidates are seen");
    assert_eq!(winner(&decide(Some("skip"))), Some("a"));
    for (fault, want) in [
        ("no disk", "pre-score plugin \"Second\": no disk"),
        ("panic", "plugin \"Second\" panicked"),
    ] {
        let Action::Retry { error } = decide(Some(fault)).action else {
            panic!("{fault} is a fault of the plugin");
        };
        assert_eq!(error.to_string(), want);
    }
}

/// Does at the later points what its fault says.
#[derive(Clone)]
struct Late {
    name: &'static str,
    binding: Result<Binding, &'static str>,
    bound: Arc<AtomicU32>,
}

impl Late {
    fn new(name: &'static str, binding: Result<Binding, &'static str>) -> Self {
        Self {
            name,
            binding,
            bound: Arc::default(),
        }
    }

    fn answer(&self) -> Result<Binding, Broken> {
        assert_ne!(self.binding, Err("panic"), "scripted");
        self.binding.clone().map_err(|cause| Broken(cause.into()))
    }
}

impl PreBind for Late {
    fn name(&self) -> &'static str {
        self.name
    }

    fn intents(&self, placement: &Placement, _: Timestamp) -> Result<Vec<Intent>, Broken> {
        self.answer()?;
        Ok(vec![Intent::Custom {
            kind: self.name,
            arguments: [("run".to_owned(), placement.run.name.to_string())].into(),
        }])
    }
}

impl Bind for Late {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bind(&self, _: &Placement, _: Timestamp) -> Result<Binding, Broken> {
        self.answer()
    }
}

impl PostBind for Late {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bound(&self, _: &Placement) {
        self.bound.fetch_add(1, Memory::Relaxed);
        assert_ne!(self.binding, Err("panic"), "scripted");
    }
}

impl PostFilter for Late {
    fn name(&self) -> &'static str {
        self.name
    }

    fn nominate(&self, _: &Trial<'_>) -> Result<Option<Nomination>, Broken> {
        self.answer().map(|_| None)
    }
}

fn placement() -> Placement {
    Placement {
        run: a_run("r").shared(),
        pod: Arc::new(a_pod("p").build()),
    }
}

#[test]
fn s_162_pre_bind_returns_intents_in_plugin_order() {
    let profile = Profile::builder()
        .pre_bind(Late::new("One", Ok(Binding::Skip)))
        .pre_bind(Late::new("Two", Ok(Binding::Skip)))
        .build()
        .unwrap();
    let intents = pre_bind(&profile, &placement(), at(0)).unwrap();
    let json = serde_json::to_value(&intents).unwrap();
    assert_eq!(json[0]["Custom"]["kind"], "One", "a dry run can print it");
    assert_eq!(json[1]["Custom"]["arguments"]["run"], "r");
}

#[test]
fn the_first_bind_plugin_that_does_not_skip_wins() {
    let bound = |plugins: &[Late]| {
        let builder = plugins
            .iter()
            .cloned()
            .fold(Profile::builder(), ProfileBuilder::bind);
        bind(&builder.build().unwrap(), &placement(), at(0))
    };
    let skip = || Late::new("Skip", Ok(Binding::Skip));
    let done = || Late::new("Done", Ok(Binding::Done));
    let other = || Late::new("Other", Ok(Binding::Perform(vec![])));
    assert_eq!(bound(&[]), Ok(Binding::Write));
    assert_eq!(bound(&[skip()]), Ok(Binding::Write));
    assert_eq!(bound(&[skip(), done(), other()]), Ok(Binding::Done));
    assert_eq!(bound(&[other(), done()]), Ok(Binding::Perform(vec![])));
}

#[test]
fn s_153_faults_are_contained_at_every_later_point() {
    for (cause, told) in [("no disk", "no disk"), ("panic", "panicked")] {
        let late = || Late::new("Late", Err(cause));
        let at_bind = Profile::builder().bind(late()).build().unwrap();
        let error = bind(&at_bind, &placement(), at(0)).unwrap_err().to_string();
        assert!(
            error.contains("\"Late\"") && error.contains(told),
            "{error}"
        );
        let before = Profile::builder().pre_bind(late()).build().unwrap();
        let error = pre_bind(&before, &placement(), at(0))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"Late\"") && error.contains(told),
            "{error}"
        );
        let filter = standard().post_filter(late()).build().unwrap();
        let decision = a_snapshot().decide(&a_run("r"), &filter);
        let Action::Retry { error } = decision.action else {
            panic!("{cause} is a fault of the plugin");
        };
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn post_bind_tells_everybody_whatever_one_of_them_does() {
    let (first, second) = (
        Late::new("One", Err("panic")),
        Late::new("Two", Ok(Binding::Skip)),
    );
    let profile = Profile::builder()
        .post_bind(first.clone())
        .post_bind(second.clone())
        .build()
        .unwrap();
    post_bind(&profile, &placement());
    let told = [first, second].map(|late| late.bound.load(Memory::Relaxed));
    assert_eq!(told, [1, 1]);
}

#[test]
fn s_164_a_percentage_of_pods_starts_where_the_uid_says() {
    let pods = (0..10).map(|n| a_pod(&format!("p{n}")));
    let snapshot = pods.fold(a_snapshot(), SnapshotBuilder::pod);
    let profile = standard().percentage(30).build().unwrap();
    let mut winners = std::collections::BTreeSet::new();
    for n in 0..40 {
        let run = a_run(&format!("r{n}"));
        let decision = snapshot.decide(&run, &profile);
        assert_eq!(decision.evaluated, 3);
        assert_eq!(snapshot.decide(&run, &profile), decision, "reproducible");
        winners.extend(winner(&decision).map(str::to_owned));
    }
    assert!(
        winners.len() > 3,
        "the search starts everywhere: {winners:?}"
    );
    // Rejected Pods do not count: the search goes on until enough candidates are found.
    let mostly = (0..10).map(|n| {
        let pod = a_pod(&format!("p{n}"));
        if n == 7 { pod } else { pod.unready() }
    });
    let mostly = mostly.fold(a_snapshot(), SnapshotBuilder::pod);
    let decision = mostly.decide(&a_run("r"), &profile);
    assert_eq!(winner(&decision), Some("p7"));
    assert_eq!(decision.evaluated, 10);
    let all = standard().percentage(100).build().unwrap();
    assert_eq!(snapshot.decide(&a_run("r"), &all).evaluated, 10);
}
