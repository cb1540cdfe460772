//! What an update may change.

use super::*;

fn run() -> Value {
    json!({
        "runtime": "bash",
        "mode": { "task": { "args": ["a"] } },
        "source": { "repoURL": "https://a/b" },
        "env": [{ "name": "A", "value": "1" }],
        "timeout": "60s",
        "retryPolicy": { "maxAttempts": 2, "backoff": "90s" },
        "resources": { "requests": { "runs": 1, "gpu": "1k" } },
        "workspace": { "name": "w" },
    })
}

fn session() -> Value {
    json!({
        "runtime": "bash",
        "mode": { "session": { "queueSize": 4, "operationTimeout": "90s" } },
    })
}

#[test]
fn n_15_r8_r9_each_immutable_field_is_named() {
    for (change, field) in [
        (json!({ "runtime": "other" }), "runtime"),
        (json!({ "mode": { "task": { "args": ["b"] } } }), "mode"),
        (json!({ "mode": { "task": null, "function": {} } }), "mode"),
        (json!({ "source": { "commitSHA": "main" } }), "source"),
        (json!({ "source": null }), "source"),
        (json!({ "env": [{ "name": "A", "value": "2" }] }), "env"),
        (json!({ "env": null }), "env"),
        (json!({ "timeout": "61s" }), "timeout"),
        (json!({ "timeout": null }), "timeout"),
        (
            json!({ "retryPolicy": { "maxAttempts": 3 } }),
            "retryPolicy",
        ),
        (
            json!({ "retryPolicy": { "backoff": "91s" } }),
            "retryPolicy",
        ),
        (json!({ "retryPolicy": null }), "retryPolicy"),
        (json!({ "resources": null }), "resources"),
        (
            json!({ "resources": { "requests": { "gpu": "2k" } } }),
            "resources.requests",
        ),
        (
            json!({ "resources": { "requests": { "gpu": null } } }),
            "resources.requests",
        ),
        (
            json!({ "resources": { "requests": { "more": 1 } } }),
            "resources.requests",
        ),
        (json!({ "workspace": { "name": "x" } }), "workspace"),
        (json!({ "workspace": null }), "workspace"),
        (
            json!({ "affinity": { "runAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kruntimes.io/runtime-pod",
                "labelSelector": { "matchLabels": { "a": "b" } },
            }] } } }),
            "affinity",
        ),
    ] {
        let errors = updated("Run", &run(), &with(&run(), &change));
        let want = format!("spec.{field}: {field} is immutable");
        let said = errors
            .iter()
            .any(|error| error.ends_with(&format!("{field} is immutable")));
        assert!(
            said && errors.len() == 1,
            "{change}: {errors:?}, not {want}"
        );
    }
}

#[test]
fn n_15_note_10_a_respelled_value_is_no_change() {
    for change in [
        json!({}),
        json!({ "timeout": "1m0s" }),
        json!({ "retryPolicy": { "backoff": "1.5m" } }),
        json!({ "resources": { "requests": { "runs": "1", "gpu": 1000 } } }),
        json!({ "resources": { "requests": { "runs": "1000m", "gpu": "1e3" } } }),
        json!({ "timeout": "1m0s", "cancelRequested": true, "ttlSecondsAfterFinished": 5 }),
    ] {
        let errors = updated("Run", &run(), &with(&run(), &change));
        assert_eq!(errors, Vec::<String>::new(), "{change}");
    }
    let respelled = json!({ "mode": { "session": { "operationTimeout": "1m30s" } } });
    let errors = updated("Run", &session(), &with(&session(), &respelled));
    assert_eq!(errors, Vec::<String>::new());
    let longer = json!({ "mode": { "session": { "operationTimeout": "2m" } } });
    assert_eq!(
        updated("Run", &session(), &with(&session(), &longer)).len(),
        1
    );
}

/// A backoff of nothing is always sent by some clients.
#[test]
fn note_8_an_update_with_a_backoff_of_zero_passes() {
    let zero = with(&run(), &json!({ "retryPolicy": { "backoff": "0s" } }));
    let cancelled = with(
        &zero,
        &json!({ "cancelRequested": true, "retryPolicy": { "backoff": "0" } }),
    );
    assert_eq!(updated("Run", &zero, &cancelled), Vec::<String>::new());
}

#[test]
fn r10_a_cancellation_is_final() {
    let asked = json!({ "cancelRequested": true });
    for (kind, base) in [("Run", run()), ("WorkflowRun", jobs())] {
        let cancelled = with(&base, &asked);
        assert_eq!(updated(kind, &base, &cancelled), Vec::<String>::new());
        for withdrawn in [
            json!({ "cancelRequested": false }),
            json!({ "cancelRequested": null }),
        ] {
            let errors = updated(kind, &cancelled, &with(&cancelled, &withdrawn));
            assert!(
                errors[0].contains("cancelRequested may not be withdrawn"),
                "{errors:?}"
            );
        }
    }
}

#[test]
fn r13_termination_only_moves_from_drain_to_immediate() {
    let asked = |mode: &str| with(&session(), &json!({ "termination": { "mode": mode } }));
    let (none, drain, immediate) = (session(), asked("Drain"), asked("Immediate"));
    for (old, new, legal) in [
        (&none, &drain, true),
        (&none, &immediate, true),
        (&drain, &drain, true),
        (&drain, &immediate, true),
        (&immediate, &drain, false),
        (&immediate, &none, false),
        (&drain, &none, false),
    ] {
        let errors = updated("Run", old, new);
        assert_eq!(errors.is_empty(), legal, "{errors:?}");
    }
}

fn jobs() -> Value {
    json!({ "jobs": { "a": { "runs-on": "bash", "steps": [{ "name": "s", "run": "true" }] } } })
}

#[test]
fn w_10_jobs_are_immutable_and_definitions_are_not() {
    let change = json!({ "jobs": { "a": { "runs-on": "python" } } });
    let errors = updated("WorkflowRun", &jobs(), &with(&jobs(), &change));
    assert!(errors[0].ends_with("jobs is immutable"), "{errors:?}");
    assert_eq!(
        updated("Workflow", &jobs(), &with(&jobs(), &change)),
        Vec::<String>::new()
    );
}

#[test]
fn the_pod_of_a_workspace_never_changes_once_set() {
    let schema = schema("PersistentWorkspace");
    let bound = |uid: Option<&str>| {
        let mut object = object("PersistentWorkspace", &json!({ "runtime": "r" }));
        object["status"] = json!({ "phase": "Bound" });
        if let Some(uid) = uid {
            object["status"]["boundPodUID"] = json!(uid);
        }
        object
    };
    let judge = |old, new| judged(schema, bound(new), Some(bound(old))).is_empty();
    assert!(judge(None, Some("a")));
    assert!(judge(Some("a"), Some("a")));
    assert!(!judge(Some("a"), Some("b")));
    assert!(!judge(Some("a"), None));
}
