//! What an S3 store is told, judged and put into effect (N-158).

use std::time::Duration;

use kruntimes_core::api::S3Store as Settings;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use super::SettingsError;

/// Smallest part that S3 takes.
const PART_MIN_BYTES: i64 = 5 << 20;
/// Bytes of one part unless another size is asked for.
const PART_BYTES: usize = 8 << 20;
/// Parts on their way at once unless another number is asked for.
const PARALLEL: usize = 4;
/// How long the bucket may take to be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long it may be silent within an answer.
const SILENT_FOR: Duration = Duration::from_secs(30);
/// How long one request is repeated; what still fails is tried again by whoever asked.
const REPEATED_FOR: Duration = Duration::from_secs(15);

fn refused(setting: &'static str, problem: &'static str) -> SettingsError {
    SettingsError::S3 { setting, problem }
}

/// Finds the first setting that cannot work.
pub(super) fn check(settings: &Settings) -> Result<(), SettingsError> {
    if settings.bucket.is_empty() || settings.bucket.contains('/') {
        return Err(refused("bucket", "must be the name of a bucket, without /"));
    }
    if settings.prefix.as_deref().is_some_and(|p| p.contains("//")) {
        return Err(refused("prefix", "must not contain //"));
    }
    if let Some(endpoint) = endpoint(settings)
        && parts(endpoint).is_none()
    {
        let problem = "must be http:// or https:// and a host";
        return Err(refused("endpoint", problem));
    }
    let size = settings.upload_part_size.unwrap_or_default();
    if size != 0 && size < PART_MIN_BYTES {
        let problem = "must be 0 or at least 5242880";
        return Err(refused("upload-part-size", problem));
    }
    if settings.upload_concurrency.is_some_and(|parts| parts < 0) {
        return Err(refused("upload-concurrency", "must not be negative"));
    }
    Ok(())
}

/// Returns the prefix as keys begin with it.
pub(super) fn prefix(settings: &Settings) -> String {
    let written = settings.prefix.as_deref().unwrap_or_default();
    let outer = |c: char| c == '/' || c.is_whitespace();
    written.trim_matches(outer).to_owned()
}

pub(super) fn part(settings: &Settings) -> usize {
    let size = settings.upload_part_size.unwrap_or_default();
    usize::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .unwrap_or(PART_BYTES)
}

pub(super) fn parallel(settings: &Settings) -> usize {
    let parts = settings.upload_concurrency.unwrap_or_default();
    usize::try_from(parts)
        .ok()
        .filter(|parts| *parts > 0)
        .unwrap_or(PARALLEL)
}

fn endpoint(settings: &Settings) -> Option<&str> {
    let written = settings.endpoint.as_deref().unwrap_or_default();
    Some(written).filter(|endpoint| !endpoint.is_empty())
}

/// Splits an endpoint into scheme and the rest, which begins with a host.
fn parts(endpoint: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    let host = rest.split(['/', ':', '?', '#']).next().unwrap_or_default();
    let plain = !endpoint.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@');
    (matches!(scheme, "http" | "https") && !host.is_empty() && plain).then_some((scheme, rest))
}

/// Makes the client; nothing is sent yet.
pub(super) fn client(
    settings: &Settings,
    keys: Option<(&str, &str)>,
) -> Result<AmazonS3, SettingsError> {
    // The HTTP client takes what the process has chosen; where that is nothing, this is the choice.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path_style = settings.force_path_style.unwrap_or_default();
    let endpoint = endpoint(settings).and_then(parts);
    let is_plain = endpoint.is_some_and(|(scheme, _)| scheme == "http");
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(CONNECT_WITHIN)
        .with_read_timeout(SILENT_FOR)
        .with_timeout_disabled();
    let retry = RetryConfig {
        backoff: BackoffConfig {
            max_backoff: Duration::from_secs(2),
            ..BackoffConfig::default()
        },
        max_retries: 3,
        retry_timeout: REPEATED_FOR,
    };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&settings.bucket)
        .with_virtual_hosted_style_request(!path_style)
        .with_client_options(options)
        .with_retry(retry);
    if let Some(region) = settings.region.as_deref().filter(|r| !r.is_empty()) {
        builder = builder.with_region(region);
    }
    if let Some((scheme, rest)) = endpoint {
        let rest = rest.trim_end_matches('/');
        // The client wants the bucket in the name of the host itself, where it is to be there.
        let bucket = if path_style {
            String::new()
        } else {
            format!("{}.", settings.bucket)
        };
        builder = builder.with_endpoint(format!("{scheme}://{bucket}{rest}"));
    }
    if let Some((id, secret)) = keys {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
    }
    let built = builder.build();
    built.map_err(|error| SettingsError::Client(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Settings);

    #[test]
    fn n_19_n_158_settings_that_cannot_work_are_named() {
        let good = || Settings {
            bucket: "b".into(),
            prefix: Some("team/a".into()),
            region: Some("eu-central-1".into()),
            endpoint: Some("https://s3.example:9000".into()),
            upload_part_size: Some(5_242_880),
            upload_concurrency: Some(1),
            ..Settings::default()
        };
        assert_eq!(check(&good()), Ok(()));
        let plain = Settings {
            bucket: "b".into(),
            ..Settings::default()
        };
        assert_eq!(check(&plain), Ok(()), "everything else is optional");
        let zero = Settings {
            upload_part_size: Some(0),
            upload_concurrency: Some(0),
            ..good()
        };
        assert_eq!(check(&zero), Ok(()));
        assert_eq!((part(&zero), parallel(&zero)), (PART_BYTES, PARALLEL));
        assert_eq!((part(&good()), parallel(&good())), (5_242_880, 1));
        let cases: [(Change, &str); 11] = [
            (|s| s.bucket = String::new(), "bucket"),
            (|s| s.bucket = "a/b".into(), "bucket"),
            (|s| s.prefix = Some("a//b".into()), "prefix"),
            (|s| s.endpoint = Some("s3.example".into()), "endpoint"),
            (|s| s.endpoint = Some("ftp://s3.example".into()), "endpoint"),
            (|s| s.endpoint = Some("https://".into()), "endpoint"),
            (|s| s.endpoint = Some("https:///x".into()), "endpoint"),
            (|s| s.endpoint = Some("https://u:p@host".into()), "endpoint"),
            (|s| s.upload_part_size = Some(5_242_879), "upload-part-size"),
            (|s| s.upload_part_size = Some(-1), "upload-part-size"),
            (|s| s.upload_concurrency = Some(-1), "upload-concurrency"),
        ];
        for (change, setting) in cases {
            let mut settings = good();
            change(&mut settings);
            let error = check(&settings).unwrap_err().to_string();
            let flag = format!("--artifact-s3-{setting} must ");
            assert!(error.starts_with(&flag), "{error}");
        }
    }
}
