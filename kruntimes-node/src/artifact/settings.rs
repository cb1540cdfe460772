//! Artifact settings as flags give them (N-19).

use std::path::PathBuf;
use std::sync::Arc;

use kruntimes_core::api::S3Store as S3Settings;

use super::{
    ARTIFACT_MAX_BYTES, ARTIFACTS_MAX_BYTES, Artifacts, FilesystemStore, S3Store, SettingsError,
    Store,
};

/// What the command line says about artifacts; every field is named like its flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactSettings {
    /// `filesystem`, `s3`, or empty for no store.
    pub driver: String,
    /// Directory of a filesystem store.
    pub root: PathBuf,
    /// Claim of the volume that directory is on.
    pub volume_claim: String,
    /// Settings of an S3 store.
    pub s3: S3Settings,
    /// Limit of one artifact.
    pub max_artifact_bytes: i64,
    /// Limit of all artifacts of a Run.
    pub max_artifacts_bytes: i64,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        Self {
            driver: String::new(),
            root: PathBuf::new(),
            volume_claim: String::new(),
            s3: S3Settings::default(),
            max_artifact_bytes: bytes(ARTIFACT_MAX_BYTES),
            max_artifacts_bytes: bytes(ARTIFACTS_MAX_BYTES),
        }
    }
}

impl ArtifactSettings {
    /// Makes what they describe, for a Pod of this Runtime; nothing without a driver. An S3 store works on
    /// the tokio runtime it is made on.
    ///
    /// # Errors
    ///
    /// Returns the first setting that cannot work, by the name of its flag.
    pub fn open(&self, runtime: &str) -> Result<Option<Artifacts>, SettingsError> {
        let limit = |flag, bytes: i64| {
            let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
            bytes.ok_or(SettingsError::Limit(flag))
        };
        let one_max_bytes = limit("--max-artifact-bytes", self.max_artifact_bytes)?;
        let all_max_bytes = limit("--max-artifacts-bytes", self.max_artifacts_bytes)?;
        match self.driver.as_str() {
            "" => return Ok(None),
            "filesystem" | "s3" => {}
            _ => return Err(SettingsError::Driver),
        }
        if runtime.is_empty() {
            return Err(SettingsError::Runtime);
        }
        let store: Arc<dyn Store> = if self.driver == "s3" {
            Arc::new(S3Store::new(self.s3.clone())?)
        } else {
            Arc::new(FilesystemStore::new(&self.root, &self.volume_claim)?)
        };
        Ok(Some(Artifacts {
            store,
            one_max_bytes,
            all_max_bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut ArtifactSettings);

    #[test]
    fn n_19_settings_that_cannot_work_are_named() {
        let good = || ArtifactSettings {
            driver: "filesystem".into(),
            root: "/store".into(),
            volume_claim: "claim".into(),
            ..ArtifactSettings::default()
        };
        assert!(ArtifactSettings::default().open("").unwrap().is_none());
        assert!(good().open("bash").unwrap().is_some());
        assert_eq!(good().open("").unwrap_err(), SettingsError::Runtime);
        let cases: [(Change, &str); 6] = [
            (|s| s.driver = "nfs".into(), "--artifact-store-driver "),
            (|s| s.root = "".into(), "--artifact-store-root "),
            (|s| s.root = "store".into(), "--artifact-store-root "),
            (
                |s| s.volume_claim = String::new(),
                "--artifact-volume-claim ",
            ),
            (|s| s.max_artifact_bytes = 0, "--max-artifact-bytes "),
            (|s| s.max_artifacts_bytes = -1, "--max-artifacts-bytes "),
        ];
        for (change, want) in cases {
            let mut settings = good();
            change(&mut settings);
            let error = settings.open("bash").unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
