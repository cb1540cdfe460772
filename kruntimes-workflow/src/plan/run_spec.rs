//! Builds the Run of a step: its evaluated texts and its environment (W-119).

use std::collections::BTreeMap;

use kruntimes_core::api::{EnvVar, Mode, RunSpec, Source, Step, TaskMode};
use kruntimes_core::limits::{ARG_MAX_CHARS, ENV_MAX, SCRIPT_MAX_CHARS};

use crate::expr::{Scope, evaluate, measure};

/// Longest evaluated variable: what a process can be given as one string (128 KiB) without its name.
const ENV_VALUE_MAX_CHARS: usize = 131_072;

/// Builds a Run; `published` are variables of earlier steps, which the step's own override (W-132).
///
/// The error is a cause for W-39.
pub(super) fn run_spec(
    runtime: &str,
    step: &Step,
    published: BTreeMap<String, String>,
    scope: &Scope<'_>,
) -> Result<RunSpec, String> {
    let script = step.run.as_deref().unwrap_or_default();
    let script = resolve("run", script, SCRIPT_MAX_CHARS, scope)?;
    let args = step.args.iter().enumerate();
    let args = args
        .map(|(at, arg)| resolve(&format!("arg[{at}]"), arg, ARG_MAX_CHARS, scope))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RunSpec {
        runtime: runtime.to_owned(),
        mode: Mode {
            task: Some(TaskMode {
                entrypoint: None,
                args,
            }),
            ..Mode::default()
        },
        source: Some(Source {
            inline: Some(script),
            ..Source::default()
        }),
        env: environment(step, published, scope)?,
        // Present only where their extensions are on.
        timeout: step.timeout,
        retry_policy: step.retry.as_deref().cloned(),
        ..RunSpec::default()
    })
}

fn environment(
    step: &Step,
    published: BTreeMap<String, String>,
    scope: &Scope<'_>,
) -> Result<Vec<EnvVar>, String> {
    let mut merged = published;
    for (name, template) in &step.env {
        let field = format!("env[{name}]");
        let value = resolve(&field, template, ENV_VALUE_MAX_CHARS, scope)?;
        merged.insert(name.clone(), value);
    }
    if merged.len() > ENV_MAX {
        let count = merged.len();
        return Err(format!(
            "rendered env has {count} entries, exceeds {ENV_MAX}"
        ));
    }
    let variable = |(name, value)| EnvVar {
        name,
        value: Some(value),
        value_from: None,
    };
    Ok(merged.into_iter().map(variable).collect())
}

/// Evaluates one text that may not exceed `limit` characters (W-40).
pub(super) fn resolve(
    field: &str,
    text: &str,
    limit: usize,
    scope: &Scope<'_>,
) -> Result<String, String> {
    if text.len() <= limit && !text.contains('$') {
        return Ok(text.to_owned());
    }
    let located = |error| format!("{field}: {error}");
    let size = measure(text, scope).map_err(located)?;
    if size.chars > limit {
        let bytes = size.bytes;
        return Err(format!(
            "rendered {field} is {bytes} bytes, exceeds {limit}"
        ));
    }
    evaluate(text, scope).map_err(located)
}
