//! Profiles out of configuration, and several of them (scheduler, S-148 to S-150).

use kruntimes_sched::plugins::{
    Gang, LeastLoaded, Preemption, RuntimePodAvailability, Workspace, standard,
};
use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, waits, winner};
use kruntimes_sched::{
    Action, Bundled, Heartbeat, Point, Profile, ProfileError, ProfileSpec, Profiles, Registry,
};
use serde_json::json;

fn built(spec: serde_json::Value) -> Result<Profile, ProfileError> {
    let spec: ProfileSpec = serde_json::from_value(spec).unwrap();
    Registry::new().build(&spec)
}

#[test]
fn s_148_a_profile_is_read_from_data() {
    let profile = built(json!({
        "name": "strict",
        "remove": ["PreferredRunAffinity"],
        "weights": {"LeastLoaded": 3},
        "percentage": 50,
        "explain": false,
        "plugins": [
            {"name": "RuntimePodAvailability", "arguments": {"heartbeatLimit": "5s"}},
            {"name": "Preemption", "arguments": {"trials": 10}},
            {"name": "Gang", "arguments": {"sizeLabel": "size"}},
        ],
    }))
    .unwrap();
    let filters: Vec<_> = profile.filters().collect();
    assert_eq!(
        filters,
        ["Workspace", "RuntimePodAvailability", "RunAffinity"]
    );
    assert_eq!(profile.scores().collect::<Vec<_>>(), [("LeastLoaded", 3)]);
    assert_eq!(profile.percentage(), Some(50));
    let old = a_pod("p").heartbeat(Heartbeat::At(jiff::Timestamp::UNIX_EPOCH));
    let at_six = a_snapshot().pod(old).at(6);
    let decision = at_six.decide(&a_run("r"), &profile);
    assert!(waits(&decision).is_some(), "its argument counts");
    let standard = standard().build().unwrap();
    assert_eq!(winner(&at_six.decide(&a_run("r"), &standard)), Some("p"));

    let bare = built(json!({"bare": true, "plugins": [{"name": "LeastLoaded", "weight": 2}]}));
    assert_eq!(
        bare.unwrap().scores().collect::<Vec<_>>(),
        [("LeastLoaded", 2)]
    );
}

#[test]
fn s_149_mistakes_in_data_are_found_when_the_profile_is_built() {
    let plugin =
        |name: &str, arguments| json!({"plugins": [{"name": name, "arguments": arguments}]});
    for (case, spec, want) in [
        (
            "unknown",
            plugin("Nope", json!({})),
            "unknown plugin \"Nope\"",
        ),
        (
            "removed",
            json!({"remove": ["Nope"]}),
            "unknown plugin \"Nope\"",
        ),
        (
            "missing argument",
            plugin("Expression", json!({})),
            "argument \"expression\" of plugin \"Expression\": it is missing",
        ),
        (
            "bad argument",
            plugin("Expression", json!({"expression": "pod.name =="})),
            "argument \"expression\" of plugin \"Expression\": at character 11: expected a text, \
             a quantity, or a property of run or pod",
        ),
        (
            "unknown argument",
            plugin("LeastLoaded", json!({"x": 1})),
            "argument \"x\" of plugin \"LeastLoaded\": it is unknown",
        ),
        (
            "missing in a value",
            plugin("Gang", json!({})),
            "argument \"arguments\" of plugin \"Gang\": missing field `sizeLabel`",
        ),
        (
            "weight",
            json!({"weights": {"LeastLoaded": 0}}),
            "initialize score plugin: invalid weight 0",
        ),
        (
            "percentage",
            json!({"percentage": 0}),
            "percentage of pods 0 is outside 1..100",
        ),
    ] {
        assert_eq!(built(spec).unwrap_err().to_string(), want, "{case}");
    }
}

#[test]
fn s_148_plugins_are_reordered() {
    let profile = standard()
        .reorder(Point::Filter, &["RunAffinity", "Workspace"])
        .reorder(Point::Score, &["LeastLoaded"])
        .build()
        .unwrap();
    let filters: Vec<_> = profile.filters().collect();
    assert_eq!(
        filters,
        ["RunAffinity", "Workspace", "RuntimePodAvailability"]
    );
    assert_eq!(profile.scores().next(), Some(("LeastLoaded", 1)));
    let unknown = standard().reorder(Point::Reserve, &["Nope"]).build();
    let want = ProfileError::UnknownPlugin("Nope".into());
    assert_eq!(unknown.unwrap_err(), want);
    let further = profile.to_builder().remove("Workspace").build().unwrap();
    assert_eq!(further.filters().count(), 2);
}

#[test]
fn a_profile_of_bundled_plugins_says_so_with_their_arguments() {
    let bundled = standard().build().unwrap().bundled().unwrap();
    let named: Vec<_> = bundled
        .iter()
        .map(|b| (b.point, b.plugin.clone()))
        .collect();
    let availability = Bundled::RuntimePodAvailability(RuntimePodAvailability::default());
    assert_eq!(
        named,
        [
            (Point::Filter, Bundled::Workspace(Workspace::default())),
            (Point::Filter, availability.clone()),
            (Point::Filter, Bundled::RunAffinity),
            (Point::Score, Bundled::PreferredRunAffinity),
            (Point::Score, Bundled::LeastLoaded),
            (Point::Reserve, availability),
        ]
    );
    let more = standard()
        .reweight("LeastLoaded", 7)
        .post_filter(Preemption::default())
        .permit(Gang::new("size"));
    let more = more.build().unwrap().bundled().unwrap();
    assert!(
        more.iter()
            .any(|b| b.weight == 7 && b.plugin == Bundled::LeastLoaded)
    );
    let expression = kruntimes_sched::plugins::Expression::parse("pod.name == \"a\"").unwrap();
    let foreign = standard().filter(expression).build().unwrap();
    assert_eq!(foreign.bundled(), None);
}

fn two_profiles() -> Result<Profiles, ProfileError> {
    let spread = standard().build()?;
    let by_name = standard().remove("LeastLoaded").build()?;
    Profiles::new(
        [("spread".into(), spread), ("first".into(), by_name)],
        |run| {
            let stated = run.labels.get("profile").map(String::as_str);
            assert_ne!(stated, Some("panic"), "scripted");
            stated.unwrap_or("spread").into()
        },
    )
}

#[test]
fn s_150_a_run_gets_the_profile_that_the_selector_names() {
    let profiles = two_profiles().unwrap();
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t")))
        .pod(a_pod("b"));
    let snapshot = snapshot.build();
    let decide =
        |run: kruntimes_sched::testing::RunBuilder| profiles.calculate(&snapshot, &run.build());
    assert_eq!(winner(&decide(a_run("r"))), Some("b"));
    let first = decide(a_run("r").label("profile", "first"));
    assert_eq!(winner(&first), Some("a"));
    let unknown = decide(a_run("r").label("profile", "none"));
    let message = "waiting for available runtime pods for runtime \"python\"";
    assert_eq!(waits(&unknown), Some(("UnknownProfile", message)));
    let panics = decide(a_run("r").label("profile", "panic"));
    assert!(matches!(panics.action, Action::Retry { .. }));
    assert!(profiles.get("first").is_some());
}

#[test]
fn s_150_names_are_used_once() {
    let profile = || {
        standard()
            .replace_score("LeastLoaded", 1, LeastLoaded)
            .build()
            .unwrap()
    };
    let twice = [("a".into(), profile()), ("a".into(), profile())];
    let error = Profiles::new(twice, |_| "a".into()).unwrap_err();
    assert_eq!(error, ProfileError::DuplicateProfile("a".into()));
}
