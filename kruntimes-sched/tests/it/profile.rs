//! Profiles and the traits of callers' own types (scheduler, section 16).

use kruntimes_core::resources::Amounts;
use kruntimes_sched::plugins::{LeastLoaded, RuntimePodAvailability, standard};
use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, total, winner};
use kruntimes_sched::{
    Action, Book, Filter, Place, Placeable, Pod, PrepareError, Prepared, Profile, ProfileError,
    Reason, Run, Snapshot, calculate,
};

#[test]
fn s_148_an_empty_profile_accepts_every_pod_and_the_name_decides() {
    let profile = Profile::builder().build().unwrap();
    let snapshot = a_snapshot()
        .pod(a_pod("b"))
        .pod(a_pod("a").unready().holds(a_run("x").asks("runs", 99)));
    let decision = snapshot.decide(&a_run("r").asks("gpu", 7), &profile);
    assert_eq!(winner(&decision), Some("a"));
    assert_eq!(total(&decision, "b"), Some(0));
}

#[test]
fn s_148_plugins_are_added_removed_replaced_and_reweighted() {
    let profile = standard()
        .remove("Workspace")
        .remove("RunAffinity")
        .remove("PreferredRunAffinity")
        .replace_filter("RuntimePodAvailability", RuntimePodAvailability::default())
        .filter_before("RuntimePodAvailability", Named("First"))
        .filter(Named("Last"))
        .reweight("LeastLoaded", 7)
        .build()
        .unwrap();
    let filters: Vec<_> = profile.filters().collect();
    assert_eq!(filters, ["First", "RuntimePodAvailability", "Last"]);
    assert_eq!(profile.scores().collect::<Vec<_>>(), [("LeastLoaded", 7)]);

    let bare = standard().remove("LeastLoaded").build().unwrap();
    let left: Vec<_> = bare.scores().collect();
    assert_eq!(left, [("PreferredRunAffinity", 1)]);
}

/// A filter without opinion.
struct Named(&'static str);

impl Filter for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn reasons(&self) -> &'static [Reason] {
        match self.0 {
            "Twice" => const { &[Reason::new("A"), Reason::new("A")] },
            "Typo" => const { &[Reason::new("A").message("waiting for {pod}")] },
            _ => &[],
        }
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, _: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Skip)
    }
}

#[test]
fn s_149_mistakes_are_found_when_the_profile_is_built() {
    let unknown = |name: &str| ProfileError::UnknownPlugin(name.into());
    for (case, builder, want) in [
        ("remove", standard().remove("Nope"), unknown("Nope")),
        ("reweight", standard().reweight("Nope", 1), unknown("Nope")),
        (
            "move",
            standard().filter_before("Nope", Named("A")),
            unknown("Nope"),
        ),
        (
            "replace",
            standard().replace_score("Nope", 1, LeastLoaded),
            unknown("Nope"),
        ),
        (
            "twice",
            standard().score(1, LeastLoaded),
            ProfileError::DuplicatePlugin("LeastLoaded".into()),
        ),
        (
            "weight",
            standard().reweight("LeastLoaded", 0),
            ProfileError::InvalidWeight(0),
        ),
        (
            "reason twice",
            standard().filter(Named("Twice")),
            ProfileError::DuplicateReason {
                plugin: "Twice",
                reason: "A",
            },
        ),
        (
            "placeholder",
            standard().filter(Named("Typo")),
            ProfileError::UnknownPlaceholder {
                plugin: "Typo",
                reason: "A",
            },
        ),
    ] {
        assert_eq!(builder.build().unwrap_err(), want, "{case}");
    }
    assert_eq!(
        ProfileError::InvalidWeight(-3).to_string(),
        "initialize score plugin: invalid weight -3"
    );
}

struct Parcel {
    id: String,
    weight: i64,
}

impl Placeable for Parcel {
    fn namespace(&self) -> &'static str {
        "depot"
    }

    fn name(&self) -> &str {
        &self.id
    }

    fn uid(&self) -> &str {
        &self.id
    }

    fn request(&self) -> Amounts {
        Amounts::from([(
            "kg".to_owned(),
            kruntimes_core::quantity::Quantity::from_whole(self.weight),
        )])
    }
}

struct Truck(&'static str);

impl Place for Truck {
    fn name(&self) -> &str {
        self.0
    }

    fn uid(&self) -> &str {
        self.0
    }

    fn capacity(&self) -> Amounts {
        Amounts::from([("kg".to_owned(), "10".parse().unwrap())])
    }
}

#[test]
fn s_145_s_146_own_types_need_identity_and_request_only() {
    let profile = standard().build().unwrap();
    let mut book = Book::new();
    let mut loaded = Vec::new();
    for (id, weight) in [("a", 6), ("b", 6), ("c", 4), ("d", 5)] {
        let id = id.to_owned();
        let run = std::sync::Arc::new(Run::of(&Parcel { id, weight }));
        let trucks = [Truck("t1"), Truck("t2")].map(|truck| Pod::of(&truck));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let snapshot = Snapshot::new(now, trucks, book.view("depot"));
        match calculate(&snapshot, &run, &profile).action {
            Action::Bind { pod, .. } => {
                book.reserve(&run, &snapshot.pod(&pod).unwrap().pod)
                    .unwrap();
                loaded.push(pod.to_string());
            }
            other => loaded.push(format!("{other:?}").chars().take(4).collect()),
        }
    }
    assert_eq!(loaded, ["t1", "t2", "t1", "Wait"]);
}

#[test]
fn s_154_book_profile_and_snapshot_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Book>();
    shared::<Profile>();
    shared::<Snapshot>();
    shared::<kruntimes_sched::WaitingRoom>();
    shared::<kruntimes_sched::Profiles>();
}
