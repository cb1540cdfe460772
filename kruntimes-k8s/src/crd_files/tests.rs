//! The definitions, judged the way an API server judges them: compiled, then applied to objects.

use std::fmt::Write as _;
use std::sync::LazyLock;

use kruntimes_apiserver::schema::KindSchema;
use serde_json::json;

use super::*;

mod refused;
mod updates;

/// The compiled definition of `kind`. Compiling checks structure, patterns, rules and defaults.
fn schema(kind: &str) -> &'static KindSchema {
    static ALL: LazyLock<BTreeMap<String, KindSchema>> = LazyLock::new(|| {
        let compiled = crd::all().into_iter().map(|crd| {
            let kind = crd.spec.names.kind.clone();
            let schema = KindSchema::compile(&crd, "v1alpha1");
            let schema = schema.unwrap_or_else(|error| panic!("{kind}: {error}"));
            (kind, schema)
        });
        compiled.collect()
    });
    &ALL[kind]
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": "a", "namespace": "b" },
        "spec": spec,
    })
}

/// What is said about `object`, after pruning and defaults as on a server.
fn judged(schema: &KindSchema, mut object: Value, old: Option<Value>) -> Vec<String> {
    let prepare = |object: &mut Value| {
        schema.prune(object);
        schema.default(object);
    };
    prepare(&mut object);
    let old = old.map(|mut old| {
        prepare(&mut old);
        old
    });
    schema
        .validate(&object, old.as_ref())
        .into_iter()
        .map(|error| format!("{}: {}", error.field, error.message))
        .collect()
}

fn created(kind: &str, spec: &Value) -> Vec<String> {
    judged(schema(kind), object(kind, spec), None)
}

fn updated(kind: &str, old: &Value, new: &Value) -> Vec<String> {
    judged(schema(kind), object(kind, new), Some(object(kind, old)))
}

/// Merges `more` into a copy of `base`; null removes.
fn with(base: &Value, more: &Value) -> Value {
    let (Value::Object(base), Value::Object(more)) = (base, more) else {
        return more.clone();
    };
    let mut merged = base.clone();
    for (key, value) in more {
        if value.is_null() {
            merged.remove(key);
        } else {
            let old = merged.remove(key).unwrap_or(Value::Null);
            merged.insert(key.clone(), with(&old, value));
        }
    }
    Value::Object(merged)
}

#[test]
fn every_definition_compiles_and_has_its_own_file() {
    for kind in crd::KINDS {
        schema(kind);
    }
    let names: Vec<String> = rendered().unwrap().into_keys().collect();
    assert_eq!(
        names,
        [
            "actions.yaml",
            "persistentworkspaces.yaml",
            "runs.yaml",
            "runtimes.yaml",
            "workflowruns.yaml",
            "workflows.yaml"
        ]
    );
}

#[test]
fn the_files_read_back_as_the_definitions() {
    let files = rendered().unwrap();
    for definition in crd::all() {
        let text = &files[&format!("{}.yaml", definition.spec.names.plural)];
        let read: Value = serde_saphyr::from_str(text).unwrap();
        let mut want = serde_json::to_value(&definition).unwrap();
        whole_numbers(&mut want);
        assert_eq!(read, want, "{}", definition.spec.names.kind);
    }
}

#[test]
fn names_scope_and_subresources_are_those_of_the_reference() {
    for (definition, short) in crd::all().iter().zip([
        Some("rn"),
        Some("rt"),
        Some("wf"),
        Some("wfr"),
        None,
        Some("pw"),
    ]) {
        let names = &definition.spec.names;
        let short: Vec<String> = short.into_iter().map(str::to_owned).collect();
        assert_eq!(names.short_names.clone().unwrap_or_default(), short);
        assert_eq!(names.singular, Some(names.kind.to_lowercase()));
        assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
        assert!(names.categories.clone().unwrap_or_default().is_empty());
        assert_eq!(definition.spec.scope, "Namespaced");
        assert_eq!(
            definition.metadata.name.as_deref(),
            Some(format!("{}.kruntimes.io", names.plural).as_str())
        );
        let [version] = definition.spec.versions.as_slice() else {
            panic!("one version");
        };
        assert!(version.served && version.storage);
        let subresources = version.subresources.as_ref().unwrap();
        assert!(subresources.status.is_some() && subresources.scale.is_none());
    }
}

#[test]
fn printer_columns_are_those_of_the_reference() {
    let mut lines = String::new();
    for definition in crd::all() {
        lines.push_str(&definition.spec.names.kind);
        for column in definition.spec.versions[0]
            .additional_printer_columns
            .as_deref()
            .unwrap_or_default()
        {
            assert_eq!(column.priority.unwrap_or_default(), 0);
            let path = column.json_path.trim_start_matches('.');
            write!(lines, "; {} ({}) = {path}", column.name, column.type_).unwrap();
        }
        lines.push('\n');
    }
    insta::assert_snapshot!(lines, @r"
    Run; Phase (string) = status.phase; Assigned Pod (string) = status.assignedPod; Runtime (string) = spec.runtime; Age (date) = metadata.creationTimestamp
    Runtime; Image (string) = spec.template.spec.containers[0].image; Replicas (integer) = spec.replicas; Ready (integer) = status.readyReplicas; Age (date) = metadata.creationTimestamp
    Workflow; Ready (string) = status.conditions[?(@.type=='Ready')].status; Age (date) = metadata.creationTimestamp
    WorkflowRun; Phase (string) = status.phase; Age (date) = metadata.creationTimestamp
    Action; Ready (string) = status.conditions[?(@.type=='Ready')].status; Age (date) = metadata.creationTimestamp
    PersistentWorkspace; Phase (string) = status.phase; Runtime (string) = spec.runtime; Bound Pod (string) = status.boundPod; Age (date) = metadata.creationTimestamp
    ");
}

/// No `null`, no unsigned format, no rule about the past inside a list.
#[test]
fn case_140_schemas_hold_nothing_that_surprises_a_server() {
    fn walk(schema: &Value, path: &str, in_list: bool) {
        assert!(schema.get("nullable").is_none(), "{path} is nullable");
        let values = schema["enum"].as_array().cloned().unwrap_or_default();
        assert!(!values.contains(&Value::Null), "{path} may be null");
        let format = schema["format"].as_str().unwrap_or_default();
        assert!(
            ["", "int32", "int64", "date-time", "byte"].contains(&format),
            "{path}: {format}"
        );
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = rule["rule"].as_str().unwrap();
            assert!(!(in_list && text.contains("oldSelf")), "{path}: {text}");
            assert!(rule["message"].is_string(), "{path}: {text}");
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(property, &format!("{path}.{name}"), in_list);
        }
        walk_into(schema, "additionalProperties", path, in_list);
        walk_into(schema, "items", path, true);
    }

    fn walk_into(schema: &Value, member: &str, path: &str, in_list: bool) {
        if let Some(inner) = schema.get(member).filter(|inner| inner.is_object()) {
            walk(inner, &format!("{path}.{member}"), in_list);
        }
    }

    for definition in crd::all() {
        let document = serde_json::to_value(&definition).unwrap();
        walk(
            &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            &definition.spec.names.kind,
            false,
        );
    }
}

#[test]
fn examples_of_the_reference_are_accepted_and_read() {
    let examples = include_str!("tests/examples.yaml");
    let mut seen = Vec::new();
    for text in examples.split("---\n") {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        let schema = schema(&kind);
        assert_eq!(schema.prune(&mut object), Vec::<String>::new(), "{text}");
        assert_eq!(
            judged(schema, object.clone(), None),
            Vec::<String>::new(),
            "{text}"
        );
        schema.default(&mut object);
        match kind.as_str() {
            "Run" => drop(serde_json::from_value::<crd::Run>(object).unwrap()),
            "Runtime" => drop(serde_json::from_value::<crd::Runtime>(object).unwrap()),
            "Workflow" => drop(serde_json::from_value::<crd::Workflow>(object).unwrap()),
            "WorkflowRun" => drop(serde_json::from_value::<crd::WorkflowRun>(object).unwrap()),
            "Action" => drop(serde_json::from_value::<crd::Action>(object).unwrap()),
            _ => drop(serde_json::from_value::<crd::PersistentWorkspace>(object).unwrap()),
        }
        seen.push(kind);
    }
    assert_eq!(seen.len(), 13);
    assert!(crd::KINDS.iter().all(|kind| seen.iter().any(|s| s == kind)));
}

#[test]
fn defaults_are_those_of_the_reference() {
    let filled = |kind: &str, spec: Value| {
        let mut object = object(kind, &spec);
        schema(kind).default(&mut object);
        object["spec"].clone()
    };
    assert_eq!(
        filled(
            "Run",
            json!({ "runtime": "r", "mode": { "task": {} }, "retryPolicy": {}, "workspace": { "name": "w" } })
        ),
        json!({
            "runtime": "r",
            "mode": { "task": {} },
            "cancelRequested": false,
            "retryPolicy": { "maxAttempts": 1, "backoff": "1s" },
            "workspace": { "name": "w", "kind": "PersistentWorkspace", "apiGroup": "kruntimes.io/v1alpha1" },
        })
    );
    assert_eq!(
        filled("PersistentWorkspace", json!({ "runtime": "r" })),
        json!({ "runtime": "r", "mode": "RuntimePodLocal", "cleanupPolicy": "DeleteAfterTTL" })
    );
    let runtime = filled("Runtime", json!({ "template": {} }));
    assert_eq!(runtime["port"], 9091);
    assert_eq!(runtime["replicas"], 1);
    let action = filled("Action", json!({ "inputs": { "a": {} }, "steps": [] }));
    assert_eq!(action["inputs"]["a"], json!({ "type": "string" }));
}

#[test]
fn what_the_builders_build_is_accepted() {
    use kruntimes_core::testing::{a_call, a_job, a_run, a_step, a_workflow_run};

    for run in [
        a_run(),
        a_run().serving("main.handle").requesting("gpu", "2"),
        a_run().in_session().draining().lasting("90s"),
        a_run()
            .near("a", "b")
            .away_from("c", "d")
            .trying(3)
            .in_workspace("w"),
        a_run().with_env("A", "1").kept_for(5).cancelled(),
    ] {
        let spec = serde_json::to_value(run.build()).unwrap();
        assert_eq!(created("Run", &spec), Vec::<String>::new(), "{spec}");
    }
    let run = a_workflow_run()
        .with("a", a_job().yielding("x", "${{ steps.main.outputs.x }}"))
        .with("b", a_call("w").given("i", "1").after("a"))
        .with(
            "c",
            a_job().with(a_step("s").calling("act").given("i", "1")),
        )
        .with(
            "d",
            a_job()
                .after("a")
                .with(a_step("s").staging("jobs.a.artifacts.x", "x")),
        );
    let spec = serde_json::to_value(run.build()).unwrap();
    assert_eq!(
        created("WorkflowRun", &spec),
        Vec::<String>::new(),
        "{spec}"
    );
}

/// Note 18, and T1 to T7 look at few fields: everything else survives.
#[test]
fn any_pod_template_survives() {
    let spec = json!({
        "template": {
            "metadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } },
            "spec": {
                "containers": [{
                    "name": "runtime",
                    "image": "i",
                    "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
                    "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                }],
                "volumes": [{ "name": "v", "csi": { "driver": "d" } }],
                "nodeSelector": { "a/b": "c" },
                "somethingNew": { "deep": [1, { "er": true }] },
            },
        },
        "workspace": { "ephemeral": { "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"] } } } },
    });
    let mut pruned = object("Runtime", &spec);
    assert_eq!(schema("Runtime").prune(&mut pruned), Vec::<String>::new());
    assert_eq!(created("Runtime", &spec), Vec::<String>::new());
}
