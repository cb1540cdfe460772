//! Judging references before they are used (N-150).

use kruntimes_core::api::{ArtifactDriver, ArtifactRef};

use super::StoreError;

/// Tells whether a text may be one component of a path in a store.
pub(super) fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && text.len() <= 255 && !text.contains(['/', '\\', '\0'])
}

/// Checks what holds for references of every store.
pub(super) fn check(reference: &ArtifactRef) -> Result<(), StoreError> {
    let refused = |text: &str| Err(StoreError::Invalid(format!("artifact reference: {text}")));
    if !is_component(&reference.name) {
        return refused("the name is no file name");
    }
    if reference.size_bytes < 0 {
        return refused("the size is negative");
    }
    if let Some(digest) = &reference.digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != 64 || !hex.bytes().all(lower) {
            return refused("the digest is not sha256 and 64 hex digits");
        }
    }
    let location = &reference.location;
    match (reference.driver, &location.filesystem, &location.s3) {
        (ArtifactDriver::Filesystem, Some(place), None) => {
            if place.path.is_empty() || !place.path.split('/').all(is_component) {
                return refused("the path is not relative and clean");
            }
        }
        (ArtifactDriver::S3, None, Some(place)) => {
            if place.bucket.is_empty() || place.key.is_empty() {
                return refused("bucket or key is missing");
            }
        }
        (ArtifactDriver::Filesystem | ArtifactDriver::S3, _, _) => {
            return refused("the location does not match the driver");
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use kruntimes_core::api::{ArtifactLocation, ArtifactType, FilesystemLocation, S3Location};
    use kruntimes_core::time::Time;

    use super::*;

    /// A reference to a file of a filesystem store.
    pub(in crate::artifact) fn reference(path: &str) -> ArtifactRef {
        ArtifactRef {
            name: "a".into(),
            driver: ArtifactDriver::Filesystem,
            artifact_type: ArtifactType::File,
            location: ArtifactLocation {
                filesystem: Some(FilesystemLocation {
                    path: path.into(),
                    volume_claim_name: Some("claim".into()),
                }),
                s3: None,
            },
            size_bytes: 1,
            created_at: Time(jiff::Timestamp::UNIX_EPOCH),
            digest: None,
            content_type: None,
        }
    }

    #[test]
    fn n_149_n_150_references_are_judged_before_use() {
        assert!(check(&reference("namespaces/a/b")).is_ok());
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\\b",
        ] {
            assert!(check(&reference(path)).is_err(), "{path:?}");
        }
        let change = |change: &dyn Fn(&mut ArtifactRef)| {
            let mut changed = reference("a");
            change(&mut changed);
            check(&changed).is_err()
        };
        let s3 = |bucket: &str, key: &str| {
            Some(S3Location {
                bucket: bucket.into(),
                key: key.into(),
            })
        };
        assert!(change(&|r| r.size_bytes = -1));
        assert!(change(&|r| r.name = "a/b".into()));
        assert!(change(&|r| r.digest = Some("sha256:ff".into())));
        assert!(change(&|r| r.driver = ArtifactDriver::S3));
        assert!(change(&|r| r.location.s3 = s3("b", "k")));
        for (bucket, key, fails) in [("b", "k", false), ("", "k", true), ("b", "", true)] {
            let found = change(&|r| {
                r.driver = ArtifactDriver::S3;
                r.location.filesystem = None;
                r.location.s3 = s3(bucket, key);
            });
            assert_eq!(found, fails, "{bucket} {key}");
        }
    }
}
