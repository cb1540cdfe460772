//! The only directories runtimed touches, below the workspace root (node, section 6).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::plan::SCRIPT;
use crate::tool_cache;

/// Mode of a Run's directory: the group shares it with the Runtime container (N-39).
const SHARED: u32 = 0o2770;
/// Mode of private `HOME` and `TMPDIR` directories (N-69).
const PRIVATE: u32 = 0o700;
/// Mode of the directory a task leaves its artifacts in (N-39).
const STAGING: u32 = 0o750;
/// Entries up to which a directory is removed on the spot.
const FEW: usize = 16;
/// Directory below the root that holds the PersistentWorkspaces.
const PERSISTENT: &str = "persistent";
/// Way from a workspace to the private directories of its Runs.
const PRIVATE_WAY: [&str; 2] = [".kruntimes", "runs"];
/// Directory of a Run that holds its checkout.
const REPO: &str = "repo";
/// Directory of a Run that its artifacts are left in.
const ARTIFACTS: &str = "artifacts";

/// The workspace root of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDirs {
    workspace: PathBuf,
}

/// A Run UID or workspace name that is no single path component (N-40, N-259).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {} is not a safe file name", kruntimes_core::message::quoted(.value))]
pub(crate) struct UnsafeName {
    what: &'static str,
    value: String,
}

/// Where one Run has its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDir {
    root: PathBuf,
    uid: String,
    /// The PersistentWorkspace it works in.
    workspace: Option<String>,
}

impl Default for NodeDirs {
    fn default() -> Self {
        Self::new("/workspace")
    }
}

fn safe(what: &'static str, value: &str) -> Result<String, UnsafeName> {
    let one = !matches!(value, "" | "." | "..") && !value.contains(['/', '\\', '\0']);
    if one {
        return Ok(value.to_owned());
    }
    Err(UnsafeName {
        what,
        value: value.to_owned(),
    })
}

impl NodeDirs {
    /// Uses `workspace`, which the Runtime Server must see under the same absolute path.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
        }
    }

    /// Returns the workspace root.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Names the places of a Run, which may work in a PersistentWorkspace (section 6.1).
    pub(crate) fn run(&self, uid: &str, workspace: Option<&str>) -> Result<RunDir, UnsafeName> {
        Ok(RunDir {
            root: self.workspace.clone(),
            uid: safe("run UID", uid)?,
            workspace: workspace
                .map(|name| safe("workspace name", name))
                .transpose()?,
        })
    }

    /// Makes what all Runs share.
    pub(crate) fn make_shared(&self) -> io::Result<()> {
        fs::create_dir_all(&self.workspace)?;
        tool_cache::install(&Folder::open(&self.workspace)?)
    }

    /// Removes a PersistentWorkspace with everything in it, following no link (N-257, N-259).
    pub(crate) fn remove_workspace(&self, name: &str) -> io::Result<()> {
        let name = safe("workspace name", name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        match Folder::open(&self.workspace).and_then(|root| root.enter(PERSISTENT)) {
            Ok(all) => all.remove(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the directories of Runs that are not in `keep`, and leaves everything else (N-127).
    pub(crate) fn sweep(&self, keep: &BTreeSet<String>) {
        let root = match Folder::open(&self.workspace) {
            Ok(root) => root,
            Err(error) => {
                tracing::warn!(path = %self.workspace.display(), %error, "workspace cannot be read");
                return;
            }
        };
        sweep_in(&root, &self.workspace, keep);
        let Ok(all) = root.enter(PERSISTENT) else {
            return;
        };
        for name in all.names().unwrap_or_default() {
            let way: PathBuf = [name.as_os_str()]
                .into_iter()
                .chain(PRIVATE_WAY.map(AsRef::as_ref))
                .collect();
            if let Ok(runs) = all.walk(&way) {
                sweep_in(&runs, &self.workspace.join(PERSISTENT).join(way), keep);
            }
        }
    }
}

fn sweep_in(at: &Folder, path: &Path, keep: &BTreeSet<String>) {
    for name in at.names().unwrap_or_default() {
        let orphan = name
            .to_str()
            .is_some_and(|name| has_uid_form(name) && !keep.contains(name));
        if orphan && let Err(error) = at.remove(&name) {
            let path = path.join(&name);
            tracing::warn!(path = %path.display(), %error, "directory of a former run stays");
        }
    }
}

/// Tells whether a name has the form the API server gives to UIDs: 8-4-4-4-12 hex digits.
fn has_uid_form(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Name of the list of inputs in the private directory of a Run with a workspace.
const INPUTS: &str = ".inputs";
/// Longest such list that is believed.
const INPUTS_MAX_BYTES: u64 = 256 * 1024;
/// Name of the mark that the files are complete.
const PREPARED: &str = ".prepared";

/// Walks to the directory that holds the last part of a clean path.
fn place_of<'a>(work: &Folder, path: &'a str) -> io::Result<(Folder, &'a str)> {
    let (way, name) = path.rsplit_once('/').unwrap_or(("", path));
    let clean = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !clean {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((work.walk(Path::new(way))?, name))
}

fn exists(at: &Folder, name: &str) -> bool {
    !matches!(at.kind(name), Ok(None))
}

fn gone_is_none<T>(found: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found,
    }
}

impl RunDir {
    /// Directory that no other Run shares.
    pub(crate) fn path(&self) -> PathBuf {
        match self.home() {
            Some(workspace) => workspace.join(self.private_way()),
            None => self.root.join(&self.uid),
        }
    }

    /// Way from the workspace to the private directory.
    fn private_way(&self) -> PathBuf {
        let parts = PRIVATE_WAY.into_iter().chain([self.uid.as_str()]);
        parts.collect()
    }

    /// Root of the PersistentWorkspace, if there is one.
    fn home(&self) -> Option<PathBuf> {
        let name = self.workspace.as_ref()?;
        Some(self.root.join(PERSISTENT).join(name))
    }

    /// Working directory of the process (section 6.1).
    pub(crate) fn work(&self, git: bool) -> PathBuf {
        match self.home() {
            Some(workspace) => workspace,
            None if git => self.repo(),
            None => self.path(),
        }
    }

    /// Way from the working directory to where the source lies; empty when that is the same.
    pub(crate) fn source_way(&self, git: bool, inline: bool) -> PathBuf {
        match (&self.workspace, git, inline) {
            (None, _, _) | (Some(_), false, false) => PathBuf::new(),
            (Some(_), false, true) => self.private_way(),
            (Some(_), true, _) => self.private_way().join(REPO),
        }
    }

    /// Checkout of a git source.
    pub(crate) fn repo(&self) -> PathBuf {
        self.path().join(REPO)
    }

    /// File the task writes its outputs to (N-38).
    pub(crate) fn outputs(&self) -> PathBuf {
        self.path().join("outputs")
    }

    /// Directory the task leaves its artifacts in (N-38).
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.path().join(ARTIFACTS)
    }

    /// Private `HOME`; only in a PersistentWorkspace (N-69).
    pub(crate) fn private_home(&self) -> Option<PathBuf> {
        Some(self.home()?.join(".home"))
    }

    /// Private directory for temporary files (N-69).
    pub(crate) fn tmp(&self) -> PathBuf {
        self.home().unwrap_or_else(|| self.path()).join(".tmp")
    }

    /// Directory all Runs of the Pod share.
    pub(crate) fn tool_cache(&self) -> PathBuf {
        tool_cache::path(&self.root)
    }

    /// Opens the directory that holds the private one.
    fn parent(&self) -> io::Result<Folder> {
        let root = Folder::open(&self.root)?;
        match &self.workspace {
            None => Ok(root),
            Some(name) => {
                let way: PathBuf = [PERSISTENT, name].into_iter().chain(PRIVATE_WAY).collect();
                root.walk(&way)
            }
        }
    }

    /// Opens the working directory (section 6.1).
    pub(crate) fn open_work(&self, git: bool) -> io::Result<Folder> {
        let root = Folder::open(&self.root)?;
        match &self.workspace {
            Some(name) => root.enter(PERSISTENT)?.enter(name),
            None if git => root.enter(&self.uid)?.enter(REPO),
            None => root.enter(&self.uid),
        }
    }

    /// Opens the directory for artifacts; nothing when there is none.
    pub(crate) fn open_artifacts(&self) -> io::Result<Option<Folder>> {
        match self.open().and_then(|own| own.enter(ARTIFACTS)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the private directory.
    pub(crate) fn open(&self) -> io::Result<Folder> {
        self.parent()?.enter(&self.uid)
    }

    /// Makes the directory that holds the private one, and the workspace around it.
    fn make_parent(&self) -> io::Result<Folder> {
        fs::create_dir_all(&self.root)?;
        let root = Folder::open(&self.root)?;
        let Some(name) = &self.workspace else {
            return Ok(root);
        };
        let workspace = root
            .make_or_enter(PERSISTENT, SHARED)?
            .make_or_enter(name, SHARED)?;
        for private in [".home", ".tmp"] {
            workspace.make_or_enter(private, PRIVATE)?;
        }
        let mut at = workspace;
        for part in PRIVATE_WAY {
            at = at.make_or_enter(part, SHARED)?;
        }
        Ok(at)
    }

    /// Makes an empty private directory and writes the script, if any; whatever was there is removed
    /// (N-37, N-42).
    ///
    /// Blocks for a few file operations of bounded size.
    pub(crate) fn prepare(&self, script: Option<&str>) -> io::Result<()> {
        let parent = self.make_parent()?;
        self.undo_inputs()?;
        parent.remove(&self.uid)?;
        let own = parent.make(&self.uid, SHARED)?;
        if self.workspace.is_none() {
            own.make(".tmp", PRIVATE)?;
        }
        match script {
            Some(script) => own.create(SCRIPT, 0o644)?.write_all(script.as_bytes()),
            None => Ok(()),
        }
    }

    /// Notes what is about to be put into a workspace, so that the next preparation can take it back: unlike
    /// a directory of the Run's own, a workspace does not start from nothing.
    pub(crate) fn note_inputs<'a>(&self, paths: impl Iterator<Item = &'a str>) -> io::Result<()> {
        if self.workspace.is_none() {
            return Ok(());
        }
        let work = self.open_work(false)?;
        // Without its directory nothing is there yet; what exists is somebody else's and stays.
        let is_new = |path: &&str| match place_of(&work, path) {
            Ok((at, name)) => !exists(&at, name),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let paths: Vec<&str> = paths.filter(is_new).collect();
        let own = self.open()?;
        own.remove(INPUTS)?;
        own.create(INPUTS, 0o600)?
            .write_all(paths.join("\n").as_bytes())
    }

    /// Removes the inputs that an interrupted preparation has left in a workspace.
    fn undo_inputs(&self) -> io::Result<()> {
        if self.workspace.is_none() {
            return Ok(());
        }
        let Some(noted) = gone_is_none(self.open().and_then(|own| own.read(INPUTS)))? else {
            return Ok(());
        };
        let mut text = String::new();
        noted.take(INPUTS_MAX_BYTES).read_to_string(&mut text)?;
        let work = self.open_work(false)?;
        for path in text.lines() {
            if let Ok((at, name)) = place_of(&work, path) {
                at.remove(name)?;
            }
        }
        Ok(())
    }

    /// Marks the files as complete, where the task does not see the mark (N-109).
    pub(crate) fn mark_prepared(&self, git: bool) -> io::Result<()> {
        if self.workspace.is_none() && !git {
            return Ok(());
        }
        let own = self.open()?;
        own.remove(PREPARED)?;
        own.create(PREPARED, 0o600).map(drop)
    }

    /// Tells whether an earlier process has completed the files.
    pub(crate) fn is_prepared(&self) -> bool {
        let found = self.open().and_then(|own| own.kind(PREPARED));
        matches!(found, Ok(Some(_)))
    }

    /// Removes what an earlier attempt reported, and makes the directory for artifacts if there is a
    /// store for them (N-73).
    pub(crate) fn reset(&self, artifacts: bool) -> io::Result<()> {
        let own = self.open()?;
        own.remove("outputs")?;
        own.remove(ARTIFACTS)?;
        if artifacts {
            own.make(ARTIFACTS, STAGING)?;
        }
        Ok(())
    }

    /// Makes the directory for a checkout, which must not exist yet.
    pub(crate) fn make_repo(&self) -> io::Result<()> {
        self.open()?.make(REPO, SHARED).map(drop)
    }

    /// Removes the checkout.
    pub(crate) fn remove_repo(&self) -> io::Result<()> {
        self.open()?.remove(REPO)
    }

    /// Opens the outputs file for reading. Never blocks and never follows a link (N-132).
    ///
    /// `Ok(None)` when there is none; an error of kind `InvalidInput` when it is no regular file.
    pub(crate) fn open_outputs(&self) -> io::Result<Option<File>> {
        match self.open() {
            Ok(own) => own.read("outputs"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove_now(&self) -> io::Result<()> {
        match self.parent() {
            Ok(parent) => parent.remove(&self.uid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the private directory with everything in it; a failure is logged (N-126).
    pub(crate) async fn remove(&self) {
        let path = self.path();
        let removed = if is_small(&path) {
            self.remove_now()
        } else {
            let dir = self.clone();
            tokio::task::spawn_blocking(move || dir.remove_now())
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "directory of a run stays");
        }
    }
}

/// Tells whether a tree has few entries and is shallow, so that removing it takes no time to speak of.
fn is_small(path: &Path) -> bool {
    let count = |path: &Path| fs::read_dir(path).map_or(0, |entries| entries.take(FEW + 1).count());
    let Ok(entries) = fs::read_dir(path) else {
        return true;
    };
    let mut total = 0;
    for entry in entries.flatten() {
        total += 1;
        let nested = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if total > FEW || (nested && count(&entry.path()) > 0) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{FileType, Mode};

    use super::*;

    fn dirs() -> (tempfile::TempDir, NodeDirs) {
        let temp = tempfile::tempdir().unwrap();
        let dirs = NodeDirs::new(temp.path().join("workspace"));
        (temp, dirs)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn n_40_a_uid_is_one_path_component() {
        let dirs = NodeDirs::default();
        for uid in ["", ".", "..", "a/b", "../x", "a\0", "a\\b"] {
            assert!(dirs.run(uid, None).is_err(), "{uid:?}");
        }
        let dir = dirs.run("u-1", None).unwrap();
        assert_eq!(dir.path(), Path::new("/workspace/u-1"));
    }

    #[test]
    fn n_37_n_42_n_46_preparation_starts_from_nothing() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u", None).unwrap();
        for text in ["first", ""] {
            dir.prepare(Some(text)).unwrap();
            let script = dir.path().join("script");
            assert_eq!(fs::read_to_string(&script).unwrap(), text, "N-46");
            assert_eq!(mode(&script), 0o644);
            assert_eq!(mode(&dir.path()), 0o770);
            assert_eq!(mode(&dir.tmp()), 0o700, "N-69");
            fs::write(dir.path().join("left"), "x").unwrap();
        }
        dir.prepare(None).unwrap();
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [".tmp"], "N-41");
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_replaced_not_followed() {
        let (temp, dirs) = dirs();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::create_dir(dirs.workspace()).unwrap();
        symlink(&outside, dirs.workspace().join("u")).unwrap();
        let dir = dirs.run("u", None).unwrap();
        dir.prepare(Some("x")).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(dir.path().join("script").is_file());
    }

    #[test]
    fn n_132_only_a_regular_outputs_file_is_read() {
        let (temp, dirs) = dirs();
        let dir = dirs.run("u", None).unwrap();
        assert!(dir.open_outputs().unwrap().is_none(), "no directory");
        dir.prepare(None).unwrap();
        assert!(dir.open_outputs().unwrap().is_none(), "no file");
        fs::write(dir.outputs(), "A=1").unwrap();
        assert!(dir.open_outputs().unwrap().is_some());
        let secret = temp.path().join("secret");
        fs::write(&secret, "A=1").unwrap();
        for make in [
            &(|path: &Path| fs::create_dir(path)) as &dyn Fn(&Path) -> io::Result<()>,
            &|path| symlink(&secret, path),
            &|path| {
                let mode = Mode::from_raw_mode(0o600);
                Ok(rustix::fs::mknodat(
                    rustix::fs::CWD,
                    path,
                    FileType::Fifo,
                    mode,
                    0,
                )?)
            },
        ] {
            dir.reset(false).unwrap();
            make(&dir.outputs()).unwrap();
            let error = dir.open_outputs().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        dir.reset(false).unwrap();
        assert!(secret.exists(), "a link is removed, not what it points to");
    }

    #[test]
    fn n_127_only_directories_of_former_runs_are_swept() {
        let (_temp, dirs) = dirs();
        dirs.make_shared().unwrap();
        let (kept, old) = (
            "6f1c2d3e-0000-4000-8000-000000000001",
            "6f1c2d3e-0000-4000-8000-000000000002",
        );
        for name in [kept, old, "persistent", "lost+found"] {
            fs::create_dir(dirs.workspace().join(name)).unwrap();
        }
        dirs.sweep(&BTreeSet::from([kept.to_owned()]));
        let exists = |name: &str| dirs.workspace().join(name).exists();
        assert!(
            exists(kept) && exists("persistent") && exists(".kruntimes") && exists("lost+found")
        );
        assert!(!exists(old));
    }

    #[tokio::test]
    async fn n_126_removal_takes_everything() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u", None).unwrap();
        dir.prepare(Some("x")).unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        dir.remove().await;
        assert!(!dir.path().exists());
        dir.remove().await;
    }

    #[test]
    fn n_38_n_39_n_65_n_69_a_workspace_holds_private_places_of_its_runs() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u", Some("shared")).unwrap();
        let root = dirs.workspace().join("persistent/shared");
        dir.prepare(Some("echo")).unwrap();
        fs::write(root.join("left"), "x").unwrap();
        fs::write(root.join(".home/left"), "x").unwrap();
        dir.reset(true).unwrap();
        let own = root.join(".kruntimes/runs/u");
        assert_eq!((dir.path(), dir.work(false)), (own.clone(), root.clone()));
        let script = dir
            .work(false)
            .join(dir.source_way(false, true))
            .join(SCRIPT);
        assert_eq!(fs::read_to_string(script).unwrap(), "echo");
        for (place, want) in [
            (".home", 0o700),
            (".tmp", 0o700),
            (".kruntimes/runs/u", 0o770),
            (".kruntimes/runs/u/artifacts", 0o750),
        ] {
            assert_eq!(mode(&root.join(place)), want, "N-39 {place}");
        }
        assert_eq!(dir.outputs(), own.join("outputs"));
        dir.prepare(None).unwrap();
        assert!(!own.join("script").exists(), "N-37");
        dir.remove_now().unwrap();
        assert!(!own.exists());
        assert!(
            root.join("left").exists() && root.join(".home/left").exists(),
            "N-126"
        );
    }

    #[test]
    fn n_37_n_56_inputs_of_an_interrupted_preparation_are_taken_back() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u", Some("w")).unwrap();
        dir.prepare(None).unwrap();
        let work = dir.work(false);
        fs::write(work.join("mine"), "kept").unwrap();
        fs::create_dir(work.join("old")).unwrap();
        dir.note_inputs(["mine", "in/a", "old/tree", "../x"].into_iter())
            .unwrap();
        assert!(!dir.is_prepared());
        // Killed here: two are in place, nothing else is known of them.
        fs::create_dir_all(work.join("old/tree/deep")).unwrap();
        fs::create_dir(work.join("in")).unwrap();
        fs::write(work.join("in/a"), "staged").unwrap();
        fs::write(work.join("in/b"), "somebody else's").unwrap();
        dir.prepare(None).unwrap();
        let left = |path: &str| work.join(path).exists();
        assert_eq!(
            ["mine", "in/a", "in/b", "old/tree", "old"].map(left),
            [true, false, true, false, true]
        );
        // What was completed is marked, and a new preparation takes the mark back.
        dir.mark_prepared(false).unwrap();
        assert!(dir.is_prepared());
        dir.prepare(None).unwrap();
        assert!(!dir.is_prepared());
        let plain = dirs.run("v", None).unwrap();
        plain.prepare(None).unwrap();
        plain.mark_prepared(false).unwrap();
        assert!(!plain.is_prepared(), "a task would see it");
        plain.mark_prepared(true).unwrap();
        assert!(plain.is_prepared(), "beside a checkout it does not");
    }

    #[test]
    fn n_259_links_in_a_workspace_lead_nowhere() {
        let (temp, dirs) = dirs();
        let outside = temp.path().join("outside");
        fs::create_dir_all(outside.join("runs/u")).unwrap();
        fs::write(outside.join("runs/u/outputs"), "A=1").unwrap();
        let dir = dirs.run("u", Some("w")).unwrap();
        dir.prepare(None).unwrap();
        let root = dirs.workspace().join("persistent/w");
        fs::remove_dir_all(root.join(".kruntimes")).unwrap();
        symlink(&outside, root.join(".kruntimes")).unwrap();
        assert!(dir.prepare(None).is_err());
        assert!(dir.open_outputs().is_err());
        assert!(dir.remove_now().is_err());
        dirs.sweep(&BTreeSet::new());
        dirs.remove_workspace("w").unwrap();
        assert!(!root.exists());
        assert!(outside.join("runs/u/outputs").exists());
        for name in ["", ".", "..", "a/b", "../outside"] {
            assert!(dirs.remove_workspace(name).is_err(), "{name:?}");
            assert!(dirs.run("u", Some(name)).is_err(), "{name:?}");
        }
        let all = dirs.workspace().join("persistent");
        fs::remove_dir(&all).unwrap();
        symlink(&outside, &all).unwrap();
        assert!(dirs.remove_workspace("runs").is_err());
        assert!(outside.join("runs").exists());
    }

    #[test]
    fn n_127_private_places_in_workspaces_are_swept_too() {
        let (_temp, dirs) = dirs();
        let old = "6f1c2d3e-0000-4000-8000-000000000002";
        let dir = dirs.run(old, Some("w")).unwrap();
        dir.prepare(None).unwrap();
        dirs.sweep(&BTreeSet::new());
        assert!(!dir.path().exists());
        assert!(dir.work(false).join(".home").exists());
    }
}
