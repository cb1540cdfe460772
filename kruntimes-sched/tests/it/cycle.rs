//! Order, errors and explanations of one cycle (scheduler, sections 7 to 9 and 16).

use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    SnapshotBuilder, a_pod, a_run, a_snapshot, rejected, total, winner,
};
use kruntimes_sched::{
    Action, Admission, Broken, Decision, Filter, Invalid, PodReport, PodState, PreFilter,
    PrepareError, Prepared, Profile, Reason, Run, Score, Scored, Scorer, Snapshot, Verdict,
};

/// Where a scripted plugin misbehaves, and how.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    PanicsInPrepare,
    PanicsPerPod,
    PanicsInNormalize,
    BrokenInPrepare,
    BrokenPerPod,
    BrokenInNormalize,
    Invalid,
    Undeclared,
    LosesAScore,
}

/// A plugin with fixed scores by Pod name.
#[derive(Clone)]
struct Scripted {
    name: &'static str,
    scores: &'static [(&'static str, i64)],
    by_maximum: bool,
    fault: Fault,
}

impl Scripted {
    fn new(name: &'static str, scores: &'static [(&'static str, i64)]) -> Self {
        Self {
            name,
            scores,
            by_maximum: false,
            fault: Fault::None,
        }
    }

    fn faulty(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::new("Faulty", &[("a", 1), ("b", 2)])
        }
    }

    fn prepared(&self) -> Result<(), PrepareError> {
        match self.fault {
            Fault::PanicsInPrepare => panic!("scripted"),
            Fault::BrokenInPrepare => Err(Broken("no disk".into()).into()),
            Fault::Invalid => Err(Invalid {
                reason: "InvalidAffinity",
                message: "pre-filter run affinity: bad".into(),
            }
            .into()),
            _ => Ok(()),
        }
    }
}

impl Score for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        self.prepared()?;
        Ok(Box::new(self.clone()))
    }
}

impl Scorer for Scripted {
    fn score(&self, state: &PodState) -> Result<i64, Broken> {
        match self.fault {
            Fault::PanicsPerPod => panic!("scripted"),
            Fault::BrokenPerPod => return Err(Broken("no scale".into())),
            _ => {}
        }
        let name = state.pod.name.as_str();
        let found = self.scores.iter().find(|(pod, _)| *pod == name);
        Ok(found.map_or(0, |(_, score)| *score))
    }

    fn normalize(&self, scores: &mut [Scored]) -> Result<(), Broken> {
        match self.fault {
            Fault::PanicsInNormalize => panic!("scripted"),
            Fault::BrokenInNormalize => return Err(Broken("no rank".into())),
            Fault::LosesAScore => scores[0].pod = "ghost".into(),
            _ => {}
        }
        if self.by_maximum {
            let most = scores.iter().map(|s| s.score).max().unwrap_or(0);
            for scored in scores.iter_mut().filter(|_| most > 0) {
                scored.score = scored.score * 100 / most;
            }
            // Reordering the list must not reorder the Pods.
            scores.reverse();
        }
        Ok(())
    }
}

impl Filter for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("Scripted")];
        REASONS
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, _: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        self.prepared()?;
        Ok(Prepared::Check(Box::new(move |state| match self.fault {
            Fault::PanicsPerPod => panic!("scripted"),
            Fault::Undeclared => Verdict::Rejects("Surprise"),
            _ if self.score(state) == Ok(0) => Verdict::Rejects("Scripted"),
            _ => Verdict::Fits,
        })))
    }
}

impl PreFilter for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reasons(&self) -> &'static [Reason] {
        Filter::reasons(self)
    }

    fn admit(&self, _: &Snapshot, _: &Run) -> Result<Admission, PrepareError> {
        self.prepared()?;
        Ok(Admission::Only {
            pods: self.scores.iter().map(|(pod, _)| (*pod).into()).collect(),
            reason: "Scripted",
        })
    }
}

fn three() -> SnapshotBuilder {
    a_snapshot().pod(a_pod("c")).pod(a_pod("a")).pod(a_pod("b"))
}

fn error(decision: &Decision) -> String {
    match &decision.action {
        Action::Retry { error } => error.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn s_64_v1_weights_multiply_normalized_scores() {
    let profile = Profile::builder()
        .score(1, Scripted::new("P", &[("a", 0), ("b", 100), ("c", 10)]))
        .score(2, Scripted::new("Q", &[("a", 100), ("b", 0), ("c", 100)]))
        .build()
        .unwrap();
    let decision = three().decide(&a_run("r"), &profile);
    let totals = ["a", "b", "c"].map(|pod| total(&decision, pod));
    assert_eq!(totals, [Some(200), Some(100), Some(210)]);
    assert_eq!(winner(&decision), Some("c"));
}

#[test]
fn s_152_v2_a_custom_scorer_brings_its_own_normalizer() {
    let plugin = Scripted {
        by_maximum: true,
        ..Scripted::new("Max", &[("a", 1), ("b", 2), ("c", 2)])
    };
    let profile = Profile::builder().score(1, plugin).build().unwrap();
    let decision = three().decide(&a_run("r"), &profile);
    let totals = ["a", "b", "c"].map(|pod| total(&decision, pod));
    assert_eq!(totals, [Some(50), Some(100), Some(100)]);
    assert_eq!(winner(&decision), Some("b"));
}

#[test]
fn s_43_the_first_rejection_in_registration_order_counts() {
    let profile = Profile::builder()
        .filter(Scripted::new("One", &[("a", 1), ("b", 1)]))
        .filter(Scripted::new("Two", &[("b", 1), ("c", 1)]))
        .build()
        .unwrap();
    let decision = three().decide(&a_run("r"), &profile);
    assert_eq!(winner(&decision), Some("b"));
    assert_eq!(rejected(&decision, "One", "Scripted"), 1);
    assert_eq!(rejected(&decision, "Two", "Scripted"), 1);
    let pods = decision.explanation.unwrap().pods;
    let by = |plugin| PodReport::Rejected {
        plugin,
        reason: "Scripted",
    };
    assert_eq!(pods["a"], by("Two"));
    assert_eq!(pods["c"], by("One"));
}

#[test]
fn pre_filters_narrow_the_pool_to_their_intersection() {
    let profile = Profile::builder()
        .pre_filter(Scripted::new("One", &[("a", 1), ("b", 1)]))
        .pre_filter(Scripted::new("Two", &[("b", 1), ("c", 1)]))
        .build()
        .unwrap();
    let decision = three().decide(&a_run("r"), &profile);
    assert_eq!(winner(&decision), Some("b"));
    assert_eq!(decision.rejections.len(), 2);
}

#[test]
fn s_40_s_66_s_153_a_faulty_plugin_never_touches_the_run() {
    let panicked = "plugin \"Faulty\" panicked";
    for (fault, want) in [
        (Fault::PanicsInPrepare, panicked),
        (Fault::PanicsPerPod, panicked),
        (Fault::PanicsInNormalize, panicked),
        (Fault::BrokenInPrepare, "prepare plugin \"Faulty\": no disk"),
        (
            Fault::BrokenPerPod,
            "score plugin \"Faulty\" pod \"a\": no scale",
        ),
        (
            Fault::BrokenInNormalize,
            "normalize score plugin \"Faulty\": no rank",
        ),
        (
            Fault::LosesAScore,
            "normalize score plugin \"Faulty\": the score of pod \"a\" is missing",
        ),
    ] {
        let profile = Profile::builder().score(1, Scripted::faulty(fault));
        let decision = three().decide(&a_run("r"), &profile.build().unwrap());
        assert_eq!(error(&decision), want);
    }
    for (fault, want) in [
        (Fault::PanicsInPrepare, panicked),
        (Fault::PanicsPerPod, panicked),
        (Fault::BrokenInPrepare, "prepare plugin \"Faulty\": no disk"),
        (
            Fault::Undeclared,
            "plugin \"Faulty\" gave the undeclared reason \"Surprise\"",
        ),
    ] {
        let profile = Profile::builder().filter(Scripted::faulty(fault));
        let decision = three().decide(&a_run("r"), &profile.build().unwrap());
        assert_eq!(error(&decision), want);
    }
    let profile = Profile::builder().pre_filter(Scripted::faulty(Fault::PanicsInPrepare));
    let decision = three().decide(&a_run("r"), &profile.build().unwrap());
    assert_eq!(error(&decision), panicked);
}

#[test]
fn s_109_data_of_the_run_that_can_never_be_satisfied_ends_it() {
    let failed = Action::Fail {
        reason: "InvalidAffinity",
        message: "pod selection failed: pre-filter run affinity: bad".into(),
    };
    let faulty = || Scripted::faulty(Fault::Invalid);
    for builder in [
        Profile::builder().pre_filter(faulty()),
        Profile::builder().filter(faulty()),
        Profile::builder().score(1, faulty()),
    ] {
        let profile = builder.build().unwrap();
        // Said before any Pod is looked at, so also when there is none.
        for snapshot in [three(), a_snapshot()] {
            assert_eq!(snapshot.decide(&a_run("r"), &profile).action, failed);
        }
    }
}

#[test]
fn s_63_s_64_scores_out_of_range_and_overflows_are_errors() {
    for (scores, weight, want) in [
        (
            &[("b", 101)][..],
            1,
            "score plugin \"S\" pod \"b\" returned 101 outside 0..100",
        ),
        (
            &[("c", -1)],
            1,
            "score plugin \"S\" pod \"c\" returned -1 outside 0..100",
        ),
        (
            &[("b", 100)],
            i64::MAX,
            "score plugin \"S\" overflows total score",
        ),
    ] {
        let profile = Profile::builder().score(weight, Scripted::new("S", scores));
        let decision = three().decide(&a_run("r"), &profile.build().unwrap());
        assert_eq!(error(&decision), want);
    }
}

#[test]
fn s_62_a_single_candidate_is_scored_too() {
    let plugin = Scripted::new("S", &[("only", 42)]);
    let profile = Profile::builder().score(1, plugin).build().unwrap();
    let decision = a_snapshot()
        .pod(a_pod("only"))
        .decide(&a_run("r"), &profile);
    assert_eq!(total(&decision, "only"), Some(42));
}

#[test]
fn s_144_the_explanation_can_be_turned_off_and_changes_nothing_else() {
    let on = standard().build().unwrap();
    let off = standard().explain(false).build().unwrap();
    let snapshot = three().pod(a_pod("d").unready());
    let with = snapshot.decide(&a_run("r"), &on);
    let without = snapshot.decide(&a_run("r"), &off);
    assert_eq!(with.action, without.action);
    assert_eq!(with.rejections, without.rejections);
    assert_eq!(without.explanation, None);
    let json = serde_json::to_value(&with.explanation).unwrap();
    assert_eq!(
        json["pods"]["a"]["Scored"]["scores"][0],
        serde_json::json!({"plugin": "LeastLoaded", "raw": 0, "normalized": 100, "weight": 1})
    );
    assert_eq!(
        json["pods"]["d"]["Rejected"]["reason"],
        "RuntimePodUnavailable"
    );
}
