//! Readers of foreign text: no input panics, and what is read is read the same way twice.

use std::collections::BTreeMap;

use kruntimes_workflow::convert::{Options, convert, to_yaml};
use kruntimes_workflow::driver::{End, Execution};
use kruntimes_workflow::expr::{Known, Scope, check, evaluate, measure};
use kruntimes_workflow::snapshot::Snapshot;
use kruntimes_workflow::yaml::{self, Finding};

use crate::mutation::run;

const ROUNDS: usize = 4000;

#[test]
fn w_195_expressions_of_any_text_are_measured_as_they_are_evaluated() {
    let inputs: BTreeMap<String, String> = [("x".to_owned(), "${{ y }}".to_owned())].into();
    run("expression", ROUNDS, |text| {
        let text = String::from_utf8_lossy(text);
        let scope = Scope {
            inputs: Some(&inputs),
            ..Scope::default()
        };
        let known = Known {
            inputs: Some(&|name| name == "x"),
            ..Known::default()
        };
        let found = check(&text, &known);
        match (evaluate(&text, &scope), measure(&text, &scope)) {
            (Ok(value), Ok(size)) => {
                assert_eq!(
                    (value.len(), value.chars().count()),
                    (size.bytes, size.chars)
                );
                assert_eq!(found, []);
            }
            (Err(value), Err(size)) => {
                assert_eq!(value, size);
                assert_eq!(found.first(), Some(&value));
            }
            (value, size) => panic!("{text:?}: {value:?} and {size:?}"),
        }
    });
}

#[test]
fn w_195_w_137_outputs_read_in_pieces_are_those_read_at_once() {
    run("outputs", ROUNDS, |file| {
        let whole = kruntimes_core::outputs::parse(file);
        let mut parser = kruntimes_core::outputs::Parser::default();
        let fed = file.chunks(3).try_for_each(|piece| parser.feed(piece));
        assert_eq!(fed.and_then(|()| parser.finish()), whole);
        let end = End::from_outputs_file(file);
        assert_eq!(
            end.outputs.is_empty(),
            whole.is_err() || whole.unwrap().is_empty()
        );
    });
}

#[test]
fn w_195_w_51_a_snapshot_that_loads_is_written_as_it_was_read() {
    run("snapshot", ROUNDS, |text| {
        let Ok(value) = serde_json::from_slice(text) else {
            return;
        };
        if let Ok(snapshot) = Snapshot::from_value("ns/n", &value) {
            let again: serde_json::Value = serde_json::from_slice(&snapshot.to_bytes()).unwrap();
            assert_eq!(Snapshot::from_value("ns/n", &again).unwrap(), snapshot);
        }
    });
}

#[test]
fn w_195_w_191_a_state_that_loads_is_written_as_it_was_read() {
    run("state", ROUNDS, |text| {
        let Ok(state) = Execution::from_json(&String::from_utf8_lossy(text)) else {
            return;
        };
        let written = state.to_json();
        let again = Execution::from_json(&written).unwrap();
        assert_eq!(again.to_json(), written);
    });
}

fn inside(findings: &[Finding], text: &str) {
    for finding in findings {
        assert!(text.get(finding.span.clone()).is_some(), "{finding:?}");
        assert!(finding.line >= 1 && finding.column >= 1, "{finding:?}");
        assert!(
            finding.line <= text.lines().count().max(1) + 1,
            "{finding:?}"
        );
    }
}

#[test]
fn w_195_findings_in_any_yaml_lie_inside_the_file() {
    run("yaml", ROUNDS / 2, |text| {
        let text = String::from_utf8_lossy(text);
        match yaml::read("f.yaml", &text) {
            Ok((_, findings)) | Err(findings) => inside(&findings, &text),
        }
    });
}

#[test]
fn w_195_c_89_what_any_ci_file_becomes_can_be_read_back() {
    run("ci", ROUNDS / 2, |text| {
        let text = String::from_utf8_lossy(text);
        match convert("ci.yaml", &text, &Options::default()) {
            Err(findings) => inside(&findings, &text),
            Ok(converted) => {
                inside(&converted.findings, &text);
                let manifest = to_yaml("ci.yaml", &converted);
                let read = yaml::read("out.yaml", &manifest);
                assert!(read.is_ok(), "{manifest}\n{read:?}");
            }
        }
    });
}

/// W-195: the work grows with the size, whatever is nested in what.
#[test]
fn w_195_large_texts_of_one_kind_are_no_trap() {
    for piece in ["${{", "${{ '", "}}", "$${{ 'x' }}", "''", "${{ inputs.x }}"] {
        let text = piece.repeat(200_000 / piece.len());
        let found = check(&text, &Known::default());
        assert!(found.len() <= text.len());
    }
    for piece in ["[", "{a: ", "- ", "&a [*a, ", "\"", "? "] {
        let text = piece.repeat(2000);
        match yaml::read("f.yaml", &text) {
            Ok((_, findings)) | Err(findings) => inside(&findings, &text),
        }
    }
}
