//! Names derived from other names (API reference, section 12).

use sha2::{Digest, Sha256};

use crate::api::{ArtifactDriver, ArtifactStore};
use crate::limits::NAME_MAX;

/// Returns the first `digits` hex digits of the SHA-256 of `text`.
///
/// # Panics
///
/// Panics when `digits` exceeds 64: a SHA-256 has no more.
pub fn hash(text: &str, digits: usize) -> String {
    assert!(digits <= 64, "a SHA-256 has 64 hex digits");
    let mut hex = String::with_capacity(digits);
    write_hash(&mut hex, &[text], digits);
    hex
}

/// Appends the first `digits` hex digits of the SHA-256 of joined `parts`.
fn write_hash(to: &mut String, parts: &[&str], digits: usize) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part.as_bytes());
    }
    let digest = sha.finalize();
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    to.extend(
        nibbles
            .take(digits)
            .map(|nibble| DIGITS[usize::from(nibble)]),
    );
}

/// Returns the ten-digit hash used in names.
pub fn hex10(text: &str) -> String {
    hash(text, HASH_DIGITS)
}

/// Cuts `prefix` to `max` bytes and drops trailing `-` and `.` when it was cut.
pub fn trim(prefix: &str, max: usize) -> &str {
    if prefix.len() <= max {
        return prefix;
    }
    prefix[..prefix.floor_char_boundary(max)].trim_end_matches(['-', '.'])
}

/// Digits of the hashes in names.
const HASH_DIGITS: usize = 10;

/// Joins a prefix that may be long with a kind and a hash, which must stay whole (W-42).
fn joined(prefix: &str, kind: &str, hashed: &[&str]) -> String {
    let suffix = kind.len() + HASH_DIGITS;
    let kept = trim(prefix, NAME_MAX - 1 - suffix);
    let mut name = String::with_capacity(kept.len() + 1 + suffix);
    if !kept.is_empty() {
        name.push_str(kept);
        name.push('-');
    }
    name.push_str(kind);
    write_hash(&mut name, hashed, HASH_DIGITS);
    name
}

/// Names the child Run of a step; `action_step` is empty for inline steps (W-41).
pub fn child_run(workflow_run: &str, job: &str, step: &str, action_step: &str) -> String {
    joined(workflow_run, "", &[job, "/", step, "/", action_step])
}

/// Names the child WorkflowRun of a call job (W-41).
pub fn child_workflow_run(workflow_run: &str, job: &str) -> String {
    joined(workflow_run, "", &[job])
}

/// Names the workspace of a job (W-41).
pub fn job_workspace(workflow_run: &str, job: &str) -> String {
    joined(workflow_run, "workspace-", &[job])
}

/// Names the snapshot of a WorkflowRun (W-41).
pub fn snapshot(workflow_run: &str, uid: &str) -> String {
    joined(workflow_run, "snapshot-", &[uid])
}

/// Names the Deployment, Service and NetworkPolicy of a Runtime.
pub fn runtime_objects(runtime: &str) -> String {
    format!("runtime-{runtime}")
}

/// Names the RoleBinding of the daemon for a ServiceAccount.
pub fn daemon_role_binding(service_account: &str) -> String {
    let full = format!("kruntimes-runtimed-{service_account}");
    if full.len() <= 63 {
        return full;
    }
    format!("{}-{}", trim(&full, 52), hex10(service_account))
}

/// Names the store that settings lead to: equal settings have equal names, however they are written (N-171).
pub fn artifact_store(store: &ArtifactStore) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let mut parts = vec![match store.driver {
        ArtifactDriver::Filesystem => r#""driver":"filesystem""#.to_owned(),
        ArtifactDriver::S3 => r#""driver":"s3""#.to_owned(),
    }];
    if let Some(volume) = &store.filesystem {
        let claim = text(&volume.volume_claim_name);
        parts.push(format!(r#""filesystem":{{"volumeClaimName":{claim}}}"#));
    }
    if let Some(s3) = &store.s3 {
        let given = |key: &str, value: Option<&String>| {
            let value = value.filter(|value| !value.is_empty())?;
            Some(format!(r#""{key}":{}"#, text(value)))
        };
        let number = |key: &str, value: Option<i64>| {
            let value = value.filter(|value| *value != 0)?;
            Some(format!(r#""{key}":{value}"#))
        };
        let path_style = s3.force_path_style == Some(true);
        let members = [
            Some(format!(r#""bucket":{}"#, text(&s3.bucket))),
            given("prefix", s3.prefix.as_ref()),
            given("region", s3.region.as_ref()),
            given("endpoint", s3.endpoint.as_ref()),
            path_style.then(|| r#""forcePathStyle":true"#.to_owned()),
            given("credentialsSecretName", s3.credentials_secret_name.as_ref()),
            number("uploadPartSize", s3.upload_part_size),
            number("uploadConcurrency", s3.upload_concurrency.map(i64::from)),
        ];
        let members: Vec<String> = members.into_iter().flatten().collect();
        parts.push(format!(r#""s3":{{{}}}"#, members.join(",")));
    }
    let json = format!("{{{}}}", parts.join(","));
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e");
    hash(&json.replace('&', "\\u0026"), 16)
}

/// Names the Deployment that cleans up the store of this [`artifact_store`] name.
pub fn maintainer(store: &str) -> String {
    format!("runtime-maintainer-{store}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_171_stores_have_the_check_values_however_they_are_written() {
        let read = |text: &str| artifact_store(&serde_json::from_str(text).unwrap());
        for (text, want) in [
            (
                r#"{"driver":"filesystem","filesystem":{"volumeClaimName":"artifacts"}}"#,
                "8ec520a69bdef1d2",
            ),
            (
                r#"{"driver":"s3","s3":{"bucket":"builds","prefix":"team-a","region":"us-east-1"}}"#,
                "9051bf6dbafddae5",
            ),
            (
                r#"{"s3":{"region":"us-east-1","prefix":"team-a","bucket":"builds","endpoint":"",
                    "forcePathStyle":false,"uploadPartSize":0},"driver":"s3"}"#,
                "9051bf6dbafddae5",
            ),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
        assert_eq!(maintainer("8ec5"), "runtime-maintainer-8ec5");
        let with = |prefix: &str| {
            let mut store: ArtifactStore =
                serde_json::from_str(r#"{"driver":"s3","s3":{"bucket":"b"}}"#).unwrap();
            store.s3.as_mut().unwrap().prefix = Some(prefix.to_owned());
            artifact_store(&store)
        };
        let plain = r#"{"driver":"s3","s3":{"bucket":"b","prefix":"\u003c\u0026\u003e"}}"#;
        assert_eq!(with("<&>"), hash(plain, 16), "as JSON for pages is written");
    }

    #[test]
    fn w_41_w_43_names_match_the_check_values() {
        assert_eq!(hex10("build/compile/"), "4ffdf7aa5c");
        assert_eq!(hex10("build/setup/install"), "0821882680");
        assert_eq!(hex10("deploy"), "b7bd55c11b");
        assert_eq!(hex10("build"), "44575cf5b2");
        assert_eq!(hex10("release-uid"), "4d2047d78f");
        assert_eq!(
            child_run("release-demo", "build", "package", ""),
            "release-demo-55eba473cc"
        );
        assert_eq!(
            child_run("release-demo", "build", "setup", "install"),
            "release-demo-0821882680"
        );
        assert_eq!(
            child_workflow_run("release-demo", "deploy"),
            "release-demo-b7bd55c11b"
        );
        assert_eq!(
            snapshot("release-demo", "7d9f6c1e-5b8a-4a53-9a51-0f6f6f0c2b11"),
            "release-demo-snapshot-4d3c70c62a"
        );
        assert_eq!(
            job_workspace("release-demo", "build"),
            "release-demo-workspace-44575cf5b2"
        );
    }

    #[test]
    fn w_42_every_name_fits() {
        let long = format!("{}.-{}", "a".repeat(240), "b".repeat(60));
        for name in [
            child_run(&long, "j", "s", ""),
            child_workflow_run(&long, "j"),
            job_workspace(&long, "j"),
            snapshot(&long, "u"),
        ] {
            assert!(name.len() <= NAME_MAX, "{name}");
            assert!(!name.contains(".-"), "{name}");
        }
        assert_eq!(
            child_run(&"-".repeat(300), "build", "compile", ""),
            "4ffdf7aa5c"
        );
    }

    #[test]
    fn the_role_binding_name_fits_a_label() {
        let long = "s".repeat(80);
        assert_eq!(daemon_role_binding("sa"), "kruntimes-runtimed-sa");
        assert!(daemon_role_binding(&long).len() <= 63);
    }
}
