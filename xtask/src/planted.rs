//! Planted bugs: the tests of the tests.
//!
//! Each patch in the tests' folder breaks one promise on purpose and names the test that must notice. `planted` applies
//! one after another to a copy of the sources and tells which were found; `planted --check` only looks whether every
//! patch still applies.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::root;

/// Where the patches are kept.
const FOLDER: &str = "kruntimes-embedded/tests/planted";
/// Where the copy of the sources and its build products go.
const WORKSHOP: &str = "target/planted";

/// Why the planted bugs could not be tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] root::Error),
    /// A program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A program ended badly where it should not.
    #[error("{what}:\n{told}")]
    Failed {
        /// What was to be done.
        what: String,
        /// What it said.
        told: String,
    },
    /// A patch does not say what it is.
    #[error("{0} does not begin with the lines `Bug:` and `Test:`")]
    Unlabelled(String),
    /// No patch has this name.
    #[error("no planted bug is called {0}")]
    Unknown(String),
    /// More got away than may.
    #[error("{found} of {planted} planted bugs were found")]
    Missed {
        /// How many were found.
        found: usize,
        /// How many there are.
        planted: usize,
    },
}

/// One planted bug.
#[derive(Debug)]
struct Planted {
    name: String,
    patch: PathBuf,
    /// What is broken, for people.
    bug: String,
    /// Arguments of `cargo test`.
    test: Vec<String>,
}

impl Planted {
    fn read(patch: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(patch).map_err(root::Error::at(patch))?;
        let name = patch
            .file_stem()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        let line = |label: &str| {
            let mut lines = text.lines().take(2);
            let found = lines.find_map(|line| line.strip_prefix(label));
            found.map(|rest| rest.trim().to_owned())
        };
        let (Some(bug), Some(test)) = (line("Bug:"), line("Test:")) else {
            return Err(Error::Unlabelled(name.to_owned()));
        };
        Ok(Self {
            name: name.to_owned(),
            patch: patch.to_owned(),
            bug,
            test: test.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

/// Tries the planted bugs of these names, all if there are none; with `--check` only whether they apply.
///
/// # Errors
///
/// Fails when a patch cannot be applied or built, or when fewer than nine of ten are found.
pub(crate) fn run(words: &[&str]) -> Result<(), Error> {
    let all = planted()?;
    if words == ["--check"] {
        for bug in &all {
            check(bug)?;
        }
        tell(&format!("{} planted bugs apply", all.len()));
        return Ok(());
    }
    if let Some(word) = words
        .iter()
        .find(|word| !all.iter().any(|bug| is(bug, word)))
    {
        return Err(Error::Unknown((*word).to_owned()));
    }
    let chosen = all
        .iter()
        .filter(|bug| words.is_empty() || words.iter().any(|word| is(bug, word)));
    let workshop = Workshop::open()?;
    let (mut found, mut tried) = (0, 0);
    for bug in chosen {
        let noticed = workshop.try_out(bug)?;
        tried += 1;
        found += usize::from(noticed.is_some());
        let verdict = noticed.unwrap_or_else(|| "NOT FOUND".to_owned());
        tell(&format!("{}: {}\n    {verdict}", bug.name, bug.bug));
    }
    tell(&format!("{found} of {tried} found"));
    if found * 10 < tried * 9 {
        return Err(Error::Missed {
            found,
            planted: tried,
        });
    }
    Ok(())
}

/// Says something at once: the next try takes minutes.
fn tell(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Tells whether a word names a bug: by its name or by its number.
fn is(bug: &Planted, word: &str) -> bool {
    let number = bug.name.split('-').next();
    bug.name == word || number == Some(word)
}

fn planted() -> Result<Vec<Planted>, Error> {
    let folder = root::path().join(FOLDER);
    let files = root::files(&folder)?;
    let patches = files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "patch"));
    patches.map(|file| Planted::read(file)).collect()
}

fn check(bug: &Planted) -> Result<(), Error> {
    let what = format!("{} does not apply any more", bug.name);
    apply(&root::path(), bug, &["--check"], &what)
}

fn apply(directory: &Path, bug: &Planted, options: &[&str], what: &str) -> Result<(), Error> {
    let mut git = Command::new("git");
    git.arg("apply").arg("-C1").args(options).arg(&bug.patch);
    expect(git.current_dir(directory), what).map(drop)
}

fn output(command: &mut Command) -> Result<Output, Error> {
    command.output().map_err(|source| Error::Start {
        program: command.get_program().display().to_string(),
        source,
    })
}

fn expect(command: &mut Command, what: &str) -> Result<Output, Error> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::Failed {
        what: what.to_owned(),
        told: tail(&output.stderr),
    })
}

/// The last lines of what a program said.
fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// A copy of the sources that patches are applied to.
struct Workshop {
    sources: PathBuf,
    products: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self, Error> {
        let directory = root::path().join(WORKSHOP);
        let sources = directory.join("sources");
        if sources.exists() {
            fs::remove_dir_all(&sources).map_err(root::Error::at(&sources))?;
        }
        let here = root::path();
        for file in root::files(&here)? {
            let Ok(way) = file.strip_prefix(&here) else {
                continue;
            };
            let copy = sources.join(way);
            if let Some(parent) = copy.parent() {
                fs::create_dir_all(parent).map_err(root::Error::at(parent))?;
            }
            // The time of the last change is kept, so that cargo builds only what is new.
            let time = fs::metadata(&file).and_then(|meta| meta.modified());
            fs::copy(&file, &copy).map_err(root::Error::at(&file))?;
            let opened = fs::File::options().write(true).open(&copy);
            let stamped = opened.and_then(|opened| opened.set_modified(time?));
            stamped.map_err(root::Error::at(&copy))?;
        }
        // A repository of its own, or git would apply patches to the one around it.
        let mut git = Command::new("git");
        git.args(["init", "--quiet"]).current_dir(&sources);
        expect(&mut git, "git init failed")?;
        Ok(Self {
            sources,
            products: directory.join("products"),
        })
    }

    /// Applies a bug, runs its test and takes the bug back; returns what the test said if it noticed.
    fn try_out(&self, bug: &Planted) -> Result<Option<String>, Error> {
        let what = format!("{} does not apply any more", bug.name);
        apply(&self.sources, bug, &[], &what)?;
        let tried = self.test(bug);
        let what = format!("{} cannot be taken back", bug.name);
        apply(&self.sources, bug, &["--reverse"], &what)?;
        tried
    }

    fn test(&self, bug: &Planted) -> Result<Option<String>, Error> {
        let cargo = || {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(&self.sources);
            cargo.env("CARGO_TARGET_DIR", &self.products);
            cargo.args(["test", "--quiet", "--locked"]);
            cargo
        };
        let (mut build, mut run) = (cargo(), cargo());
        let what = format!("{} cannot be built", bug.name);
        // What follows `--` is for the test program.
        let split = bug.test.iter().position(|word| word == "--");
        let for_cargo = &bug.test[..split.unwrap_or(bug.test.len())];
        expect(build.args(for_cargo).arg("--no-run"), &what)?;
        let output = output(run.args(&bug.test))?;
        if output.status.success() {
            return Ok(None);
        }
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        let mut words = told.lines().filter(|line| is_verdict(line));
        let words = words.next().unwrap_or("the test failed").trim().to_owned();
        Ok(Some(words))
    }
}

/// Tells whether a line of a failed test says what was broken.
fn is_verdict(line: &str) -> bool {
    let begins = |word: &str| line.starts_with(word);
    begins("schedule ") || begins("seed ") || line.contains("invariant ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_still_applies_and_says_what_it_is() {
        let all = planted().unwrap();
        assert!(all.len() >= 10, "{}", all.len());
        for bug in &all {
            check(bug).unwrap();
            assert!(!bug.bug.is_empty() && !bug.test.is_empty(), "{}", bug.name);
        }
    }

    #[test]
    fn a_bug_is_called_by_its_name_or_its_number() {
        let bug = Planted {
            name: "03-no-fence".to_owned(),
            patch: PathBuf::new(),
            bug: String::new(),
            test: Vec::new(),
        };
        assert!(is(&bug, "03") && is(&bug, "03-no-fence"));
        assert!(!is(&bug, "3") && !is(&bug, "no-fence"));
    }
}
