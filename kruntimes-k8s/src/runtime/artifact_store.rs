//! What a container needs to reach an artifact store: flags, credentials, volume (node, N-242 and section 12).

use k8s_openapi::api::core::v1::{
    EnvFromSource, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, SecretEnvSource,
    Volume, VolumeMount,
};
use kruntimes_core::api::{ArtifactStore, S3Store};

/// Name of the volume of a filesystem store; reserved.
pub(super) const VOLUME: &str = "artifact-store";
/// Where it is mounted.
pub(crate) const ROOT: &str = "/var/lib/kruntimes/artifacts";
/// Group that owns the files of a store, so that daemon and maintainer may both write.
const GROUP: i64 = 65532;

/// Writes a setting as a flag, unless it is left open.
fn flag(name: &str, value: Option<String>) -> Option<String> {
    let value = value.filter(|value| !value.is_empty() && value != "0" && value != "false");
    value.map(|value| format!("{name}={value}"))
}

/// Flags that say where a bucket is; `stem` is what their names begin with.
pub(crate) fn place_args(stem: &str, s3: &S3Store) -> Vec<String> {
    let path_style = s3.force_path_style.unwrap_or_default();
    [
        flag(&format!("{stem}-bucket"), Some(s3.bucket.clone())),
        flag(&format!("{stem}-prefix"), s3.prefix.clone()),
        flag(&format!("{stem}-region"), s3.region.clone()),
        flag(&format!("{stem}-endpoint"), s3.endpoint.clone()),
        path_style.then(|| format!("{stem}-force-path-style")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Flags of the daemon.
pub(super) fn daemon_args(store: &ArtifactStore) -> Vec<String> {
    if let Some(volume) = &store.filesystem {
        return vec![
            "--artifact-store-driver=filesystem".to_owned(),
            format!("--artifact-store-root={ROOT}"),
            format!("--artifact-volume-claim={}", volume.volume_claim_name),
        ];
    }
    let Some(s3) = &store.s3 else {
        return Vec::new();
    };
    let mut args = vec!["--artifact-store-driver=s3".to_owned()];
    args.extend(place_args("--artifact-s3", s3));
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    args.extend(
        [
            flag(
                "--artifact-s3-credentials-secret-name",
                s3.credentials_secret_name.clone(),
            ),
            flag(
                "--artifact-s3-upload-part-size",
                number(s3.upload_part_size),
            ),
            flag(
                "--artifact-s3-upload-concurrency",
                number(s3.upload_concurrency.map(i64::from)),
            ),
        ]
        .into_iter()
        .flatten(),
    );
    args
}

/// Puts the keys of the named Secret into the environment of one container (N-242).
pub(crate) fn credentials(store: &ArtifactStore) -> Option<Vec<EnvFromSource>> {
    let name = store.s3.as_ref()?.credentials_secret_name.clone()?;
    Some(vec![EnvFromSource {
        secret_ref: Some(SecretEnvSource {
            name,
            ..SecretEnvSource::default()
        }),
        ..EnvFromSource::default()
    }])
}

/// The volume of a filesystem store.
pub(crate) fn volume(store: &ArtifactStore) -> Option<Volume> {
    let claim = &store.filesystem.as_ref()?.volume_claim_name;
    Some(Volume {
        name: VOLUME.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.clone(),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    })
}

/// Mounts that volume.
pub(crate) fn mount(store: &ArtifactStore) -> Option<VolumeMount> {
    store.filesystem.as_ref()?;
    Some(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: ROOT.to_owned(),
        ..VolumeMount::default()
    })
}

/// Gives the volume of a filesystem store to the group of the daemon, unless the template names a group.
pub(crate) fn secure(pod: &mut PodSpec, store: &ArtifactStore) {
    if store.filesystem.is_none() {
        return;
    }
    let context = pod.security_context.get_or_insert_default();
    if context.fs_group.is_none() {
        *context = PodSecurityContext {
            fs_group: Some(GROUP),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..std::mem::take(context)
        };
    }
}
