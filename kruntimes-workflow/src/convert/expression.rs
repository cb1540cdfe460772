//! Rewrites expressions of a CI file, or says why they mean nothing here.

use std::collections::BTreeMap;

use crate::expr::{Body, Segment, segments};

/// What a text of one job may name.
pub(super) struct Names<'a> {
    /// Names of steps by what the file calls them.
    pub(super) steps: &'a BTreeMap<String, String>,
    /// Jobs that the job needs; absent where every job may be read.
    pub(super) needs: Option<&'a [String]>,
}

/// An expression that cannot be kept.
pub(super) struct Refused {
    /// Byte offset in the text.
    pub(super) offset: usize,
    pub(super) code: &'static str,
    pub(super) said: String,
    pub(super) help: Option<String>,
}

/// Rewrites every expression of a text.
pub(super) fn rewrite(text: &str, names: &Names<'_>) -> Result<String, Vec<Refused>> {
    let mut out = String::new();
    let mut refused = Vec::new();
    for segment in segments(text) {
        match segment {
            Ok(Segment::Text(text)) => out.push_str(text),
            Ok(Segment::Expression {
                offset,
                source,
                body,
            }) => match one(source, body, names) {
                Ok(written) => out.push_str(&written),
                Err((code, said, help)) => refused.push(Refused {
                    offset,
                    code,
                    said,
                    help,
                }),
            },
            Err(error) => refused.push(Refused {
                offset: error.offset,
                code: "K030",
                said: error.to_string(),
                help: None,
            }),
        }
    }
    if refused.is_empty() {
        Ok(out)
    } else {
        Err(refused)
    }
}

type Said = (&'static str, String, Option<String>);

fn one(source: &str, body: &str, names: &Names<'_>) -> Result<String, Said> {
    if let Some(rest) = body.strip_prefix("needs.") {
        return needed(body, rest, names);
    }
    match Body::parse(body) {
        Ok(Body::Input(_) | Body::Jobs(_)) => Ok(source.to_owned()),
        Ok(Body::Steps(target)) => {
            let (name, key) = target.split(|name| names.steps.contains_key(name));
            match names.steps.get(name) {
                Some(step) => Ok(format!("${{{{ steps.{step}.outputs.{key} }}}}")),
                None => Err((
                    "K033",
                    format!("`{body}` names no step of this job"),
                    Some("a step is named by its `id`".to_owned()),
                )),
            }
        }
        Ok(Body::Literal(_)) | Err(_) => {
            let context: String = body.chars().take_while(|c| c.is_alphanumeric()).collect();
            Err((
                "K031",
                format!("`{body}` has no equivalent"),
                Some(instead(&context)),
            ))
        }
    }
}

/// `needs.<job>.outputs.<key>` is `jobs.<job>.outputs.<key>` here.
fn needed(body: &str, rest: &str, names: &Names<'_>) -> Result<String, Said> {
    let Some((job, key)) = rest.split_once(".outputs.") else {
        let said = format!("`{body}` has no equivalent");
        let help = "only `needs.<job>.outputs.<key>` can be read".to_owned();
        return Err(("K031", said, Some(help)));
    };
    let is_needed = names
        .needs
        .is_none_or(|needs| needs.iter().any(|need| need == job));
    if is_needed {
        return Ok(format!("${{{{ jobs.{job}.outputs.{key} }}}}"));
    }
    let said = format!("`{body}` reads a job that this job does not need");
    Err(("K034", said, Some(format!("add `{job}` to `needs`"))))
}

fn instead(context: &str) -> String {
    match context {
        "secrets" => "mount secrets into the Runtime".to_owned(),
        "github" | "runner" | "job" | "strategy" => {
            "declare an input, or read the environment in the script".to_owned()
        }
        "env" | "vars" => "write `$NAME` in the script".to_owned(),
        "matrix" => "there is no matrix: write one job per combination".to_owned(),
        _ => "an expression is `inputs.<name>`, `steps.<id>.outputs.<key>` or \
              `needs.<job>.outputs.<key>`; there are no operators and no functions"
            .to_owned(),
    }
}
