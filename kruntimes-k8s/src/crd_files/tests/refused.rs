//! What the API refuses at creation, rule by rule and bound by bound.
//!
//! A table line is `rule | change | words of the answer`. The change is merged
//! into a valid spec, null removes; `"@64"` stands for a text of 64 characters
//! and `"#64"` for a list of as many variables.

use super::*;

/// Every line breaks exactly one rule; the answer names the field or the rule.
fn refuses(kind: &str, base: &Value, table: &str) {
    let schema = schema(kind);
    assert_eq!(
        judged(schema, object(kind, base), None),
        Vec::<String>::new()
    );
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [rule, change, want] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let errors = judged(schema, object(kind, &changed(base, change)), None);
        assert!(
            errors.iter().any(|error| error.contains(want)),
            "{rule}: {change} gives {errors:?}, not {want:?}"
        );
    }
}

fn accepts(kind: &str, base: &Value, table: &str) {
    for change in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let errors = judged(schema(kind), object(kind, &changed(base, change)), None);
        assert_eq!(errors, Vec::<String>::new(), "{change}");
    }
}

fn changed(base: &Value, change: &str) -> Value {
    let mut change: Value =
        serde_json::from_str(change).unwrap_or_else(|e| panic!("{change}: {e}"));
    expand(&mut change);
    with(base, &change)
}

fn expand(value: &mut Value) {
    match value {
        Value::String(text) => {
            let number = |mark| text.strip_prefix(mark)?.parse::<usize>().ok();
            if let Some(length) = number('@') {
                *text = "x".repeat(length);
            } else if let Some(count) = number('#') {
                let variables = (0..count).map(|n| json!({ "name": format!("e{n}") }));
                *value = variables.collect();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(expand),
        Value::Object(members) => members.values_mut().for_each(expand),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
fn n_14_r1_to_r3_modes_and_sources_exclude_each_other() {
    let table = r#"
        R1 | {"mode": {"task": null}} | exactly one of task, function and session
        R1 | {"mode": {"session": {}}} | exactly one of task, function and session
        R1 | {"mode": {"function": {}}} | exactly one of task, function and session
        mode | {"mode": null} | spec.mode: Required value
        R2 | {"source": {"inline": "x", "repoURL": "https://a/b"}} | spec.source.repoURL:
        R3 | {"source": {"commitSHA": "main"}} | spec.source.commitSHA:
    "#;
    refuses("Run", &task(), table);
    let table = r#"
        {"source": {}}
        {"source": {"repoURL": "git@a:b", "commitSHA": "main"}}
    "#;
    accepts("Run", &task(), table);
}

#[test]
fn n_14_r4_to_r7_paths_stay_inside_the_work_directory() {
    let table = r#"
        R4 | {"source": {"inlinePath": "/a"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "a//b"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "a/"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "./a"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "a/./b"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "../a"}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": "a/.."}} | spec.source.inlinePath:
        R4 | {"source": {"inlinePath": ""}} | spec.source.inlinePath:
        R6 | {"source": {"inlinePath": null}} | source.inlinePath is required
        R5 | {"source": {"inline": null}} | source.inlinePath needs
    "#;
    refuses("Run", &function(), table);
    accepts(
        "Run",
        &function(),
        r#"{"source": {"inlinePath": "a..b/.c/...d"}}"#,
    );
    let table = r#"
        R5 | {"source": {"inline": "x", "inlinePath": "a"}} | source.inlinePath needs
        R7 | {"mode": {"task": {"entrypoint": "/a"}}} | spec.mode.task.entrypoint:
        R7 | {"mode": {"task": {"entrypoint": "a/../b"}}} | spec.mode.task.entrypoint:
    "#;
    refuses("Run", &task(), table);
    let table = r#"
        {"mode": {"task": {"entrypoint": "./a..b//c"}}}
        {"mode": {"task": {"entrypoint": "/a/.."}}, "source": {"inline": "x"}}
    "#;
    accepts("Run", &task(), table);
}

#[test]
fn n_14_r11_r12_sessions_use_no_workspace_and_only_they_drain() {
    refuses(
        "Run",
        &session(),
        r#"R11 | {"workspace": {"name": "w"}} | spec.workspace:"#,
    );
    refuses(
        "Run",
        &task(),
        r#"R12 | {"termination": {"mode": "Drain"}} | spec.termination.mode:"#,
    );
    let table = r#"
        {"termination": {"mode": "Drain"}}
        {"termination": {"mode": "Immediate"}, "cancelRequested": true}
    "#;
    accepts("Run", &session(), table);
    accepts("Run", &task(), r#"{"termination": {"mode": "Immediate"}}"#);
}

#[test]
fn r14_selectors_select_something() {
    let schema = schema("Run");
    for side in ["runAffinity", "runAntiAffinity"] {
        for (selector, legal) in [
            (json!({}), false),
            (json!({ "matchLabels": {} }), false),
            (json!({ "matchLabels": {}, "matchExpressions": [] }), false),
            (json!({ "matchLabels": { "a": "b" } }), true),
            (
                json!({ "matchExpressions": [{ "key": "a", "operator": "Unheard" }] }),
                true,
            ),
        ] {
            let term =
                json!({ "topologyKey": "kruntimes.io/runtime-pod", "labelSelector": selector });
            let affinity = json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "runAffinityTerm": term }],
            });
            let spec = with(&task(), &json!({ "affinity": { side: affinity } }));
            let errors = judged(schema, object("Run", &spec), None);
            let said = errors
                .iter()
                .filter(|error| error.contains("at least one"))
                .count();
            assert_eq!(
                said,
                if legal { 0 } else { 2 },
                "{side} {selector}: {errors:?}"
            );
            assert_eq!(errors.len(), said, "{errors:?}");
        }
    }
}

#[test]
fn r15_a_reference_holds_the_member_that_its_driver_names() {
    let input = |driver: &str, location: Value| {
        let reference = json!({
            "name": "n", "driver": driver, "type": "file", "location": location,
            "sizeBytes": 1, "createdAt": "2026-01-02T03:04:05Z",
        });
        let input = json!({ "artifactInputs": [{ "path": "a", "ref": reference }] });
        created("Run", &with(&task(), &input))
    };
    let (file, s3) = (json!({ "path": "p" }), json!({ "bucket": "b", "key": "k" }));
    assert!(input("filesystem", json!({ "filesystem": file })).is_empty());
    assert!(input("s3", json!({ "s3": s3 })).is_empty());
    for (driver, location) in [
        ("filesystem", json!({ "s3": s3 })),
        ("s3", json!({})),
        ("s3", json!({ "filesystem": file, "s3": s3 })),
    ] {
        let errors = input(driver, location);
        assert!(errors[0].contains("named by driver"), "{errors:?}");
    }
}

#[test]
fn note_7_note_8_durations_are_text_of_a_form_and_timeouts_are_positive() {
    let spec = |text: &str| with(&task(), &json!({ "timeout": text }));
    let operation = |text: &str| {
        let limit = json!({ "mode": { "session": { "operationTimeout": text } } });
        with(&session(), &limit)
    };
    for text in ["0", "0s", "-1s", "+0h", "0.0s"] {
        for (name, spec) in [
            ("timeout", spec(text)),
            ("operationTimeout", operation(text)),
        ] {
            let errors = created("Run", &spec);
            let want = format!("{name} must be a positive duration");
            assert!(
                errors.len() == 1 && errors[0].contains(&want),
                "{text}: {errors:?}"
            );
        }
    }
    for text in [
        "", "5", "1d", "s", "1 s", "1m30", "1s-", "--1s", "1e3s", "1S",
    ] {
        assert!(!created("Run", &spec(text)).is_empty(), "{text}");
        assert!(!created("Run", &operation(text)).is_empty(), "{text}");
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
        assert!(created("Run", &spec(text)).is_empty(), "{text}");
        assert!(created("Run", &operation(text)).is_empty(), "{text}");
    }
    for text in ["0", "0s", "-1s", "90s"] {
        let policy = json!({ "retryPolicy": { "backoff": text } });
        assert!(created("Run", &with(&task(), &policy)).is_empty(), "{text}");
    }
}

#[test]
fn bounds_of_a_run_hold() {
    let table = r##"
        runtime | {"runtime": "@64"} | spec.runtime:
        runtime | {"runtime": ""} | spec.runtime:
        runtime | {"runtime": "-a"} | spec.runtime:
        env | {"env": "#257"} | spec.env:
        env | {"env": [{"value": "1"}]} | spec.env[0].name: Required value
        inline | {"source": {"inline": "@262145"}} | spec.source.inline:
        args | {"mode": {"task": {"args": ["@8193"]}}} | spec.mode.task.args[0]:
        attempts | {"retryPolicy": {"maxAttempts": 0}} | spec.retryPolicy.maxAttempts:
        attempts | {"retryPolicy": {"maxAttempts": 101}} | spec.retryPolicy.maxAttempts:
        reasons | {"retryPolicy": {"retryableReasons": ["@129"]}} | spec.retryPolicy.retryableReasons[0]:
        ttl | {"ttlSecondsAfterFinished": -1} | spec.ttlSecondsAfterFinished:
        request | {"resources": {"requests": {"a": "1Zi"}}} | spec.resources.requests
        request | {"resources": {"requests": {"a": true}}} | spec.resources.requests
        workspace | {"workspace": {"name": "A"}} | spec.workspace.name:
        kind | {"workspace": {"name": "a", "kind": "Other"}} | spec.workspace.kind:
        mode | {"termination": {"mode": "Stop"}} | spec.termination.mode:
    "##;
    refuses("Run", &task(), table);
    let table = r#"
        queue | {"mode": {"session": {"queueSize": 33}}} | queueSize:
        queue | {"mode": {"session": {"queueSize": 0}}} | queueSize:
        lease | {"mode": {"session": {"leaseTimeoutSeconds": 0}}} | leaseTimeoutSeconds:
    "#;
    refuses("Run", &session(), table);
    let table = r##"
        {"resources": {"requests": {"a": 1, "b": "500m", "c": "-2", "d": "1e3"}}}
        {"env": "#256", "ttlSecondsAfterFinished": 0}
        {"runtime": "@63", "source": {"inline": "@262144"}}
    "##;
    accepts("Run", &task(), table);
}

#[test]
fn t1_to_t7_runtimes() {
    let base =
        json!({ "template": { "spec": { "containers": [{ "name": "runtime", "image": "i" }] } } });
    let table = r#"
        T1 | {"template": {"spec": null}} | spec.template.spec: Required value
        T1 | {"template": {"spec": {"containers": null}}} | spec.template.spec.containers: Required value
        T1 | {"template": {"spec": {"containers": []}}} | spec.template.spec.containers:
        T2 | {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}} | name must be runtime
        T2 | {"template": {"spec": {"containers": [{"name": "runtime"}]}}} | image must have 1 to 2048
        T2 | {"template": {"spec": {"containers": [{"name": "runtime", "image": ""}]}}} | image must have
        T2 | {"template": {"spec": {"containers": [{"name": "runtime", "image": "@2049"}]}}} | image must have
        T3 | {"template": {"spec": {"restartPolicy": "Never"}}} | spec.template.spec.restartPolicy:
        T4 | {"template": {"spec": {"ephemeralContainers": [{"name": "d"}]}}} | ephemeralContainers:
        T5 | {"template": {"spec": {"serviceAccountName": "A_b"}}} | serviceAccountName:
        T6 | {"artifactStore": {"driver": "s3"}} | named by driver
        T6 | {"artifactStore": {"driver": "s3", "s3": {"bucket": "b"}, "filesystem": {"volumeClaimName": "v"}}} | named by driver
        T7 | {"workspace": {"emptyDir": {}, "csi": {"driver": "d"}}} | at most one volume source
        bucket | {"artifactStore": {"driver": "s3", "s3": {"bucket": "a/b"}}} | bucket:
        part | {"artifactStore": {"driver": "s3", "s3": {"bucket": "b", "uploadPartSize": 5242879}}} | uploadPartSize:
        port | {"port": 0} | spec.port:
        replicas | {"replicas": 0} | spec.replicas:
    "#;
    refuses("Runtime", &base, table);
    let table = r#"
        {"template": {"spec": {"restartPolicy": "Always", "ephemeralContainers": [], "serviceAccountName": "a.b-c"}}}
        {"artifactStore": {"driver": "filesystem", "filesystem": {"volumeClaimName": "v"}}}
        {"workspace": {}, "port": 70000}
        {"workspace": {"image": {"reference": "r"}}}
    "#;
    accepts("Runtime", &base, table);
}

#[test]
fn w1_to_w7_jobs_and_steps() {
    let base = json!({ "jobs": { "a": { "runs-on": "bash", "steps": [{ "name": "s", "run": "true" }] } } });
    let table = r#"
        W1 | {"jobs": {"a": {"uses": "w"}}} | exactly one of steps and uses
        W1 | {"jobs": {"a": {"steps": null}}} | exactly one of steps and uses
        W2 | {"jobs": {"a": {"with": {"a": "b"}}}} | with of a job requires uses
        W3 | {"jobs": {"a": {"steps": [{"name": "s"}]}}} | exactly one of run and uses
        W3 | {"jobs": {"a": {"steps": [{"name": "s", "run": "x", "uses": "y"}]}}} | exactly one of run and uses
        W4 | {"jobs": {"a": {"steps": [{"name": "s", "run": "x", "with": {}}]}}} | with of a step requires uses
        W5 | {"jobs": {"a": {"steps": [{"name": "s", "uses": "x", "env": {"A": "1"}}]}}} | may not set args, env or artifacts
        W5 | {"jobs": {"a": {"steps": [{"name": "s", "uses": "x", "args": ["1"]}]}}} | may not set args, env or artifacts
        W6 | {"jobs": {"a": {"needs": ["a"]}}} | needs must name other jobs
        W6 | {"jobs": {"a": {"needs": ["b"]}}} | needs must name other jobs
        W7 | {"jobs": {"-a": {"uses": "w"}}} | a job name must have
        jobs | {"jobs": {"a": null}} | spec.jobs:
        jobs | {"jobs": null} | spec.jobs: Required value
        steps | {"jobs": {"a": {"steps": []}}} | spec.jobs
        path | {"jobs": {"a": {"steps": [{"name": "s", "run": "x", "artifacts": [{"from": "f", "path": "/x"}]}]}}} | path:
        name | {"jobs": {"a": {"steps": [{"name": "a b", "run": "x"}]}}} | name:
    "#;
    for kind in ["WorkflowRun", "Workflow"] {
        refuses(kind, &base, table);
        let long = json!({ "jobs": { "x".repeat(64): { "uses": "w" } } });
        assert!(created(kind, &with(&base, &long))[0].contains("a job name must have"));
    }
    refuses(
        "Workflow",
        &base,
        r#"type | {"inputs": {"a": {"type": "int"}}} | type:"#,
    );
}

#[test]
fn a1_actions_hold_run_steps_only() {
    let base = json!({ "steps": [{ "name": "s", "run": "true" }] });
    let table = r#"
        A1 | {"steps": [{"name": "s", "uses": "x"}]} | must set run and neither
        steps | {"steps": []} | spec.steps:
        value | {"outputs": {"a": {"value": ""}}} | value:
        default | {"inputs": {"a": {"default": "@8193"}}} | default:
    "#;
    refuses("Action", &base, table);
}

#[test]
fn r15_and_conditions_hold_for_status_too() {
    let condition = |reason: &str| {
        json!({
            "type": "Ready", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let judge = |status: Value| {
        let mut object = object("Run", &task());
        object["status"] = status;
        judged(schema("Run"), object, None)
    };
    assert_eq!(
        judge(json!({})),
        Vec::<String>::new(),
        "phase has a default"
    );
    let one = json!({ "conditions": [condition("A")] });
    assert_eq!(judge(one), Vec::<String>::new());
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
        let said = errors.iter().any(|error| error.contains(want));
        assert!(said, "{status}: {errors:?}");
    }
}
