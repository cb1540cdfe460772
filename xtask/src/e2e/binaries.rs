//! The binaries of the control plane, built once for each set of pinned modules.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::time::Instant;

use super::process::{Process, last_lines};
use super::{Error, say};
use crate::root;

/// What is built, and the Go package of each.
const PROGRAMS: [(&str, &str); 3] = [
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
];
/// How often a long build says that it is still at it.
const STILL_AT_IT: Duration = Duration::from_secs(15);

/// The built programs.
#[derive(Clone, Debug)]
pub(super) struct Binaries {
    directory: PathBuf,
    /// Version of Kubernetes, with its `v`.
    pub(super) version: String,
}

impl Binaries {
    /// Where a program lies.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Builds what is not there yet.
///
/// # Errors
///
/// Fails when there is no suitable Go, or with what Go said.
pub(super) async fn provide() -> Result<Binaries, Error> {
    let modules = root::path().join("tests/control-plane");
    let read = |name: &str| {
        let path = modules.join(name);
        fs::read_to_string(&path).map_err(root::Error::at(&path))
    };
    let (pins, sums) = (read("go.mod")?, read("go.sum")?);
    let toolchain = toolchain(&pins).await?;
    let mut digest = Sha256::new();
    for part in [&pins, &sums, &toolchain] {
        digest.update(part);
        digest.update([0]);
    }
    let mut key = String::new();
    for byte in &digest.finalize()[..8] {
        // Writing into a text cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    let directory = target().join("control-plane").join(key);
    fs::create_dir_all(&directory).map_err(root::Error::at(&directory))?;
    let binaries = Binaries {
        directory,
        version: pinned(&pins, "k8s.io/kubernetes")
            .unwrap_or_default()
            .to_owned(),
    };
    for (name, package) in PROGRAMS {
        if !binaries.path(name).exists() {
            build(&modules, &binaries, name, package).await?;
        }
    }
    Ok(binaries)
}

fn target() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root::path().join(given.unwrap_or_else(|| PathBuf::from("target")))
}

/// Version of a module in a `go.mod`.
fn pinned<'a>(pins: &'a str, module: &str) -> Option<&'a str> {
    let mut requirements = pins.lines().map(str::split_whitespace);
    requirements.find_map(|mut words| (words.next()? == module).then(|| words.next())?)
}

/// Returns which Go there is; it must be as new as `go.mod` says.
async fn toolchain(pins: &str) -> Result<String, Error> {
    let wanted = pinned(pins, "go").unwrap_or_default();
    let mut go = Command::new("go");
    let asked = go.args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local");
    let answer = asked.stdin(Stdio::null()).output().await;
    let answer = answer.ok().filter(|answer| answer.status.success());
    let Some(answer) = answer else {
        return Err(Error::NoGo(format!(
            "building a control plane needs Go {wanted} or newer, and there is no `go` here"
        )));
    };
    let found = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if numbers(&found) < numbers(wanted) {
        return Err(Error::NoGo(format!(
            "building a control plane needs Go {wanted} or newer, and `go` is {found}"
        )));
    }
    Ok(found)
}

/// The numbers of a version: `go1.26.0` is 1, 26, 0.
fn numbers(version: &str) -> Vec<u32> {
    let digits = version.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let plain = digits.split(|letter: char| letter != '.' && !letter.is_ascii_digit());
    let parts = plain.take(1).flat_map(|plain| plain.split('.'));
    parts.filter_map(|part| part.parse().ok()).collect()
}

async fn build(
    modules: &Path,
    binaries: &Binaries,
    name: &str,
    package: &str,
) -> Result<(), Error> {
    say(&format!(
        "building {name} ({package}); without a warm Go cache this takes minutes"
    ));
    let began = Instant::now();
    let unfinished = binaries.path(&format!("{name}.unfinished"));
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-mod=readonly"])
        .arg(format!("-ldflags={}", link_flags(&binaries.version)))
        .arg("-o")
        .arg(&unfinished)
        .arg(package)
        .current_dir(modules)
        .env("GOTOOLCHAIN", "local")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = Process::start(&mut go)?;
    let (status, log) = {
        let finished = process.complained();
        tokio::pin!(finished);
        loop {
            match tokio::time::timeout(STILL_AT_IT, &mut finished).await {
                Ok(finished) => break finished?,
                Err(_) => say(&format!("  {name}: {} s", began.elapsed().as_secs())),
            }
        }
    };
    if !status.success() {
        return Err(Error::Build {
            name: name.to_owned(),
            log: last_lines(&log),
        });
    }
    let path = binaries.path(name);
    fs::rename(&unfinished, &path).map_err(root::Error::at(&path))?;
    say(&format!("built {name} in {} s", began.elapsed().as_secs()));
    Ok(())
}

/// Makes the programs say which version they are, which clients parse.
fn link_flags(version: &str) -> String {
    let numbers = numbers(version);
    let number = |index: usize| numbers.get(index).copied().unwrap_or_default();
    let variable = "k8s.io/component-base/version";
    format!(
        "-s -w -X {variable}.gitVersion={version} -X {variable}.gitMajor={} -X {variable}.gitMinor={}",
        number(0),
        number(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINS: &str = "module m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.1.0 // indirect\n\t\
        k8s.io/kubernetes v1.36.3 // indirect\n)\n";

    #[test]
    fn versions_are_read_from_the_pins() {
        assert_eq!(pinned(PINS, "k8s.io/kubernetes"), Some("v1.36.3"));
        assert_eq!(pinned(PINS, "go"), Some("1.26.0"));
        assert_eq!(pinned(PINS, "k8s.io/kube"), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers("go1.26.8"), [1, 26, 8]);
        assert_eq!(numbers("go1.27rc1"), [1, 27]);
        assert!(numbers("go1.9.7") < numbers("1.26.0"));
        assert!(numbers("go1.27rc1") > numbers("1.26.0"));
    }

    #[test]
    fn the_committed_pins_name_a_release() {
        let path = root::path().join("tests/control-plane/go.mod");
        let pins = fs::read_to_string(path).unwrap();
        let version = pinned(&pins, "k8s.io/kubernetes").unwrap();
        assert_eq!(numbers(version).len(), 3, "{version}");
        let flags = link_flags(version);
        assert!(flags.contains(&format!("gitVersion={version} ")), "{flags}");
        for (_, package) in PROGRAMS {
            assert!(
                pins.contains(&format!("\t{package}\n")),
                "{package} is no tool"
            );
        }
    }
}
