//! `krt lint`: everything that can be said about files without any server (C-65 to C-67).

use std::path::{Path, PathBuf};

use kruntimes_embedded::manifest::{self, Finding, Known, Manifest, Severity, references};
use kruntimes_workflow::convert;
use serde_json::{Value, json};

use crate::args::files::{Lint, Report};
use crate::exit::Exit;
use crate::paint::{Paint, Wishes};
use crate::{diagnostics, file, say};

/// One file and what was found in it.
struct Judged {
    name: String,
    text: String,
    findings: Vec<Finding>,
}

/// Judges every file in one pass; exit code 3 when any has an error.
pub(crate) fn run(request: &Lint) -> Exit {
    let read = read_all(&request.files).and_then(|files| Ok((files, read_all(&request.with)?)));
    let judged = read.and_then(|(files, with)| {
        let judged = judge(files, with.clone(), request);
        if !request.fix {
            return Ok(judged);
        }
        let fixed: Result<Vec<_>, _> = judged.iter().map(fix).collect();
        Ok(judge(fixed?, with, request))
    });
    let mut judged = match judged {
        Ok(judged) => judged,
        Err(error) => {
            say::notice(&say::problem(
                &error,
                "check the path, or use `-` for standard input",
            ));
            return Exit::NotCarriedOut;
        }
    };
    if request.strict {
        for finding in judged.iter_mut().flat_map(|file| &mut file.findings) {
            if finding.severity == Severity::Warning {
                finding.severity = Severity::Error;
            }
        }
    }
    match request.output {
        Report::Text => text(&judged, request),
        Report::Json => say::data(&pretty(&json(&judged))),
        Report::Sarif => say::data(&pretty(&sarif(&judged))),
        Report::Github => {
            let lines: Vec<String> = each(&judged).map(|(file, one)| github(file, one)).collect();
            if !lines.is_empty() {
                say::data(&lines.join("\n"));
            }
        }
    }
    let refused = each(&judged).any(|(_, one)| one.severity == Severity::Error);
    if refused { Exit::Refused } else { Exit::Done }
}

fn each(judged: &[Judged]) -> impl Iterator<Item = (&str, &Finding)> {
    let all = judged.iter();
    all.flat_map(|file| file.findings.iter().map(|one| (file.name.as_str(), one)))
}

/// Reads files, and the YAML files of directories in the order of their names.
fn read_all(paths: &[PathBuf]) -> Result<Vec<(String, String)>, file::FileError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            for path in yaml_files(path)? {
                files.push(file::read(&path)?);
            }
        } else {
            files.push(file::read(path)?);
        }
    }
    Ok(files)
}

fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>, file::FileError> {
    let failed = |source| file::FileError::Unreadable {
        name: directory.display().to_string(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // Links are not followed, so that a circle of them ends.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(yaml_files(&path)?);
        } else if path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the file again with every name corrected that has one near it; returns its name and text.
fn fix(file: &Judged) -> Result<(String, String), file::FileError> {
    let mut text = file.text.clone();
    let mut edits: Vec<(&Finding, &str)> = file
        .findings
        .iter()
        .filter_map(|one| Some((one, rename(file, one)?)))
        .collect();
    edits.sort_by_key(|(one, _)| std::cmp::Reverse(one.span.start));
    edits.dedup_by_key(|(one, _)| one.span.start);
    for (one, name) in &edits {
        text.replace_range(one.span.clone(), name);
    }
    // Standard input cannot be written to, so it is judged as it is.
    if edits.is_empty() || file.name == "<stdin>" {
        return Ok((file.name.clone(), file.text.clone()));
    }
    std::fs::write(&file.name, &text).map_err(|source| file::FileError::Unwritable {
        name: file.name.clone(),
        source,
    })?;
    let count = edits.len();
    let names = if count == 1 { "name" } else { "names" };
    say::notice(&format!("krt: {}: {count} {names} corrected", file.name));
    Ok((file.name.clone(), text))
}

/// The name to write instead, when the remark is about a name alone and knows another one.
fn rename<'a>(file: &Judged, one: &'a Finding) -> Option<&'a str> {
    if !matches!(one.code, "K002" | "K020" | "K043") {
        return None;
    }
    let near = one
        .help
        .as_deref()?
        .strip_prefix("did you mean `")?
        .strip_suffix("`?")?;
    let written = file.text.get(one.span.clone())?;
    let mut names = one.message.split(['`', '"']).skip(1).step_by(2);
    let is_meant = names.any(|name| name.rsplit('.').next() == Some(written));
    is_meant.then_some(near)
}

/// Judges files; `with` is only looked into for what they call.
fn judge(files: Vec<(String, String)>, with: Vec<(String, String)>, request: &Lint) -> Vec<Judged> {
    let mut judged = Vec::new();
    let count = files.len();
    let mut manifests: Vec<(usize, Manifest)> = Vec::new();
    for (index, (name, text)) in files.into_iter().chain(with).enumerate() {
        let findings = if convert::is_ci_file(&text) {
            match convert::convert(&name, &text, &request.conversion()) {
                Ok(converted) => converted.findings,
                Err(findings) => findings,
            }
        } else {
            match manifest::read(&name, &text) {
                Err(findings) => findings,
                Ok(manifest) => {
                    let findings = manifest.check(&Known::default());
                    manifests.push((index, manifest));
                    findings
                }
            }
        };
        judged.push(Judged {
            name,
            text,
            findings,
        });
    }
    let all: Vec<&Manifest> = manifests.iter().map(|(_, manifest)| manifest).collect();
    let found = references(&all, request.require_refs);
    for ((index, _), findings) in manifests.iter().zip(found) {
        let file = &mut judged[*index];
        file.findings.extend(findings);
        file.findings
            .sort_by_key(|one| (one.span.start, one.severity));
    }
    judged.truncate(count);
    judged
}

fn text(judged: &[Judged], request: &Lint) {
    let wishes = Wishes::read();
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let paint = Paint::decide(request.color, wishes, terminal, request.ascii);
    for file in judged.iter().filter(|file| !file.findings.is_empty()) {
        let width = 100;
        let shown = diagnostics::render(&file.name, &file.text, &file.findings, paint, width);
        say::data(&shown);
    }
    let count = |severity| {
        each(judged)
            .filter(|(_, one)| one.severity == severity)
            .count()
    };
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    say::notice(&format!(
        "{}: {}, {}",
        plural(judged.len(), "file"),
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning"),
    ));
}

fn json(judged: &[Judged]) -> Value {
    let finding = |(file, one): (&str, &Finding)| {
        json!({
            "file": file,
            "line": one.line,
            "column": one.column,
            "severity": one.severity.as_str(),
            "code": one.code,
            "message": one.message,
            "help": one.help,
            "document": one.document,
            "path": one.path,
        })
    };
    each(judged).map(finding).collect()
}

/// Static Analysis Results Interchange Format 2.1.0, as code hosts read it.
fn sarif(judged: &[Judged]) -> Value {
    let mut rules: Vec<&str> = each(judged).map(|(_, one)| one.code).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.iter().map(|code| json!({"id": code})).collect();
    let result = |(file, one): (&str, &Finding)| {
        let level = match one.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "note",
        };
        let help = one.help.as_deref();
        let said = help.map_or_else(
            || one.message.clone(),
            |help| format!("{}\n{help}", one.message),
        );
        json!({
            "ruleId": one.code,
            "level": level,
            "message": {"text": said},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": file},
                "region": {"startLine": one.line, "startColumn": one.column},
            }}],
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "krt lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": each(judged).map(result).collect::<Vec<Value>>(),
        }],
    })
}

/// A command of a CI log that puts the finding beside its line.
fn github(file: &str, one: &Finding) -> String {
    let word = match one.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Advice => "notice",
    };
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let file = data(file).replace(':', "%3A").replace(',', "%2C");
    let help = one
        .help
        .as_deref()
        .map_or_else(String::new, |help| format!("\n{help}"));
    let said = data(&format!("{}{help}", one.message));
    let (line, column, code) = (one.line, one.column, one.code);
    format!("::{word} file={file},line={line},col={column},title={code}::{said}")
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
