//! Says what is wrong with a template before anything has run (W-38).

use super::scan::Target;
use super::{Body, Contexts, Error, ErrorKind, Segment, segments};

/// The names of one context, as far as a definition tells.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// Names that exist; they decide where a name with dots ends (W-30).
    pub known: &'a dyn Fn(&str) -> bool,
    /// Names that may be read from the text in question.
    pub visible: &'a dyn Fn(&str) -> bool,
}

/// The contexts one text may use. An absent member is not available.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    /// Tells whether an input is declared.
    pub inputs: Option<&'a dyn Fn(&str) -> bool>,
    /// Steps.
    pub steps: Option<Names<'a>>,
    /// Jobs.
    pub jobs: Option<Names<'a>>,
    /// What an embedder adds (W-201).
    pub extra: Option<&'a Contexts>,
}

/// Returns every problem of a template, in reading order, with the texts of evaluation.
///
/// Keys are not judged: only a finished step knows its outputs.
pub fn check(template: &str, known: &Known<'_>) -> Vec<Error> {
    let mut problems = Vec::new();
    for segment in segments(template) {
        match segment {
            Ok(Segment::Text(_)) => {}
            Ok(Segment::Expression { offset, body, .. }) => {
                if let Err(kind) = judge(body, known) {
                    problems.push(Error { offset, kind });
                }
            }
            Err(error) => problems.push(error),
        }
    }
    problems
}

fn judge(body: &str, known: &Known<'_>) -> Result<(), ErrorKind> {
    let parsed = match Body::parse(body) {
        Ok(parsed) => parsed,
        Err(kind @ ErrorKind::UnknownPrefix(_)) => {
            let extra = known.extra.and_then(|extra| extra.check(body));
            return extra.unwrap_or(Err(kind));
        }
        Err(kind) => return Err(kind),
    };
    match parsed {
        Body::Literal(_) => Ok(()),
        Body::Input(name) => {
            let declared = known.inputs.ok_or(ErrorKind::NoInputs)?;
            if declared(name) {
                return Ok(());
            }
            Err(ErrorKind::NoInput(name.to_owned()))
        }
        Body::Steps(target) => output(target, known.steps),
        Body::Jobs(target) => output(target, known.jobs),
    }
}

fn output(target: Target<'_>, names: Option<Names<'_>>) -> Result<(), ErrorKind> {
    let names = names.ok_or(ErrorKind::NoOutputs)?;
    let (name, _key) = target.split(|name| (names.known)(name));
    if (names.visible)(name) {
        return Ok(());
    }
    Err(ErrorKind::NoOutputsFor(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_38_every_problem_is_found_with_its_offset() {
        let is_step = |name: &str| name == "a" || name == "later";
        let known = Known {
            inputs: Some(&|name| name == "x"),
            steps: Some(Names {
                known: &is_step,
                visible: &|name| name == "a",
            }),
            ..Known::default()
        };
        let template = "${{ inputs.x }}${{ inputs.y }} ${{ steps.a.outputs.k }}\
                        ${{ steps.later.outputs.k }}${{ jobs.j.outputs.k }}${{";
        let found: Vec<_> = check(template, &known)
            .iter()
            .map(|error| (error.offset, error.to_string()))
            .collect();
        assert_eq!(
            found,
            [
                (15, "no input \"y\"".to_owned()),
                (55, "no outputs for later".to_owned()),
                (83, "no outputs available".to_owned()),
                (106, "unterminated expression".to_owned()),
            ]
        );
    }
}
