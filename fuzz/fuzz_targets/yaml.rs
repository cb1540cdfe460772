//! Manifests and CI files: findings lie inside the file, and what is converted can be read back.
#![no_main]

use kruntimes_workflow::convert::{Options, convert, to_yaml};
use kruntimes_workflow::yaml::{self, Finding};
use libfuzzer_sys::fuzz_target;

fn inside(findings: &[Finding], text: &str) {
    let lines = text.lines().count().max(1);
    for finding in findings {
        assert!(text.get(finding.span.clone()).is_some(), "{finding:?}");
        assert!(finding.line >= 1 && finding.column >= 1, "{finding:?}");
        assert!(finding.line <= lines + 1, "{finding:?}");
    }
}

fuzz_target!(|text: &str| {
    match yaml::read("f.yaml", text) {
        Ok((_, findings)) | Err(findings) => inside(&findings, text),
    }
    match convert("ci.yaml", text, &Options::default()) {
        Err(findings) => inside(&findings, text),
        Ok(converted) => {
            inside(&converted.findings, text);
            let manifest = to_yaml("ci.yaml", &converted);
            assert!(yaml::read("out.yaml", &manifest).is_ok(), "{manifest}");
        }
    }
});
