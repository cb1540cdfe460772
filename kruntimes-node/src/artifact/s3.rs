//! A store in a bucket of S3, or of anything that speaks its protocol (node, section 12.5).

mod settings;

use std::borrow::Cow;
use std::future::Future;
use std::io::{self, Read};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use kruntimes_core::api::{
    ArtifactDriver, ArtifactLocation, ArtifactRef, ArtifactStore, S3Location, S3Store as Settings,
};
use kruntimes_core::names;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ObjectStore as _, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    WriteMultipart,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::runtime::Handle;

use super::digest;
use super::filesystem::SettingsError;
use super::reference::{self, is_component};
use super::store::{Content, Item, Store, StoreError, Stored};

/// What is not kept as it is in a header (N-160).
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Keeps artifacts as objects of one bucket, below a prefix.
///
/// Its calls block on the tokio runtime it was made on; they must come from other threads than those that
/// drive it.
#[derive(Clone, Debug)]
pub struct S3Store {
    settings: Settings,
    prefix: String,
    client: AmazonS3,
    runtime: Handle,
    /// Bytes of one part; what is not larger is stored in one request.
    part: usize,
    /// Parts on their way at once.
    parallel: usize,
}

fn failed(what: &'static str) -> impl FnOnce(object_store::Error) -> StoreError {
    move |error| {
        let kind = match &error {
            object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        StoreError::Failed {
            what,
            source: io::Error::new(kind, error),
        }
    }
}

fn refused(text: &str) -> StoreError {
    StoreError::Invalid(format!("artifact reference: {text}"))
}

/// Reads a key as it is; the client would write some characters of it differently.
fn path(key: &str) -> Result<Path, StoreError> {
    Path::parse(key).map_err(|_| refused("the key cannot be that of an object"))
}

/// Writes a name as the last part of a key. Control characters, which no key may have, are encoded; the
/// hash keeps such a name apart from one that looks so by itself.
fn last_part(name: &str) -> Cow<'_, str> {
    if !name.contains(|c: char| c.is_ascii_control()) {
        return Cow::Borrowed(name);
    }
    let hash = names::hash(name, 10);
    Cow::Owned(format!("{}-{hash}", utf8_percent_encode(name, CONTROLS)))
}

/// Writes a value so that a header can carry it.
fn header(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if plain && value.trim() == value && !value.contains('%') {
        value.to_owned()
    } else {
        utf8_percent_encode(value, UNSAFE).to_string()
    }
}

impl S3Store {
    /// Makes a store; nothing is asked of the bucket yet. Credentials are found as AWS clients find them:
    /// in the environment, by a web identity, by the role of the machine.
    ///
    /// # Errors
    ///
    /// Returns which setting is missing or makes no sense (N-158).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Self::made(settings, None)
    }

    /// Makes a store for a program that keeps the keys itself; daemons find them in their environment.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_keys(settings: Settings, id: &str, secret: &str) -> Result<Self, SettingsError> {
        Self::made(settings, Some((id, secret)))
    }

    fn made(settings: Settings, keys: Option<(&str, &str)>) -> Result<Self, SettingsError> {
        settings::check(&settings)?;
        Ok(Self {
            prefix: settings::prefix(&settings),
            client: settings::client(&settings, keys)?,
            runtime: Handle::current(),
            part: settings::part(&settings),
            parallel: settings::parallel(&settings),
            settings,
        })
    }

    fn wait<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(work).map_err(failed(what))
    }

    /// Names the place of a Run, without a slash at its end (N-159).
    fn run_key(&self, namespace: &str, run_uid: &str) -> Result<String, StoreError> {
        if !is_component(namespace) || !is_component(run_uid) {
            return Err(refused("namespace or run UID is no file name"));
        }
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let prefix = &self.prefix;
        Ok(format!(
            "{prefix}{slash}namespaces/{namespace}/runs/{run_uid}"
        ))
    }

    /// Checks a reference and returns its key; nothing is asked of the bucket (N-162).
    fn place(&self, reference: &ArtifactRef) -> Result<Path, StoreError> {
        reference::check(reference)?;
        let Some(place) = &reference.location.s3 else {
            return Err(refused("it belongs to another kind of store"));
        };
        if place.bucket != self.settings.bucket {
            return Err(refused("it belongs to another bucket"));
        }
        let below = match place.key.strip_prefix(self.prefix.as_str()) {
            Some(rest) if self.prefix.is_empty() => Some(rest),
            Some(rest) => rest.strip_prefix('/'),
            None => None,
        };
        let clean = |rest: &str| rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
        match below {
            Some(rest) if clean(rest) => path(&place.key),
            Some(_) | None => Err(refused("its key is not below the prefix of the store")),
        }
    }

    /// Tells beside the bytes what they are (N-160).
    fn attributes(item: &Item<'_>, digest: &str) -> Attributes {
        let about = &item.about;
        let retention = about.retention_seconds.map(|seconds| seconds.to_string());
        let mut attributes = Attributes::new();
        for (key, value) in [
            ("kruntimes-run-name", Some(about.run_name)),
            ("kruntimes-run-uid", Some(item.run_uid)),
            ("kruntimes-namespace", Some(item.namespace)),
            ("kruntimes-runtime", Some(about.runtime)),
            ("kruntimes-artifact-name", Some(item.name)),
            ("kruntimes-artifact-type", Some(about.kind)),
            ("kruntimes-digest", Some(digest)),
            ("kruntimes-retention-seconds", retention.as_deref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                attributes.insert(Attribute::Metadata(key.into()), header(value).into());
            }
        }
        if !about.content_type.is_empty() {
            let kind = header(about.content_type).into();
            attributes.insert(Attribute::ContentType, kind);
        }
        attributes
    }

    /// Stores what fits into one request.
    fn put_whole(
        &self,
        key: &Path,
        attributes: Attributes,
        content: &mut dyn Read,
        sum: &(u64, String),
    ) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let again = digest::copy(content, sum.0, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        });
        unchanged(again, sum)?;
        let options = PutOptions::from(attributes);
        let put = self
            .client
            .put_opts(key, Bytes::from(bytes).into(), options);
        self.wait("put an object", put).map(drop)
    }

    /// Stores in parts; a failure takes back those that were sent (N-161).
    fn put_parts(
        &self,
        key: &Path,
        attributes: Attributes,
        content: &mut dyn Read,
        sum: &(u64, String),
    ) -> Result<(), StoreError> {
        let options = PutMultipartOptions::from(attributes);
        let begun = self.client.put_multipart_opts(key, options);
        let upload = self.wait("begin an upload", begun)?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, self.part);
        let again = digest::copy(content, sum.0, |chunk| {
            self.wait("upload a part", parts.wait_for_capacity(self.parallel))?;
            // Parts are sent by tasks.
            let _entered = self.runtime.enter();
            parts.write(chunk);
            Ok(())
        });
        match unchanged(again, sum) {
            // What cannot be completed takes itself back.
            Ok(()) => self.wait("complete an upload", parts.finish()).map(drop),
            Err(error) => {
                if let Err(left) = self.wait("abort an upload", parts.abort()) {
                    tracing::warn!(%left, "parts of an upload stay in the bucket");
                }
                Err(error)
            }
        }
    }
}

/// Checks that bytes were the same when they were read again.
fn unchanged(
    again: Result<(u64, String), StoreError>,
    sum: &(u64, String),
) -> Result<(), StoreError> {
    match again {
        Ok(again) if again == *sum => Ok(()),
        Ok(_) => Err(StoreError::Invalid(
            "it changed while it was collected".to_owned(),
        )),
        Err(error) => Err(error),
    }
}

/// Reads the bytes of an object as they arrive.
struct Reader {
    runtime: Handle,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    chunk: Bytes,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.runtime.block_on(self.stream.next()) {
                Some(chunk) => self.chunk = chunk.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let read = self.chunk.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.chunk.split_to(read));
        Ok(read)
    }
}

impl Store for S3Store {
    fn settings(&self) -> ArtifactStore {
        ArtifactStore {
            driver: ArtifactDriver::S3,
            filesystem: None,
            s3: Some(self.settings.clone()),
        }
    }

    fn put(
        &self,
        item: Item<'_>,
        content: &mut dyn Content,
        limit: u64,
    ) -> Result<Stored, StoreError> {
        if !is_component(item.name) {
            return Err(refused("the name is no file name"));
        }
        let run = self.run_key(item.namespace, item.run_uid)?;
        let key = format!("{run}/{}", last_part(item.name));
        let place = path(&key)?;
        // The digest travels before the bytes, and nothing is sent that is too large (N-161).
        let sum = digest::copy(content, limit, |_| Ok(()))?;
        content.rewind().map_err(digest::unreadable)?;
        let attributes = Self::attributes(&item, &sum.1);
        if usize::try_from(sum.0).is_ok_and(|size| size <= self.part) {
            self.put_whole(&place, attributes, content, &sum)?;
        } else {
            self.put_parts(&place, attributes, content, &sum)?;
        }
        let (size_bytes, digest) = sum;
        Ok(Stored {
            location: ArtifactLocation {
                filesystem: None,
                s3: Some(S3Location {
                    bucket: self.settings.bucket.clone(),
                    key,
                }),
            },
            size_bytes,
            digest,
        })
    }

    fn open(&self, reference: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError> {
        let place = self.place(reference)?;
        let found = self.wait("get an object", self.client.get(&place))?;
        Ok(Box::new(Reader {
            runtime: self.runtime.clone(),
            stream: found.into_stream(),
            chunk: Bytes::new(),
        }))
    }

    fn delete(&self, reference: &ArtifactRef) -> Result<(), StoreError> {
        let place = self.place(reference)?;
        match self.runtime.block_on(self.client.delete(&place)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("delete an object")(error)),
        }
    }

    fn delete_run(&self, namespace: &str, run_uid: &str) -> Result<(), StoreError> {
        let run = path(&self.run_key(namespace, run_uid)?)?;
        let what = "delete the artifacts of a run";
        // Listed below the key and a slash, page by page; another Run whose UID begins alike is none of it.
        // Nothing is deleted before the list is complete: not every server can do both at once.
        let found = self
            .client
            .list(Some(&run))
            .map_ok(|object| object.location);
        let found: Vec<Path> = self.wait(what, found.try_collect())?;
        let places = futures::stream::iter(found.into_iter().map(Ok)).boxed();
        let mut deleted = self.client.delete_stream(places);
        let all = async {
            loop {
                match deleted.next().await {
                    None => return Ok(()),
                    Some(Ok(_) | Err(object_store::Error::NotFound { .. })) => {}
                    Some(Err(error)) => return Err(error),
                }
            }
        };
        self.wait(what, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::About;
    use crate::artifact::reference::tests::reference;

    fn store(prefix: &str) -> S3Store {
        let settings = Settings {
            bucket: "builds".into(),
            prefix: Some(prefix.into()),
            ..Settings::default()
        };
        S3Store::new(settings).unwrap()
    }

    fn at(bucket: &str, key: &str) -> ArtifactRef {
        let mut reference = reference("x");
        reference.driver = ArtifactDriver::S3;
        reference.location = ArtifactLocation {
            filesystem: None,
            s3: Some(S3Location {
                bucket: bucket.into(),
                key: key.into(),
            }),
        };
        reference
    }

    #[tokio::test]
    async fn n_159_keys_lie_below_the_trimmed_prefix() {
        for (prefix, want) in [
            ("", "namespaces/ns/runs/u"),
            (" / ", "namespaces/ns/runs/u"),
            (" /team/a/ ", "team/a/namespaces/ns/runs/u"),
        ] {
            let key = store(prefix).run_key("ns", "u").unwrap();
            assert_eq!(key, want, "{prefix:?}");
        }
        for (namespace, uid) in [("", "u"), ("a/b", "u"), ("ns", ".."), ("ns", "")] {
            assert!(store("").run_key(namespace, uid).is_err());
        }
        let parts =
            ["a\n", "a%0A", "100% ~done~", "\u{e9}"].map(|name| last_part(name).into_owned());
        assert!(parts[0].starts_with("a%0A-"), "{parts:?}");
        assert_eq!(parts[1..], ["a%0A", "100% ~done~", "\u{e9}"]);
    }

    #[tokio::test]
    async fn n_162_what_is_of_another_store_is_refused_unseen() {
        let store = store("a");
        let key = "a/namespaces/ns/runs/u/x";
        assert_eq!(store.place(&at("builds", key)).unwrap().as_ref(), key);
        for (bucket, key) in [
            ("other", "a/namespaces/ns/runs/u/x"),
            ("builds", "ab/namespaces/ns/runs/u/x"),
            ("builds", "namespaces/ns/runs/u/x"),
            ("builds", "a"),
            ("builds", "a/"),
            ("builds", "a//x"),
            ("builds", "a/../b/x"),
            ("builds", "/a/x"),
        ] {
            assert!(store.place(&at(bucket, key)).is_err(), "{bucket} {key}");
        }
        assert!(store.place(&reference("a/x")).is_err(), "another driver");
    }

    #[tokio::test]
    async fn n_160_what_no_header_can_carry_is_encoded() {
        let item = Item {
            namespace: "ns",
            run_uid: "u",
            name: "caf\u{e9} 100%\n",
            about: About {
                run_name: "r",
                runtime: "bash",
                kind: "file",
                content_type: "text/plain; charset=utf-8",
                retention_seconds: Some(60),
            },
        };
        let found = S3Store::attributes(&item, "sha256:00");
        let told = |key: &'static str| {
            found
                .get(&Attribute::Metadata(key.into()))
                .map(AsRef::as_ref)
        };
        for (key, want) in [
            ("kruntimes-run-name", "r"),
            ("kruntimes-run-uid", "u"),
            ("kruntimes-namespace", "ns"),
            ("kruntimes-runtime", "bash"),
            ("kruntimes-artifact-name", "caf%C3%A9%20100%25%0A"),
            ("kruntimes-artifact-type", "file"),
            ("kruntimes-digest", "sha256:00"),
            ("kruntimes-retention-seconds", "60"),
        ] {
            assert_eq!(told(key), Some(want), "{key}");
        }
        let forever = Item {
            about: About {
                retention_seconds: None,
                ..item.about
            },
            ..item
        };
        let found = S3Store::attributes(&forever, "sha256:00");
        assert_eq!(found.len(), 8, "seven facts and the media type");
        assert_eq!(header(" x"), "%20x");
        assert_eq!(header("a b"), "a b");
    }
}
