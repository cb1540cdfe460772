//! Findings as text: where, what, the line with a mark under it, what to write instead.

use std::fmt;
use std::fmt::Write as _;

use kruntimes_embedded::manifest::{Finding, Severity};
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters,
    ThemeStyles,
};

use crate::paint::Paint;

/// One finding as miette wants it. Its text is the path; the headline stands in front of it.
#[derive(Debug)]
struct Shown<'a> {
    finding: &'a Finding,
    text: &'a str,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.finding.path.is_empty() {
            // People count documents from one.
            return write!(f, "document {}", self.finding.document + 1);
        }
        f.write_str(&self.finding.path)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.finding.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Advice => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.finding.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = &self.finding.span;
        // A mark goes under one line; the rest of a longer text needs none.
        let marked = self.text[span.clone()].lines().next().unwrap_or_default();
        let length = marked.trim_end().len();
        let label = LabeledSpan::new(None, span.start, length);
        Some(Box::new(std::iter::once(label)))
    }
}

/// Renders findings about a file (C-65): `file:line:column: error[Kxxx]: message`, then the place.
pub(crate) fn render(
    name: &str,
    text: &str,
    findings: &[Finding],
    paint: Paint,
    width: usize,
) -> String {
    let theme = GraphicalTheme {
        characters: if paint.ascii {
            ThemeCharacters::ascii()
        } else {
            ThemeCharacters::unicode()
        },
        styles: if paint.color {
            ThemeStyles::ansi()
        } else {
            ThemeStyles::none()
        },
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(width)
        .with_context_lines(1)
        .without_cause_chain()
        .with_links(false);
    let mut out = String::new();
    for finding in findings {
        let (line, column) = (finding.line, finding.column);
        let class = format!("{}[{}]", finding.severity.as_str(), finding.code);
        let class = match finding.severity {
            Severity::Error => paint.phase("Failed", &class),
            Severity::Warning | Severity::Advice => paint.phase("Cancelled", &class),
        };
        let headline = paint.strong(&finding.message);
        let _ = writeln!(out, "{name}:{line}:{column}: {class}: {headline}");
        let _ = handler.render_report(&mut out, &Shown { finding, text });
        out.push('\n');
    }
    out
}

/// Says how many findings there were and that nothing ran.
pub(crate) fn verdict(name: &str, findings: &[Finding]) -> String {
    let count = |severity| {
        let all = findings.iter();
        all.filter(|finding| finding.severity == severity).count()
    };
    let said = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{count} {word}s")),
    };
    let parts = [
        said(count(Severity::Error), "error"),
        said(count(Severity::Warning), "warning"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{name}: {}; nothing was run", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use kruntimes_embedded::manifest::{Known, read};

    use super::*;

    const BROKEN: &str = "\
apiVersion: kruntimes.io/v1alpha1
kind: WorkflowRun
metadata:
  name: broken
spec:
  jobs:
    build:
      runs-on: bsah
      stpes: []
      steps:
      - name: compile
        run: |
          cc main.c
          echo ${{ steps.link.outputs.size }}
    test:
      runs-on: bash
      needs: biuld
      steps:
      - name: run
        run: make test
";

    fn rendered(ascii: bool) -> String {
        let manifest = read("broken.yaml", BROKEN).unwrap();
        let mut findings = manifest.check(&Known {
            runtimes: Some(vec!["bash".into()]),
            inputs: Some(Vec::new()),
            ..Known::default()
        });
        findings.retain(|finding| finding.severity != Severity::Advice);
        let paint = Paint {
            color: false,
            ascii,
        };
        let shown = render("broken.yaml", BROKEN, &findings, paint, 100);
        format!("{shown}{}", verdict("broken.yaml", &findings))
    }

    #[test]
    fn c_65_a_finding_shows_place_line_mark_and_hint() {
        insta::assert_snapshot!(rendered(false));
    }

    #[test]
    fn c_10_diagnostics_can_be_ascii() {
        assert!(rendered(true).is_ascii());
    }
}
