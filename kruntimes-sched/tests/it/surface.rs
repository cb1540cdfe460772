//! What the crate promises those who build upon it.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources::Amounts;
use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, at};
use kruntimes_sched::{
    Action, Admission, Admittance, Attempt, Bind, Binding, Broken, Filter, Intent, Nomination,
    Permission, Permit, Place, Placeable, Placement, Pod, PodState, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PrepareError, Prepared, Profile, Question, QueueSort, Reason, Refused,
    Reserve, Run, Score, Scorer, Snapshot, Splitter, Trial,
};

/// A plugin at every point, with nothing but the methods that have no default.
struct Minimal;

macro_rules! at_point {
    ($point:ident { $($rest:item)* }) => {
        impl $point for Minimal {
            fn name(&self) -> &'static str {
                stringify!($point)
            }
            $($rest)*
        }
    };
}

at_point!(QueueSort {
    fn compare(&self, _: &Run, _: &Run, _: Timestamp) -> Ordering {
        Ordering::Equal
    }
});
at_point!(Splitter {
    fn tenant(&self, run: &Run) -> Arc<str> {
        run.namespace.as_str().into()
    }
});
at_point!(PreEnqueue {
    fn reasons(&self) -> &'static [Reason] {
        &[]
    }
    fn admit(&self, _: &Run, _: Timestamp) -> Admittance {
        Admittance::Admit
    }
});
at_point!(PreFilter {
    fn admit(&self, _: &Snapshot, _: &Run) -> Result<Admission, PrepareError> {
        Ok(Admission::All)
    }
});
at_point!(Filter {
    fn reasons(&self) -> &'static [Reason] {
        &[]
    }
    fn prepare<'a>(&'a self, _: &'a Snapshot, _: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Skip)
    }
});
at_point!(PostFilter {
    fn nominate(&self, _: &Trial<'_>) -> Result<Option<Nomination>, Broken> {
        Ok(None)
    }
});
at_point!(Score {
    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(Minimal))
    }
});
at_point!(Reserve {
    fn reserve(&self, _: &Attempt<'_>) -> Result<(), Refused> {
        Ok(())
    }
});
at_point!(Permit {
    fn permit(&self, _: &Question<'_>) -> Permission {
        Permission::Allow
    }
});
at_point!(PreBind {
    fn intents(&self, _: &Placement, _: Timestamp) -> Result<Vec<Intent>, Broken> {
        Ok(Vec::new())
    }
});
at_point!(Bind {
    fn bind(&self, _: &Placement, _: Timestamp) -> Result<Binding, Broken> {
        Ok(Binding::Write)
    }
});
at_point!(PostBind {
    fn bound(&self, _: &Placement) {}
});

impl Scorer for Minimal {
    fn score(&self, _: &PodState) -> Result<i64, Broken> {
        Ok(7)
    }
}

impl Placeable for Minimal {
    fn namespace(&self) -> &'static str {
        "default"
    }
    fn name(&self) -> &'static str {
        "run"
    }
    fn uid(&self) -> &'static str {
        "run-uid"
    }
    fn request(&self) -> Amounts {
        Amounts::new()
    }
}

impl Place for Minimal {
    fn name(&self) -> &'static str {
        "pod"
    }
    fn uid(&self) -> &'static str {
        "pod-uid"
    }
}

#[test]
fn s_146_s_158_a_plugin_needs_no_more_than_the_methods_without_a_default() {
    let profile = Profile::builder()
        .queue_sort(Minimal)
        .splitter(Minimal)
        .pre_enqueue(Minimal)
        .pre_filter(Minimal)
        .filter(Minimal)
        .post_filter(Minimal)
        .score(3, Minimal)
        .reserve(Minimal)
        .permit(Minimal)
        .pre_bind(Minimal)
        .bind(Minimal)
        .post_bind(Minimal);
    let profile = profile.build().unwrap();
    let decision = a_snapshot().pod(a_pod("p")).decide(&a_run("r"), &profile);
    let Action::Bind { pod, scores, .. } = decision.action else {
        panic!("{decision:?}");
    };
    assert_eq!((pod.as_str(), scores[&pod]), ("p", 21));
    assert_eq!(profile.held(&Run::of(&Minimal), at(1)), Ok(None));
    assert_eq!(Pod::of(&Minimal).name.as_str(), "pod");
}

/// What a test of pure code has no use for.
const FOREIGN: [&str; 6] = [
    concat!("std::", "net"),
    concat!("thread::", "sleep"),
    concat!("std::", "process"),
    concat!("Instant", "::now"),
    concat!("SystemTime", "::now"),
    concat!("tokio", "::"),
];

fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn s_178_the_crate_and_its_tests_use_no_network_no_process_no_clock_and_no_sleep() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for part in ["src", "tests", "examples"] {
        sources(&root.join(part), &mut found);
    }
    assert!(found.len() > 80, "all files are looked at");
    for (path, text) in &found {
        for word in FOREIGN {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
