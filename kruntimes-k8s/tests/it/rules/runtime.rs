//! Rules T1 to T7 of Runtime.

use serde_json::{Value, json};

use super::{Cluster, Refused, changed, parsed};

const POOL: &str =
    r#"{"template": {"spec": {"containers": [{"name": "runtime", "image": "bash:1"}]}}}"#;

const CONTAINERS: &str = "spec.template.spec.containers";

pub(crate) async fn t1_t2_the_first_container_is_the_runtime(cluster: &Cluster) {
    let refused: &[Refused] = &[
        (r#"{"template": null}"#, "spec.template", "Required value"),
        (
            r#"{"template": {"spec": null}}"#,
            "spec.template.spec",
            "Required value",
        ),
        (
            r#"{"template": {"spec": {"containers": null}}}"#,
            CONTAINERS,
            "Required value",
        ),
        (
            r#"{"template": {"spec": {"containers": []}}}"#,
            CONTAINERS,
            "should have at least 1 items",
        ),
        (
            r#"{"template": {"spec": {"containers": [{"image": "bash:1"}]}}}"#,
            "spec.template.spec.containers[0].name",
            "Required value",
        ),
        (
            r#"{"template": {"spec": {"containers": [{"name": "main", "image": "bash:1"}]}}}"#,
            CONTAINERS,
            "template.spec.containers[0].name must be runtime",
        ),
        (
            r#"{"template": {"spec": {"containers": [
                {"name": "side", "image": "a:1"}, {"name": "runtime", "image": "bash:1"}]}}}"#,
            CONTAINERS,
            "template.spec.containers[0].name must be runtime",
        ),
        (
            r#"{"template": {"spec": {"containers": [{"name": "runtime"}]}}}"#,
            CONTAINERS,
            "template.spec.containers[0].image must have 1 to 2048 characters",
        ),
        (
            r#"{"template": {"spec": {"containers": [{"name": "runtime", "image": ""}]}}}"#,
            CONTAINERS,
            "template.spec.containers[0].image must have 1 to 2048 characters",
        ),
    ];
    cluster.refuses_all("Runtime", POOL, refused).await;
    let image = |length: usize| json!({"template": {"spec": {"containers": [{"name": "runtime", "image": "i".repeat(length)}]}}});
    let says = "template.spec.containers[0].image must have 1 to 2048 characters";
    cluster
        .refuses("Runtime", &image(2049), CONTAINERS, says)
        .await;
    cluster.accepts("Runtime", "long-image", &image(2048)).await;
    let accepted = [
        "{}",
        r#"{"template": {"spec": {"containers": [{"name": "runtime", "image": "i"}, {"name": "side"}]}}}"#,
    ];
    cluster.accepts_all("Runtime", POOL, &accepted).await;
}

pub(crate) async fn t3_t4_t5_the_pod_fits_a_deployment(cluster: &Cluster) {
    let account = "spec.template.spec.serviceAccountName";
    let refused: &[Refused] = &[
        (
            r#"{"template": {"spec": {"restartPolicy": "Never"}}}"#,
            "spec.template.spec.restartPolicy",
            r#"supported values: "Always""#,
        ),
        (
            r#"{"template": {"spec": {"restartPolicy": ""}}}"#,
            "spec.template.spec.restartPolicy",
            r#"supported values: "Always""#,
        ),
        (
            r#"{"template": {"spec": {"ephemeralContainers": [{"name": "debug"}]}}}"#,
            "spec.template.spec.ephemeralContainers",
            "must have at most 0 items",
        ),
        (
            r#"{"template": {"spec": {"serviceAccountName": "A"}}}"#,
            account,
            "should match",
        ),
        (
            r#"{"template": {"spec": {"serviceAccountName": ""}}}"#,
            account,
            "should match",
        ),
        (
            r#"{"template": {"spec": {"serviceAccountName": "a..b"}}}"#,
            account,
            "should match",
        ),
        (
            r#"{"template": {"spec": {"serviceAccountName": "a-"}}}"#,
            account,
            "should match",
        ),
    ];
    cluster.refuses_all("Runtime", POOL, refused).await;
    let accepted = [
        r#"{"template": {"spec": {"restartPolicy": "Always"}}}"#,
        r#"{"template": {"spec": {"ephemeralContainers": []}}}"#,
        r#"{"template": {"spec": {"serviceAccountName": "a.b-c.d0"}}}"#,
    ];
    cluster.accepts_all("Runtime", POOL, &accepted).await;
}

const STORE: &str = "artifactStore must hold exactly the member named by driver";

pub(crate) async fn t6_a_store_has_the_member_of_its_driver(cluster: &Cluster) {
    let field = "spec.artifactStore";
    let refused: &[Refused] = &[
        (
            r#"{"artifactStore": {"driver": "filesystem"}}"#,
            field,
            STORE,
        ),
        (r#"{"artifactStore": {"driver": "s3"}}"#, field, STORE),
        (
            r#"{"artifactStore": {"driver": "filesystem", "s3": {"bucket": "b"}}}"#,
            field,
            STORE,
        ),
        (
            r#"{"artifactStore": {"driver": "s3", "filesystem": {"volumeClaimName": "c"}}}"#,
            field,
            STORE,
        ),
        (
            r#"{"artifactStore": {"driver": "s3", "s3": {"bucket": "b"}, "filesystem": {"volumeClaimName": "c"}}}"#,
            field,
            STORE,
        ),
        (
            r#"{"artifactStore": {"s3": {"bucket": "b"}}}"#,
            "spec.artifactStore.driver",
            "Required value",
        ),
        (
            r#"{"artifactStore": {"driver": "s3", "s3": {}}}"#,
            "spec.artifactStore.s3.bucket",
            "Required value",
        ),
        (
            r#"{"artifactStore": {"driver": "s3", "s3": {"bucket": "a/b"}}}"#,
            "spec.artifactStore.s3.bucket",
            "should match",
        ),
        (
            r#"{"artifactStore": {"driver": "filesystem", "filesystem": {"volumeClaimName": ""}}}"#,
            "spec.artifactStore.filesystem.volumeClaimName",
            "should be at least 1 chars long",
        ),
    ];
    cluster.refuses_all("Runtime", POOL, refused).await;
    let accepted = [
        r#"{"artifactStore": {"driver": "filesystem", "filesystem": {"volumeClaimName": "c"}}}"#,
        r#"{"artifactStore": {"driver": "s3", "s3": {"bucket": "b", "endpoint": "https://s3.example:9000"}}}"#,
    ];
    cluster.accepts_all("Runtime", POOL, &accepted).await;
}

/// Section 4.2: an endpoint must parse as a URL with scheme and host.
pub(crate) async fn an_endpoint_has_scheme_and_host(cluster: &Cluster) {
    for endpoint in ["s3.example", "/path", "https://", "://host"] {
        let spec = changed(POOL, &store(endpoint));
        cluster
            .refuses(
                "Runtime",
                &spec,
                "spec.artifactStore.s3.endpoint",
                "scheme and host",
            )
            .await;
    }
    cluster
        .accepts(
            "Runtime",
            "endpoint",
            &changed(POOL, &store("http://minio.storage.svc:9000")),
        )
        .await;
}

fn store(endpoint: &str) -> String {
    json!({"artifactStore": {"driver": "s3", "s3": {"bucket": "b", "endpoint": endpoint}}})
        .to_string()
}

const SOURCES: [&str; 30] = [
    "hostPath",
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

pub(crate) async fn t7_a_workspace_has_one_volume_source(cluster: &Cluster) {
    for (index, source) in SOURCES.iter().enumerate() {
        let one = workspace(&[source]);
        cluster
            .accepts("Runtime", &format!("source-{index}"), &one)
            .await;
        let other = SOURCES[(index + 1) % SOURCES.len()];
        let two = workspace(&[source, other]);
        cluster
            .refuses(
                "Runtime",
                &two,
                "spec.workspace",
                "workspace may hold at most one volume source",
            )
            .await;
    }
    cluster.accepts("Runtime", "none", &workspace(&[])).await;
}

fn workspace(sources: &[&str]) -> Value {
    let mut spec = parsed(POOL);
    spec["workspace"] = json!({});
    for source in sources {
        spec["workspace"][source] = json!({"anything": ["goes"]});
    }
    spec
}

pub(crate) async fn defaults_are_filled_in_and_the_template_survives(cluster: &Cluster) {
    let change = r#"{"template": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "volumes": [{"name": "v", "emptyDir": {}}]}
    }, "capacity": {"resources": {"runs": "4", "gpu": 1}}}"#;
    let stored = cluster
        .accepts("Runtime", "full", &changed(POOL, change))
        .await;
    assert_eq!(
        (&stored["spec"]["port"], &stored["spec"]["replicas"]),
        (&json!(9091), &json!(1))
    );
    // Every field of a Runtime may change.
    let change = r#"{"port": 9200, "replicas": 3, "template": {"spec": {"containers": [
        {"name": "runtime", "image": "bash:2"}]}}}"#;
    cluster
        .updates("Runtime", "mutable", &parsed(POOL), &parsed(change))
        .await;
}
