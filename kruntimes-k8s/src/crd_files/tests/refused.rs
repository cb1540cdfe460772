//! What the API refuses at creation, rule by rule and bound by bound.

use super::*;

/// Every case breaks exactly one rule; the answer names the field or the rule.
fn refuses(kind: &str, base: &Value, cases: &[(&str, Value, &str)]) {
    let schema = schema(kind);
    assert_eq!(
        judged(schema, object(kind, base), None),
        Vec::<String>::new()
    );
    for (rule, change, want) in cases {
        let errors = judged(schema, object(kind, &with(base, change)), None);
        assert!(
            errors.iter().any(|error| error.contains(want)),
            "{rule}: {change} gives {errors:?}, not {want:?}"
        );
    }
}

fn accepts(kind: &str, base: &Value, changes: &[Value]) {
    let schema = schema(kind);
    for change in changes {
        let errors = judged(schema, object(kind, &with(base, change)), None);
        assert_eq!(errors, Vec::<String>::new(), "{change}");
    }
}

fn task() -> Value {
    json!({ "runtime": "bash", "mode": { "task": {} } })
}

fn function() -> Value {
    json!({
        "runtime": "python",
        "mode": { "function": { "handler": "a.b" } },
        "source": { "inline": "x", "inlinePath": "a.py" },
    })
}

fn session() -> Value {
    json!({ "runtime": "bash", "mode": { "session": {} } })
}

#[test]
fn r1_to_r3_modes_and_sources_exclude_each_other() {
    refuses(
        "Run",
        &task(),
        &[
            (
                "R1",
                json!({ "mode": { "task": null } }),
                "exactly one of task, function and session",
            ),
            (
                "R1",
                json!({ "mode": { "session": {} } }),
                "exactly one of task, function and session",
            ),
            (
                "R1",
                json!({ "mode": { "function": {} } }),
                "exactly one of task, function and session",
            ),
            ("mode", json!({ "mode": null }), "spec.mode: Required value"),
            (
                "R2",
                json!({ "source": { "inline": "x", "repoURL": "https://a/b" } }),
                "spec.source.repoURL: ",
            ),
            (
                "R3",
                json!({ "source": { "commitSHA": "main" } }),
                "spec.source.commitSHA: ",
            ),
        ],
    );
    accepts(
        "Run",
        &task(),
        &[
            json!({ "source": {} }),
            json!({ "source": { "repoURL": "git@a:b", "commitSHA": "main" } }),
        ],
    );
}

#[test]
fn r4_to_r7_paths_stay_inside_the_work_directory() {
    for path in ["/a", "a//b", "a/", "./a", "a/./b", "../a", "a/..", ".."] {
        refuses(
            "Run",
            &function(),
            &[(
                "R4",
                json!({ "source": { "inlinePath": path } }),
                "spec.source.inlinePath: ",
            )],
        );
    }
    accepts(
        "Run",
        &function(),
        &[json!({ "source": { "inlinePath": "a..b/.c/...d" } })],
    );
    refuses(
        "Run",
        &function(),
        &[
            (
                "R6",
                json!({ "source": { "inlinePath": null } }),
                "source.inlinePath is required",
            ),
            (
                "R5",
                json!({ "source": { "inline": null } }),
                "source.inlinePath needs",
            ),
        ],
    );
    refuses(
        "Run",
        &task(),
        &[
            (
                "R5",
                json!({ "source": { "inline": "x", "inlinePath": "a" } }),
                "source.inlinePath needs",
            ),
            (
                "R7",
                json!({ "mode": { "task": { "entrypoint": "/a" } } }),
                "spec.mode.task.entrypoint: ",
            ),
            (
                "R7",
                json!({ "mode": { "task": { "entrypoint": "a/../b" } } }),
                "spec.mode.task.entrypoint: ",
            ),
        ],
    );
    accepts(
        "Run",
        &task(),
        &[
            json!({ "mode": { "task": { "entrypoint": "./a..b//c" } } }),
            json!({ "mode": { "task": { "entrypoint": "/a/.." } }, "source": { "inline": "x" } }),
        ],
    );
}

#[test]
fn r11_r12_r14_r15_sessions_selectors_and_stores() {
    refuses(
        "Run",
        &session(),
        &[(
            "R11",
            json!({ "workspace": { "name": "w" } }),
            "spec.workspace: ",
        )],
    );
    accepts(
        "Run",
        &session(),
        &[
            json!({ "termination": { "mode": "Drain" } }),
            json!({ "termination": { "mode": "Immediate" }, "cancelRequested": true }),
        ],
    );
    let affinity = |selector: Value| {
        json!({ "affinity": { "runAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kruntimes.io/runtime-pod", "labelSelector": selector },
        ] } } })
    };
    let input = |driver: &str, location: Value| {
        json!({ "artifactInputs": [{ "path": "a", "ref": {
            "name": "n", "driver": driver, "type": "file", "location": location,
            "sizeBytes": 1, "createdAt": "2026-01-02T03:04:05Z",
        } }] })
    };
    let both = json!({ "filesystem": { "path": "p" }, "s3": { "bucket": "b", "key": "k" } });
    refuses(
        "Run",
        &task(),
        &[
            (
                "R12",
                json!({ "termination": { "mode": "Drain" } }),
                "spec.termination.mode: ",
            ),
            ("R14", affinity(json!({})), "must hold at least one"),
            (
                "R14",
                affinity(json!({ "matchLabels": {} })),
                "must hold at least one",
            ),
            (
                "R15",
                input("filesystem", json!({ "s3": { "bucket": "b", "key": "k" } })),
                "named by driver",
            ),
            ("R15", input("s3", json!({})), "named by driver"),
            ("R15", input("s3", both), "named by driver"),
        ],
    );
    accepts(
        "Run",
        &task(),
        &[
            affinity(json!({ "matchExpressions": [{ "key": "a", "operator": "Unheard" }] })),
            input("filesystem", json!({ "filesystem": { "path": "p" } })),
        ],
    );
}

#[test]
fn note_7_note_8_durations_are_text_of_a_form_and_timeouts_are_positive() {
    for text in ["0", "0s", "-1s", "+0h", "0.0s"] {
        refuses(
            "Run",
            &task(),
            &[("note 7", json!({ "timeout": text }), "spec.timeout: ")],
        );
        refuses(
            "Run",
            &session(),
            &[(
                "operationTimeout",
                json!({ "mode": { "session": { "operationTimeout": text } } }),
                "operationTimeout must be a positive duration",
            )],
        );
    }
    for text in ["", "5", "1d", "s", "1 s", "1m30", "1s-", "--1s", "1e3s"] {
        refuses(
            "Run",
            &task(),
            &[("note 8", json!({ "timeout": text }), "spec.timeout: ")],
        );
    }
    for text in [
        "1ns",
        "1us",
        "1\u{b5}s",
        "1\u{3bc}s",
        "1.5h",
        "1m30s",
        ".5s",
        "5.s",
        "+1s",
    ] {
        accepts("Run", &task(), &[json!({ "timeout": text })]);
    }
    for text in ["0", "0s", "-1s", "90s"] {
        accepts(
            "Run",
            &task(),
            &[json!({ "retryPolicy": { "backoff": text } })],
        );
    }
}

#[test]
fn bounds_of_a_run_hold() {
    let long = |count: usize| "x".repeat(count);
    let names = |count: usize| {
        (0..count)
            .map(|n| json!({ "name": format!("e{n}") }))
            .collect::<Vec<_>>()
    };
    refuses(
        "Run",
        &task(),
        &[
            ("runtime", json!({ "runtime": long(64) }), "spec.runtime: "),
            ("runtime", json!({ "runtime": "" }), "spec.runtime: "),
            ("runtime", json!({ "runtime": "-a" }), "spec.runtime: "),
            ("env", json!({ "env": names(257) }), "spec.env: "),
            (
                "env",
                json!({ "env": [{ "value": "1" }] }),
                "spec.env[0].name: Required value",
            ),
            (
                "inline",
                json!({ "source": { "inline": long(262_145) } }),
                "spec.source.inline: ",
            ),
            (
                "args",
                json!({ "mode": { "task": { "args": [long(8193)] } } }),
                "spec.mode.task.args[0]: ",
            ),
            (
                "attempts",
                json!({ "retryPolicy": { "maxAttempts": 0 } }),
                "spec.retryPolicy.maxAttempts: ",
            ),
            (
                "attempts",
                json!({ "retryPolicy": { "maxAttempts": 101 } }),
                "spec.retryPolicy.maxAttempts: ",
            ),
            (
                "ttl",
                json!({ "ttlSecondsAfterFinished": -1 }),
                "spec.ttlSecondsAfterFinished: ",
            ),
            (
                "request",
                json!({ "resources": { "requests": { "a": "1Zi" } } }),
                "spec.resources.requests",
            ),
            (
                "request",
                json!({ "resources": { "requests": { "a": true } } }),
                "spec.resources.requests",
            ),
            (
                "workspace",
                json!({ "workspace": { "name": "A" } }),
                "spec.workspace.name: ",
            ),
            (
                "kind",
                json!({ "workspace": { "name": "a", "kind": "Other" } }),
                "spec.workspace.kind: ",
            ),
            (
                "null",
                json!({ "termination": { "mode": "Stop" } }),
                "spec.termination.mode: ",
            ),
        ],
    );
    refuses(
        "Run",
        &session(),
        &[
            (
                "queue",
                json!({ "mode": { "session": { "queueSize": 33 } } }),
                "queueSize: ",
            ),
            (
                "lease",
                json!({ "mode": { "session": { "leaseTimeoutSeconds": 0 } } }),
                "leaseTimeoutSeconds: ",
            ),
        ],
    );
    accepts(
        "Run",
        &task(),
        &[
            json!({ "resources": { "requests": { "a": 1, "b": "500m", "c": "-2", "d": "1e3" } } }),
            json!({ "env": names(256), "ttlSecondsAfterFinished": 0 }),
        ],
    );
}

fn runtime() -> Value {
    json!({ "template": { "spec": { "containers": [{ "name": "runtime", "image": "i" }] } } })
}

#[test]
fn t1_to_t7_runtimes() {
    let pod = |change: Value| json!({ "template": { "spec": change } });
    let store = |store: Value| json!({ "artifactStore": store });
    refuses(
        "Runtime",
        &runtime(),
        &[
            (
                "T1",
                json!({ "template": { "spec": null } }),
                "spec.template.spec: Required value",
            ),
            (
                "T1",
                pod(json!({ "containers": null })),
                "spec.template.spec.containers: Required value",
            ),
            (
                "T1",
                pod(json!({ "containers": [] })),
                "spec.template.spec.containers: ",
            ),
            (
                "T2",
                pod(json!({ "containers": [{ "name": "a", "image": "i" }] })),
                "name must be runtime",
            ),
            (
                "T2",
                pod(json!({ "containers": [{ "name": "runtime" }] })),
                "image must have 1 to 2048",
            ),
            (
                "T2",
                pod(json!({ "containers": [{ "name": "runtime", "image": "" }] })),
                "image must have",
            ),
            (
                "T3",
                pod(json!({ "restartPolicy": "Never" })),
                "spec.template.spec.restartPolicy: ",
            ),
            (
                "T4",
                pod(json!({ "ephemeralContainers": [{ "name": "d" }] })),
                "ephemeralContainers: ",
            ),
            (
                "T5",
                pod(json!({ "serviceAccountName": "A_b" })),
                "serviceAccountName: ",
            ),
            ("T6", store(json!({ "driver": "s3" })), "named by driver"),
            (
                "T6",
                store(
                    json!({ "driver": "s3", "s3": { "bucket": "b" }, "filesystem": { "volumeClaimName": "v" } }),
                ),
                "named by driver",
            ),
            (
                "T7",
                json!({ "workspace": { "emptyDir": {}, "csi": { "driver": "d" } } }),
                "at most one volume source",
            ),
            (
                "bucket",
                store(json!({ "driver": "s3", "s3": { "bucket": "a/b" } })),
                "bucket: ",
            ),
            (
                "part",
                store(
                    json!({ "driver": "s3", "s3": { "bucket": "b", "uploadPartSize": 5_242_879 } }),
                ),
                "uploadPartSize: ",
            ),
            ("port", json!({ "port": 0 }), "spec.port: "),
            ("replicas", json!({ "replicas": 0 }), "spec.replicas: "),
        ],
    );
    accepts(
        "Runtime",
        &runtime(),
        &[
            pod(
                json!({ "restartPolicy": "Always", "ephemeralContainers": [], "serviceAccountName": "a.b-c" }),
            ),
            store(json!({ "driver": "filesystem", "filesystem": { "volumeClaimName": "v" } })),
            json!({ "workspace": {}, "port": 70_000 }),
            json!({ "workspace": { "image": { "reference": "r" } } }),
        ],
    );
}

fn jobs() -> Value {
    json!({ "jobs": { "a": { "runs-on": "bash", "steps": [{ "name": "s", "run": "true" }] } } })
}

#[test]
fn w1_to_w7_jobs_and_steps() {
    let job = |change: Value| json!({ "jobs": { "a": change } });
    let step = |step: Value| json!({ "jobs": { "a": { "steps": [step] } } });
    let run = json!({ "runs-on": "bash", "steps": [{ "name": "s", "run": "true" }] });
    let cases = [
        (
            "W1",
            job(json!({ "uses": "w" })),
            "exactly one of steps and uses",
        ),
        (
            "W1",
            job(json!({ "steps": null })),
            "exactly one of steps and uses",
        ),
        (
            "W2",
            job(json!({ "with": { "a": "b" } })),
            "with of a job requires uses",
        ),
        (
            "W3",
            step(json!({ "name": "s" })),
            "exactly one of run and uses",
        ),
        (
            "W3",
            step(json!({ "name": "s", "run": "x", "uses": "y" })),
            "exactly one of run and uses",
        ),
        (
            "W4",
            step(json!({ "name": "s", "run": "x", "with": {} })),
            "with of a step requires uses",
        ),
        (
            "W5",
            step(json!({ "name": "s", "uses": "x", "env": { "A": "1" } })),
            "may not set args, env or artifacts",
        ),
        (
            "W5",
            step(json!({ "name": "s", "uses": "x", "args": ["1"] })),
            "may not set args, env or artifacts",
        ),
        (
            "W6",
            job(json!({ "needs": ["a"] })),
            "needs must name other jobs",
        ),
        (
            "W6",
            job(json!({ "needs": ["b"] })),
            "needs must name other jobs",
        ),
        (
            "W7",
            json!({ "jobs": { "-a": run.clone() } }),
            "a job name must have",
        ),
        (
            "W7",
            json!({ "jobs": { "x".repeat(64): run } }),
            "a job name must have",
        ),
        ("jobs", json!({ "jobs": { "a": null } }), "spec.jobs: "),
        ("steps", job(json!({ "steps": [] })), "spec.jobs"),
        (
            "path",
            step(json!({ "name": "s", "run": "x", "artifacts": [{ "from": "f", "path": "/x" }] })),
            "path: ",
        ),
        ("name", step(json!({ "name": "a b", "run": "x" })), "name: "),
    ];
    refuses("WorkflowRun", &jobs(), &cases);
    refuses("Workflow", &jobs(), &cases);
    refuses(
        "Workflow",
        &jobs(),
        &[(
            "type",
            json!({ "inputs": { "a": { "type": "int" } } }),
            "type: ",
        )],
    );
}

#[test]
fn a1_actions_hold_run_steps_only() {
    let base = json!({ "steps": [{ "name": "s", "run": "true" }] });
    refuses(
        "Action",
        &base,
        &[
            (
                "A1",
                json!({ "steps": [{ "name": "s", "uses": "x" }] }),
                "must set run and neither",
            ),
            ("steps", json!({ "steps": [] }), "spec.steps: "),
            (
                "value",
                json!({ "outputs": { "a": { "value": "" } } }),
                "value: ",
            ),
        ],
    );
}

#[test]
fn r15_and_conditions_hold_for_status_too() {
    let condition = |reason: &str| {
        json!({
            "type": "Ready", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let schema = schema("Run");
    let judge = |status: Value| {
        let mut object = object("Run", &task());
        object["status"] = status;
        judged(schema, object, None)
    };
    assert_eq!(
        judge(json!({})),
        Vec::<String>::new(),
        "phase has a default"
    );
    assert_eq!(
        judge(json!({ "conditions": [condition("A")] })),
        Vec::<String>::new()
    );
    for (status, want) in [
        (json!({ "phase": "Done" }), "status.phase: "),
        (json!({ "conditions": [condition("")] }), "reason: "),
        (
            json!({ "conditions": [condition("A"), condition("B")] }),
            "status.conditions[1]: ",
        ),
        (
            json!({ "endpoint": { "protocol": "TCP", "url": "u" } }),
            "status.endpoint.protocol: ",
        ),
        (
            json!({ "artifactStore": { "driver": "s3" } }),
            "named by driver",
        ),
    ] {
        let errors = judge(status.clone());
        assert!(
            errors.iter().any(|error| error.contains(want)),
            "{status}: {errors:?}"
        );
    }
}
