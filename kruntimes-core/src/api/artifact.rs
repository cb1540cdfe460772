//! Artifact references and stores (API reference, sections 3.6 and 4.2).

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A stored artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::reference)
)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRef {
    /// Name of the artifact, 1 to 255 characters.
    pub name: String,
    /// Which kind of store holds it.
    pub driver: ArtifactDriver,
    /// What the bytes are.
    #[serde(rename = "type")]
    pub artifact_type: ArtifactType,
    /// Where the bytes are; the member named by `driver`.
    pub location: ArtifactLocation,
    /// Size of the stored bytes.
    pub size_bytes: i64,
    /// When it was stored.
    pub created_at: Time,
    /// `sha256:` and 64 hex digits of the stored bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Which kind of store holds an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ArtifactDriver {
    /// A directory of a volume.
    Filesystem,
    /// An S3 bucket.
    S3,
}

/// What the bytes of an artifact are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ArtifactType {
    /// One regular file.
    File,
    /// A directory as gzip tar.
    Directory,
    /// An archive made by the user.
    Archive,
    /// Uninterpreted bytes.
    Blob,
}

/// Where the bytes of an artifact are. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::location)
)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactLocation {
    /// Place in a filesystem store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemLocation>,
    /// Place in an S3 store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Location>,
}

/// Place in a filesystem store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::filesystem_location)
)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemLocation {
    /// Path relative to the root of the store.
    pub path: String,
    /// Claim of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_name: Option<String>,
}

/// Place in an S3 store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::s3_location)
)]
#[serde(rename_all = "camelCase")]
pub struct S3Location {
    /// Bucket name.
    pub bucket: String,
    /// Object key.
    pub key: String,
}

/// Durable artifact storage of a Runtime. The member named by `driver` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::store)
)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactStore {
    /// Kind of store.
    pub driver: ArtifactDriver,
    /// Settings of a filesystem store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemStore>,
    /// Settings of an S3 store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Store>,
}

/// Settings of a filesystem store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::filesystem_store)
)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemStore {
    /// Claim mounted only into the daemon.
    pub volume_claim_name: String,
}

/// Settings of an S3 store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::artifact::s3_store)
)]
#[serde(rename_all = "camelCase")]
pub struct S3Store {
    /// Bucket name, without a slash.
    pub bucket: String,
    /// Key prefix; surrounding blanks and slashes are trimmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Region name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Endpoint URL with scheme and host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Path-style addressing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_path_style: Option<bool>,
    /// Secret whose keys become environment of the daemon only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_name: Option<String>,
    /// Multipart part size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_part_size: Option<i64>,
    /// Parallel parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_concurrency: Option<i32>,
}
