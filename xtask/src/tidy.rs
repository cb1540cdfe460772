//! House rules that no compiler knows: sizes, headers, names, and what tests must not do.

use std::path::Path;
use std::{fmt, fs};

use crate::root;

/// Most lines of a source file, its tests excluded.
const FILE_MAX_LINES: usize = 500;
/// File names that say nothing.
const BANNED_NAMES: [&str; 5] = ["utils", "helpers", "common", "manager", "types"];
/// Endings of files that are read as text.
const TEXT_ENDINGS: [&str; 9] = [
    "rs", "toml", "md", "yaml", "yml", "json", "proto", "tpl", "sh",
];

/// Why the repository is not tidy or could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A file cannot be accessed.
    #[error(transparent)]
    Access(#[from] root::Error),
    /// Rules are broken.
    #[error("untidy:\n{}", lines(.0))]
    Untidy(Vec<Finding>),
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counts from one; zero stands for the file as a whole.
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

fn lines(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(|f| format!("  {f}")).collect();
    lines.join("\n")
}

/// Checks every file of the repository.
///
/// # Errors
///
/// Fails when a file cannot be read, or with everything that is untidy.
pub(crate) fn run() -> Result<(), Error> {
    let root = root::path();
    let mut texts = Vec::new();
    for path in root::files(&root)? {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !ending.is_some_and(|ending| TEXT_ENDINGS.contains(&ending)) {
            continue;
        }
        let text = fs::read(&path).map_err(root::Error::at(&path))?;
        let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy();
        let text = String::from_utf8_lossy(&text).into_owned();
        texts.push((shown.into_owned(), text));
    }
    let findings = check_all(&texts);
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Error::Untidy(findings))
    }
}

/// What is untidy in files, given with their paths relative to the root.
fn check_all(texts: &[(String, String)]) -> Vec<Finding> {
    let modules = texts
        .iter()
        .flat_map(|(path, text)| test_modules(path, text));
    let modules: Vec<String> = modules.collect();
    let found = texts.iter().flat_map(|(path, text)| {
        let is_test = modules.iter().any(|module| {
            let rest = path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        check(
            path,
            text,
            is_test || path.split('/').any(|part| part == "tests"),
        )
    });
    found.collect()
}

/// Modules in files of their own that only tests compile, as paths without ending.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let Some(file) = path.strip_suffix(".rs") else {
        return Vec::new();
    };
    let (parent, name) = file.rsplit_once('/').unwrap_or(("", file));
    let directory = if ["mod", "lib", "main"].contains(&name) {
        parent
    } else {
        file
    };
    let lines: Vec<&str> = text.lines().collect();
    let gated = lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
    gated.map(|name| format!("{directory}/{name}")).collect()
}

/// What is untidy in one file.
fn check(path: &str, text: &str, is_test: bool) -> Vec<Finding> {
    let mut report = Report {
        path,
        is_test,
        findings: Vec::new(),
    };
    report.places(text);
    report.name();
    let is_rust = Path::new(path).extension().is_some_and(|e| e == "rs");
    if is_rust && !is_generated(path) {
        report.size(text);
        report.header(text);
        report.stubs(text);
        report.waiting(text);
        report.forks(text);
    }
    report.findings
}

fn is_generated(path: &str) -> bool {
    path.split('/').any(|part| part == "generated")
}

/// Number of lines before the test module.
fn product_lines(text: &str) -> usize {
    let mut attribute = None;
    for (index, line) in text.lines().enumerate() {
        match (line.trim_end(), attribute) {
            ("#[cfg(test)]", _) => attribute = Some(index),
            ("mod tests {", Some(start)) => return start,
            (line, Some(_)) if line.starts_with("#[") => {}
            _ => attribute = None,
        }
    }
    text.lines().count()
}

struct Report<'a> {
    path: &'a str,
    /// The whole file serves tests.
    is_test: bool,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn add(&mut self, line: usize, what: impl Into<String>) {
        self.findings.push(Finding {
            path: self.path.to_owned(),
            line,
            what: what.into(),
        });
    }

    fn add_where(&mut self, text: &str, skip: usize, needle: &str, what: &str) {
        for (index, line) in text.lines().enumerate().skip(skip) {
            if line.contains(needle) {
                self.add(index + 1, what);
            }
        }
    }

    /// The needles are put together here, so that this file does not find itself.
    fn places(&mut self, text: &str) {
        for place in ["work", "root", "farm"] {
            let needle = format!("/{place}/");
            for (index, line) in text.lines().enumerate() {
                let starts = line.match_indices(&needle).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || "._-~}*".contains(c))
                });
                if starts {
                    self.add(index + 1, "path of one machine");
                }
            }
        }
    }

    fn name(&mut self) {
        let path = Path::new(self.path);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let parent = path.parent().and_then(Path::file_name);
        let parent = parent.and_then(|name| name.to_str());
        let named = if stem == Some("mod") { parent } else { stem };
        if let Some(name) = named.filter(|name| BANNED_NAMES.contains(name)) {
            self.add(0, format!("a file named {name} says nothing"));
        }
    }

    fn size(&mut self, text: &str) {
        let lines = product_lines(text);
        if lines > FILE_MAX_LINES && !self.is_test {
            self.add(
                0,
                format!("{lines} lines without tests, limit {FILE_MAX_LINES}"),
            );
        }
    }

    fn header(&mut self, text: &str) {
        if !text.starts_with("//!") {
            self.add(1, "a file starts with a `//!` comment");
        }
    }

    fn stubs(&mut self, text: &str) {
        for name in ["todo", "unimplemented"] {
            self.add_where(text, 0, &format!("{name}!("), "stub");
        }
        let ignored = format!("#[{}]", "ignore");
        self.add_where(text, 0, &ignored, "ignored without a reason");
    }

    /// A closure between fork and exec keeps the standard library from `posix_spawn`: it would copy the page
    /// tables of the whole process instead.
    fn forks(&mut self, text: &str) {
        for name in ["pre_exec", "before_exec"] {
            let what = "a program is started by posix_spawn";
            self.add_where(text, 0, &format!(".{name}("), what);
        }
    }

    /// A test on a paused clock may sleep: that costs no time.
    fn waiting(&mut self, text: &str) {
        let skip = if self.is_test { 0 } else { product_lines(text) };
        let asleep = |module: &str| format!("{module}::{}(", "sleep");
        self.add_where(text, skip, &asleep("thread"), "a test does not sleep");
        let paused = ["start_paused", "time::pause("];
        if !paused.iter().any(|mark| text.contains(mark)) {
            self.add_where(text, skip, &asleep("time"), "a test does not sleep");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        found_in(&[(path, text)])
    }

    fn found_in(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        check_all(&files).iter().map(ToString::to_string).collect()
    }

    fn call(name: &str, end: &str) -> String {
        format!("//! A file.\nfn f() {{ {name}{end} }}\n")
    }

    #[test]
    fn a_tidy_file_has_no_findings() {
        let text = "//! A file.\n\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert!(found("a/src/b.rs", text).is_empty());
        assert!(found("README.md", "text").is_empty());
    }

    #[test]
    fn files_are_measured_without_their_tests() {
        let body = "fn f() {}\n".repeat(499);
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        assert!(found("a.rs", &format!("//! A.\n{body}{tests}")).is_empty());
        let gated = format!("//! A.\n{body}#[cfg(test)]\nmod tests;\n");
        assert_eq!(
            found("a.rs", &gated),
            ["a.rs: 502 lines without tests, limit 500"]
        );
        assert!(found("a/tests/it/b.rs", &gated).is_empty());
        assert!(found("a/src/generated/b.rs", &gated).is_empty());
    }

    #[test]
    fn modules_of_tests_are_no_product() {
        let long = format!("//! A.\n{}", "fn f() {}\n".repeat(600));
        let gate = "//! A.\n#[cfg(test)]\nmod laws;\n";
        assert_eq!(found("a/src/b/laws.rs", &long).len(), 1);
        for parent in ["a/src/b.rs", "a/src/b/mod.rs"] {
            let files = [(parent, gate), ("a/src/b/laws.rs", long.as_str())];
            assert!(found_in(&files).is_empty(), "{parent}");
        }
        let other = [("a/src/c.rs", gate), ("a/src/b/laws.rs", long.as_str())];
        assert_eq!(found_in(&other).len(), 1);
    }

    #[test]
    fn every_file_starts_with_its_purpose() {
        assert_eq!(
            found("a.rs", "fn f() {}\n"),
            ["a.rs:1: a file starts with a `//!` comment"]
        );
    }

    #[test]
    fn paths_of_one_machine_are_found_at_their_start_only() {
        let home = format!("see /{}/x", "root");
        assert_eq!(found("a.md", &home), ["a.md:1: path of one machine"]);
        let inside = format!("see docs/{}/x and /{}space/x", "work", "work");
        assert!(found("a.md", &inside).is_empty());
    }

    #[test]
    fn empty_names_are_banned() {
        for path in ["a/src/utils.rs", "a/src/types/mod.rs"] {
            assert_eq!(found(path, "//! A.\n").len(), 1, "{path}");
        }
        assert!(found("a/src/mod.rs", "//! A.\n").is_empty());
    }

    #[test]
    fn stubs_and_bare_ignores_are_found() {
        for name in ["todo", "unimplemented"] {
            assert_eq!(found("a.rs", &call(name, "!()")), ["a.rs:2: stub"]);
        }
        let bare = format!("//! A.\n#[{}]\n", "ignore");
        assert_eq!(found("a.rs", &bare), ["a.rs:2: ignored without a reason"]);
        let reasoned = format!("//! A.\n#[{} = \"needs a cluster\"]\n", "ignore");
        assert!(found("a.rs", &reasoned).is_empty());
    }

    #[test]
    fn tests_do_not_sleep_unless_the_clock_is_paused() {
        let thread = call(&format!("std::thread::{}", "sleep"), "(d)");
        let timer = call(&format!("tokio::time::{}", "sleep"), "(d).await");
        let paused = format!("{timer}#[tokio::test(start_paused = true)]\n");
        let line = ["a/tests/it/b.rs:2: a test does not sleep"];
        assert_eq!(found("a/tests/it/b.rs", &thread), line);
        assert_eq!(found("a/tests/it/b.rs", &timer), line);
        assert!(found("a/tests/it/b.rs", &paused).is_empty());
        assert!(found("a/src/b.rs", &timer).is_empty());
    }

    #[test]
    fn nothing_runs_between_fork_and_exec() {
        for name in ["pre_exec", "before_exec"] {
            let text = call(&format!("command.{name}"), "(|| Ok(()))");
            let line = ["a.rs:2: a program is started by posix_spawn"];
            assert_eq!(found("a.rs", &text), line);
            assert_eq!(found("a/tests/it/a.rs", &text).len(), 1, "{name}");
        }
        let group = call("command.process_group", "(0)");
        assert!(found("a.rs", &group).is_empty());
    }

    #[test]
    fn the_repository_is_tidy_as_far_as_this_crate_goes() {
        for name in ["arrows", "crds", "main", "root", "tidy"] {
            let path = format!("xtask/src/{name}.rs");
            let text = fs::read_to_string(root::path().join(&path)).unwrap();
            assert_eq!(found(&path, &text), Vec::<String>::new());
        }
    }
}
