//! The tool cache all Runs of a Pod share, and the program that fills it (node, section 20).

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::folder::Folder;

/// The program, a POSIX shell script so that it runs in any Runtime container.
const HELPER: &str = include_str!("kruntime-cache.sh");
/// Name of the program in `bin`.
const NAME: &str = "kruntime-cache";
/// Mode of the directories: the users of a Pod share them (N-261).
const OPEN: u32 = 0o777;

/// Returns where the cache of a workspace root is.
pub(crate) fn path(workspace: &Path) -> PathBuf {
    workspace.join(".kruntimes").join("tool-cache")
}

/// Makes the directories and puts the program in place, replacing an older one in one step (N-261).
pub(crate) fn install(workspace: &Folder) -> io::Result<()> {
    let shared = |at: &Folder, name| {
        let made = at.make_or_enter(name, OPEN)?;
        // Made under another mode by an earlier version or by a user.
        rustix::fs::fchmod(&made, rustix::fs::Mode::from_raw_mode(OPEN))?;
        io::Result::Ok(made)
    };
    let own = shared(workspace, ".kruntimes")?;
    let root = shared(&own, "tool-cache")?;
    shared(&root, ".locks")?;
    shared(&root, ".staging")?;
    let bin = shared(&root, "bin")?;
    let fresh = format!(".{NAME}.new");
    bin.remove(&fresh)?;
    let mut file = bin.create(&fresh, 0o755)?;
    file.write_all(HELPER.as_bytes())?;
    // An open file cannot be executed.
    drop(file);
    if bin
        .kind(NAME)?
        .is_some_and(|kind| kind == rustix::fs::FileType::Directory)
    {
        bin.remove(NAME)?;
    }
    bin.rename(&fresh, NAME)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Output, Stdio};

    use super::*;

    struct Cache {
        temp: tempfile::TempDir,
    }

    impl Cache {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            install(&Folder::open(temp.path()).unwrap()).unwrap();
            Self { temp }
        }

        fn root(&self) -> PathBuf {
            path(self.temp.path())
        }

        fn command(&self, args: &[&str]) -> Command {
            let mut command = Command::new(self.root().join("bin/kruntime-cache"));
            command
                .args(args)
                .env("KRUNTIME_TOOL_CACHE", self.root())
                .env("COUNT", self.temp.path().join("count"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command
        }

        fn ensure(&self, key: &str, script: &str) -> Output {
            let args = ["ensure", key, "--", "sh", "-c", script];
            self.command(&args).output().unwrap()
        }

        fn staging_is_empty(&self) -> bool {
            fs::read_dir(self.root().join(".staging")).unwrap().count() == 0
        }
    }

    fn told(output: &Output) -> (Option<i32>, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let code = output.status.code();
        (code, text(&output.stdout), text(&output.stderr))
    }

    #[test]
    fn n_261_w_139_the_program_is_installed_and_replaced_in_one_step() {
        let cache = Cache::new();
        let mode = |name: &str| {
            let found = fs::symlink_metadata(cache.root().join(name)).unwrap();
            found.permissions().mode() & 0o777
        };
        for name in ["", ".locks", ".staging", "bin"] {
            assert_eq!(mode(name), 0o777, "{name:?}");
        }
        assert_eq!(mode("bin/kruntime-cache"), 0o755);
        let program = cache.root().join("bin/kruntime-cache");
        fs::write(&program, "older").unwrap();
        fs::write(cache.root().join("bin/.kruntime-cache.new"), "torn").unwrap();
        fs::write(cache.root().join("kept"), "x").unwrap();
        install(&Folder::open(cache.temp.path()).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&program).unwrap(), HELPER);
        assert!(cache.root().join("kept").exists());
        assert_eq!(fs::read_dir(cache.root().join("bin")).unwrap().count(), 1);
    }

    #[test]
    fn n_262_w_140_a_command_runs_once_per_key() {
        let cache = Cache::new();
        let script =
            "echo noise; echo x >> \"$COUNT\"; echo tool > \"$KRUNTIME_CACHE_STAGING/tool\"";
        let entry = cache.root().join("go/1.2");
        for _ in 0..2 {
            let output = cache.ensure("go/1.2", script);
            let (code, stdout, stderr) = told(&output);
            assert_eq!(code, Some(0), "{stderr}");
            assert_eq!(stdout, entry.display().to_string());
        }
        assert_eq!(fs::read_to_string(entry.join("tool")).unwrap(), "tool\n");
        assert!(entry.join(".complete").is_file());
        let count = fs::read_to_string(cache.temp.path().join("count")).unwrap();
        assert_eq!(count, "x\n");
        assert!(cache.staging_is_empty());
        let inside = cache.ensure("go/1.2/bin", "true");
        assert_eq!(inside.status.code(), Some(2), "{:?}", told(&inside));
        let around = cache.ensure("go", "true");
        assert_eq!(around.status.code(), Some(2), "{:?}", told(&around));
        assert!(entry.join("tool").exists());
    }

    #[test]
    fn n_262_w_141_a_failure_publishes_nothing_and_the_next_one_tries() {
        let cache = Cache::new();
        let failed = cache.ensure("a", "echo half > \"$KRUNTIME_CACHE_STAGING/x\"; exit 7");
        assert_eq!(failed.status.code(), Some(7));
        assert!(!cache.root().join("a").exists() && cache.staging_is_empty());
        // What a crash may leave: an entry without its mark, and staging of a process that is gone.
        fs::create_dir(cache.root().join("a")).unwrap();
        fs::write(cache.root().join("a/x"), "half").unwrap();
        let hash = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        fs::create_dir(cache.root().join(".staging").join(format!("{hash}.1"))).unwrap();
        let built = cache.ensure("a", "echo whole > \"$KRUNTIME_CACHE_STAGING/y\"");
        assert_eq!(built.status.code(), Some(0), "{:?}", told(&built));
        assert!(!cache.root().join("a/x").exists(), "N-264");
        assert!(cache.root().join("a/y").exists() && cache.staging_is_empty());
        assert!(cache.root().join(".locks").join(hash).exists());
    }

    #[test]
    fn n_262_w_141_waiters_get_the_finished_result() {
        let cache = Cache::new();
        let gate = cache.temp.path().join("gate");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &gate,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let script = "echo x >> \"$COUNT\"; read -r go < \"$GATE\"";
        let args = ["ensure", "k", "--", "sh", "-c", script];
        let callers: Vec<_> = (0..4)
            .map(|_| cache.command(&args).env("GATE", &gate).spawn().unwrap())
            .collect();
        // Opening it waits for the reader: the command runs.
        fs::write(&gate, "go\n").unwrap();
        for caller in callers {
            let output = caller.wait_with_output().unwrap();
            assert_eq!(
                told(&output).1,
                cache.root().join("k").display().to_string()
            );
        }
        let count = fs::read_to_string(cache.temp.path().join("count")).unwrap();
        assert_eq!(count, "x\n");
    }

    #[test]
    fn n_264_w_142_keys_cannot_leave_the_root() {
        let cache = Cache::new();
        for key in [
            "", "/a", "a/", "a//b", ".", "..", ".locks/x", ".a", "bin", "bin/x", "a/./b", "a/..",
            "a/../b", "../x", "a\nb", "a\\b",
        ] {
            let refused = cache.ensure(key, "true");
            assert_eq!(
                refused.status.code(),
                Some(2),
                "{key:?} {:?}",
                told(&refused)
            );
        }
        let odd = cache.ensure("binary/v1 (x)", "true");
        assert_eq!(odd.status.code(), Some(0), "{:?}", told(&odd));
    }

    #[test]
    fn n_263_w_143_only_https_is_fetched() {
        let cache = Cache::new();
        for url in [
            "http://127.0.0.1/x",
            "file:///etc/passwd",
            "https://",
            "-x",
            "ftp://a/b",
        ] {
            let refused = cache.command(&["fetch", "k", url]).output().unwrap();
            assert_eq!(refused.status.code(), Some(2), "{url}");
        }
        let kind = ["fetch", "k", "https://127.0.0.1/x", "--extract=tar"];
        assert_eq!(
            cache.command(&kind).output().unwrap().status.code(),
            Some(2)
        );
        assert!(!cache.root().join("k").exists());
    }
}
