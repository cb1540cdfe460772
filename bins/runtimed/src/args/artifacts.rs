//! Flags of the artifact store.

use std::path::PathBuf;

use clap::Args;
use kruntimes_core::api::S3Store;
use kruntimes_node::ArtifactSettings;

/// Where artifacts are kept, and how large they may be.
#[derive(Debug, Args)]
#[command(next_help_heading = "Artifacts")]
pub(super) struct ArtifactArgs {
    /// Kind of store: filesystem or s3; empty for none
    #[arg(long, default_value = "", value_name = "DRIVER")]
    artifact_store_driver: String,

    /// Directory of a filesystem store
    #[arg(long, value_name = "PATH")]
    artifact_store_root: Option<PathBuf>,

    /// Claim of the volume that directory is on
    #[arg(long, default_value = "", value_name = "NAME")]
    artifact_volume_claim: String,

    /// Bucket of an S3 store
    #[arg(long, default_value = "", value_name = "NAME")]
    artifact_s3_bucket: String,

    /// What keys begin with
    #[arg(long, default_value = "", value_name = "PREFIX")]
    artifact_s3_prefix: String,

    /// Region of the bucket
    #[arg(long, default_value = "", value_name = "NAME")]
    artifact_s3_region: String,

    /// Address of something else than AWS that speaks S3
    #[arg(long, default_value = "", value_name = "URL")]
    artifact_s3_endpoint: String,

    /// Name the bucket in the path instead of in the host
    #[arg(long)]
    artifact_s3_force_path_style: bool,

    /// Secret the keys come from, for the record; its content is in the environment
    #[arg(long, default_value = "", value_name = "NAME")]
    artifact_s3_credentials_secret_name: String,

    /// Bytes of one part of a large object, at least 5242880; 0 chooses
    #[arg(
        long,
        default_value_t = 0,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    artifact_s3_upload_part_size: i64,

    /// Parts sent at once; 0 chooses
    #[arg(
        long,
        default_value_t = 0,
        value_name = "COUNT",
        allow_negative_numbers = true
    )]
    artifact_s3_upload_concurrency: i32,

    /// Stored bytes of one artifact
    #[arg(
        long,
        default_value_t = 1_073_741_824,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    max_artifact_bytes: i64,

    /// Stored bytes of all artifacts of a Run
    #[arg(
        long,
        default_value_t = 10_737_418_240,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    max_artifacts_bytes: i64,
}

impl ArtifactArgs {
    pub(super) fn settings(&self) -> ArtifactSettings {
        ArtifactSettings {
            driver: self.artifact_store_driver.clone(),
            root: self.artifact_store_root.clone().unwrap_or_default(),
            volume_claim: self.artifact_volume_claim.clone(),
            s3: self.s3(),
            max_artifact_bytes: self.max_artifact_bytes,
            max_artifacts_bytes: self.max_artifacts_bytes,
        }
    }

    /// Writes what is not set as absent, so that equal stores have equal settings (N-171).
    fn s3(&self) -> S3Store {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        S3Store {
            bucket: self.artifact_s3_bucket.clone(),
            prefix: text(&self.artifact_s3_prefix),
            region: text(&self.artifact_s3_region),
            endpoint: text(&self.artifact_s3_endpoint),
            force_path_style: self.artifact_s3_force_path_style.then_some(true),
            credentials_secret_name: text(&self.artifact_s3_credentials_secret_name),
            upload_part_size: Some(self.artifact_s3_upload_part_size).filter(|size| *size != 0),
            upload_concurrency: Some(self.artifact_s3_upload_concurrency).filter(|n| *n != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::Args;

    #[tokio::test]
    async fn n_141_n_158_flags_of_s3_become_the_settings_that_runs_carry() {
        let args = |more: &str| {
            let line = "runtimed --runtime-name bash --artifact-store-driver s3 \
                        --artifact-s3-bucket builds";
            Args::parse_from(format!("{line} {more}").split_whitespace())
        };
        let settings = |more: &str| {
            let artifacts = args(more).artifacts().unwrap().unwrap();
            serde_json::to_value(artifacts.store.settings()).unwrap()
        };
        let bare = serde_json::json!({"driver": "s3", "s3": {"bucket": "builds"}});
        assert_eq!(settings(""), bare);
        assert_eq!(settings("--artifact-s3-upload-part-size 0"), bare);
        let full = settings(
            "--artifact-s3-prefix team --artifact-s3-region eu --artifact-s3-force-path-style \
             --artifact-s3-endpoint http://s3:9000 --artifact-s3-credentials-secret-name keys \
             --artifact-s3-upload-part-size 5242880 --artifact-s3-upload-concurrency 3",
        );
        assert_eq!(
            full,
            serde_json::json!({"driver": "s3", "s3": {
                "bucket": "builds", "prefix": "team", "region": "eu", "endpoint": "http://s3:9000",
                "forcePathStyle": true, "credentialsSecretName": "keys",
                "uploadPartSize": 5_242_880, "uploadConcurrency": 3,
            }})
        );
        for (more, flag) in [
            ("--artifact-s3-upload-concurrency -1", "upload-concurrency"),
            ("--artifact-s3-upload-part-size 1", "upload-part-size"),
            ("--artifact-s3-endpoint s3", "endpoint"),
        ] {
            let error = args(more).artifacts().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--artifact-s3-{flag} ")),
                "{error}"
            );
        }
    }
}
