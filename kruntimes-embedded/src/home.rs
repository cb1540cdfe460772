//! The directory of an engine that stays: one engine at a time, and what the one before left running.
//!
//! A lock that the kernel drops with its process decides whether an engine is there; the record beside
//! it only tells which.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_k8s::clock::Clock;
use kruntimes_runtime::process::{Identity, LeftoversError, end_leftovers};
use serde::{Deserialize, Serialize};

const LOCK: &str = "lock";
const RECORD: &str = "engine.json";
const LIVES: &str = "lives";

/// Looks for the lock while nobody says that he holds it: somebody may only be asking who does, and a program that a
/// killed engine was about to start holds it until it has begun.
const LOOKS: u32 = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a directory cannot be the home of an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Another engine lives there. Use that one, or end it first.
    #[error("an engine runs in {} already{}", path.display(), known(owner.as_deref()))]
    Taken {
        /// The directory.
        path: PathBuf,
        /// Who lives there, when it has said so.
        owner: Option<Box<Record>>,
    },
    /// Something else is there. Choose an empty directory or a new name.
    #[error("{} holds files but no engine", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The directory or a file in it cannot be used.
    #[error("cannot use {}", path.display())]
    Unusable {
        /// What cannot be used.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Processes of an engine that was killed still run.
    #[error("processes of an earlier engine in {} are still there", path.display())]
    Leftovers {
        /// The directory.
        path: PathBuf,
        /// Which, and why.
        source: LeftoversError,
    },
}

fn known(owner: Option<&Record>) -> String {
    owner.map_or_else(String::new, |owner| match owner.process() {
        Some(process) => format!(" (process {}, since {})", process.pid(), owner.since),
        None => format!(" (since {})", owner.since),
    })
}

/// What a running engine says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Names the process for good; see [`process`](Self::process).
    pub identity: String,
    /// When it was started.
    pub since: Timestamp,
    /// Version of the program.
    pub version: String,
    /// Where the API is served, once it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Configuration for kubectl and client libraries, once the API is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

impl Record {
    /// Returns the process of the engine.
    pub fn process(&self) -> Option<Identity> {
        self.identity.parse().ok()
    }
}

/// Whether an engine lives in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// None does.
    Nobody,
    /// One is there; it has a record as soon as it has taken the directory.
    Somebody(Option<Box<Record>>),
}

/// Tells whether an engine lives in a directory; takes up to a second when somebody holds it and does not say who it is.
///
/// # Errors
///
/// Fails when that cannot be seen, for lack of rights.
#[expect(
    clippy::disallowed_methods,
    reason = "people ask this from a command line, where no other work waits and no clock is simulated"
)]
pub fn look(path: &Path) -> Result<Presence, HomeError> {
    let lock = path.join(LOCK);
    let file = match File::open(&lock) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Presence::Nobody),
        Err(error) => return Err(unusable(&lock)(error)),
    };
    for _ in 0..LOOKS {
        match file.try_lock_shared() {
            Ok(()) => return Ok(Presence::Nobody),
            Err(TryLockError::WouldBlock) => {
                if let Some(owner) = owner(path) {
                    return Ok(Presence::Somebody(Some(Box::new(owner))));
                }
            }
            Err(TryLockError::Error(error)) => return Err(unusable(&lock)(error)),
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(Presence::Somebody(None))
}

/// Makes sure that the directory exists, for the caller alone, and holds nothing but an engine's files.
///
/// # Errors
///
/// [`HomeError::Foreign`] or [`HomeError::Unusable`].
pub fn prepare(path: &Path) -> Result<(), HomeError> {
    make(path)?;
    let lock = path.join(LOCK);
    if lock.exists() {
        return Ok(());
    }
    let mut entries = path.read_dir().map_err(unusable(path))?;
    if entries.next().is_some() {
        return Err(HomeError::Foreign {
            path: path.to_owned(),
        });
    }
    lock_file(&lock).map(drop)
}

/// A directory that belongs to this process until it is closed or dropped.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    /// Where the leaders of this life are noted.
    life: PathBuf,
    record: Record,
    /// Processes of former lives that were still there.
    ended: usize,
    _lock: File,
}

impl Home {
    /// Takes the directory and ends what an engine that was killed there has left running.
    pub(crate) async fn open(path: &Path, now: Timestamp) -> Result<Self, HomeError> {
        prepare(path)?;
        let path = path.canonicalize().map_err(unusable(path))?;
        let lock = take(&path).await?;
        let identity = Identity::own().map_err(unusable(&path))?;
        let mut home = Self {
            life: path.join(LIVES).join(identity.to_string()),
            record: Record {
                identity: identity.to_string(),
                since: now,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                endpoint: None,
                kubeconfig: None,
            },
            path,
            ended: 0,
            _lock: lock,
        };
        home.write_record()?;
        home.end_former_lives().await?;
        make(&home.life)?;
        Ok(home)
    }

    /// Where Pods live.
    pub(crate) fn pods(&self) -> PathBuf {
        self.path.join("pods")
    }

    /// Where objects are stored.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Where keys, token and kubeconfig are.
    pub(crate) fn access(&self) -> PathBuf {
        self.path.join("access")
    }

    /// Where the leaders of this life are to be noted.
    pub(crate) fn life(&self) -> &Path {
        &self.life
    }

    /// Tells the world where the API is served.
    pub(crate) fn announce(&mut self, endpoint: &str, kubeconfig: &Path) -> Result<(), HomeError> {
        self.record.endpoint = Some(endpoint.to_owned());
        self.record.kubeconfig = Some(kubeconfig.to_owned());
        self.write_record()
    }

    /// Gives the directory back. Every process of this life must be gone.
    pub(crate) fn close(self) {
        // What cannot be removed costs the next life a look, nothing else.
        let _ = std::fs::remove_dir_all(&self.life);
        let _ = std::fs::remove_file(self.path.join(RECORD));
    }

    async fn end_former_lives(&mut self) -> Result<(), HomeError> {
        let lives = self.path.join(LIVES);
        make(&lives)?;
        for life in lives.read_dir().map_err(unusable(&lives))?.flatten() {
            let former = life.file_name();
            let former = former
                .to_str()
                .and_then(|name| name.parse::<Identity>().ok());
            if let Some(former) = former {
                let ended = end_leftovers(&former, &life.path()).await;
                let count = ended.map_err(|source| HomeError::Leftovers {
                    path: self.path.clone(),
                    source,
                })?;
                self.ended += count;
                if count > 0 {
                    tracing::warn!(count, "processes of a killed engine were ended");
                }
            }
            std::fs::remove_dir_all(life.path()).map_err(unusable(&life.path()))?;
        }
        Ok(())
    }

    fn write_record(&self) -> Result<(), HomeError> {
        let path = self.path.join(RECORD);
        let text = serde_json::to_string_pretty(&self.record);
        let text = text.expect("a record has a JSON form");
        let next = self.path.join(format!("{RECORD}.next"));
        let written = private().truncate(true).open(&next);
        let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .and_then(|()| std::fs::rename(&next, &path))
            .map_err(unusable(&path))
    }
}

/// Ends what an engine that was killed has left running in a directory where none lives now; returns how
/// many processes that were.
///
/// # Errors
///
/// [`HomeError`]; another engine may have moved in meanwhile.
pub async fn clear(path: &Path) -> Result<usize, HomeError> {
    let home = Home::open(path, Clock::system().now()).await?;
    let count = home.ended;
    home.close();
    Ok(count)
}

async fn take(path: &Path) -> Result<File, HomeError> {
    let lock = path.join(LOCK);
    let file = lock_file(&lock)?;
    for _ in 0..LOOKS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if owner(path).is_some() => break,
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
            Err(TryLockError::Error(error)) => return Err(unusable(&lock)(error)),
        }
    }
    Err(HomeError::Taken {
        path: path.to_owned(),
        owner: owner(path).map(Box::new),
    })
}

/// Reads the record, unless it is one that a killed engine left.
fn owner(path: &Path) -> Option<Record> {
    let text = std::fs::read(path.join(RECORD)).ok()?;
    let record: Record = serde_json::from_slice(&text).ok()?;
    record.process()?.is_alive().then_some(record)
}

fn lock_file(path: &Path) -> Result<File, HomeError> {
    private().open(path).map_err(unusable(path))
}

/// Opens files that nobody else may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// Makes a directory that nobody else may enter; one that exists is left as it is.
fn make(path: &Path) -> Result<(), HomeError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(unusable(path))
}

fn unusable(path: &Path) -> impl Fn(io::Error) -> HomeError {
    move |source| HomeError::Unusable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[tokio::test]
    async fn one_engine_at_a_time_and_the_lock_decides() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/home");
        assert_eq!(look(&path).unwrap(), Presence::Nobody);
        let mut home = Home::open(&path, NOW).await.unwrap();
        home.announce("https://127.0.0.1:1", Path::new("/k"))
            .unwrap();
        let Presence::Somebody(Some(record)) = look(&path).unwrap() else {
            panic!("it is there")
        };
        assert_eq!(record.endpoint.as_deref(), Some("https://127.0.0.1:1"));
        assert_eq!(record.process().unwrap(), Identity::own().unwrap());
        let refused = Home::open(&path, NOW).await.unwrap_err().to_string();
        let pid = std::process::id();
        assert!(
            refused.ends_with(&format!(
                "already (process {pid}, since 1970-01-01T00:00:00Z)"
            )),
            "{refused}"
        );
        // As after a kill: the record stays, the lock does not.
        drop(home);
        assert_eq!(look(&path).unwrap(), Presence::Nobody);
        let again = Home::open(&path, NOW).await.unwrap();
        again.close();
        assert!(!path.join(RECORD).exists());
        assert_eq!(path.join(LIVES).read_dir().unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_a_killed_engine_was_about_to_start_is_no_engine() {
        let dir = tempfile::tempdir().unwrap();
        Home::open(dir.path(), NOW).await.unwrap().close();
        let lock = lock_file(&dir.path().join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        // Holds the lock as a program does that is between fork and exec, and is over in a moment.
        let mut child = {
            let mut command = std::process::Command::new("true");
            command.stdin(lock).spawn().unwrap()
        };
        assert_eq!(look(dir.path()).unwrap(), Presence::Nobody);
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn only_the_owner_may_enter_and_files_of_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home");
        Home::open(&path, NOW).await.unwrap().close();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(LOCK))), (0o700, 0o600));
        let foreign = dir.path().join("photos");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("cat"), "").unwrap();
        let refused = Home::open(&foreign, NOW).await.unwrap_err();
        assert!(matches!(refused, HomeError::Foreign { .. }), "{refused}");
        assert_eq!(foreign.read_dir().unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_a_killed_engine_left_running_is_ended_before_anything_starts() {
        use std::os::unix::process::CommandExt as _;

        let dir = tempfile::tempdir().unwrap();
        Home::open(dir.path(), NOW).await.unwrap().close();
        let sleep = || {
            let mut command = std::process::Command::new("sleep");
            command.arg("600").process_group(0).spawn().unwrap()
        };
        let (mut engine, mut step) = (sleep(), sleep());
        let life = dir.path().join(LIVES);
        let life = life.join(Identity::of(engine.id()).unwrap().to_string());
        std::fs::create_dir(&life).unwrap();
        let started = Identity::of(step.id()).unwrap().to_string();
        let started = started.rsplit('_').next().unwrap();
        std::fs::write(life.join(step.id().to_string()), started).unwrap();
        engine.kill().unwrap();
        engine.wait().unwrap();
        let home = Home::open(dir.path(), NOW).await.unwrap();
        step.wait().unwrap();
        assert!(!life.exists());
        home.close();
    }
}
