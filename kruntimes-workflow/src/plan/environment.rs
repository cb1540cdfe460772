//! Variables that steps publish for later steps of their job (section 13.4).

use std::collections::BTreeMap;

use kruntimes_core::api::StepPhase;
use kruntimes_core::keys::OUTPUT_ENV_PREFIX;
use kruntimes_core::message::quoted;

use super::scopes::Slot;

/// Merges what earlier successful steps published into `environment`; later ones win (W-132).
///
/// The error is the text of W-133.
pub(super) fn publish(
    environment: &mut BTreeMap<String, String>,
    earlier: &[impl Slot],
) -> Result<(), String> {
    for (key, value) in published(earlier) {
        let name = key.strip_prefix(OUTPUT_ENV_PREFIX).unwrap_or(key);
        if let Err(cause) = check(name) {
            let key = quoted(key);
            return Err(format!(
                "reserved environment output {key} has invalid variable name: {cause}"
            ));
        }
        environment.insert(name.to_owned(), value.clone());
    }
    Ok(())
}

/// Lists the reserved outputs of successful steps, in step order.
pub(super) fn published(steps: &[impl Slot]) -> impl Iterator<Item = (&String, &String)> {
    let done = steps
        .iter()
        .filter(|step| step.phase() == StepPhase::Succeeded);
    done.flat_map(Slot::outputs)
        .filter(|(key, _)| key.starts_with(OUTPUT_ENV_PREFIX))
}

fn check(name: &str) -> Result<(), &'static str> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(first) || !name.chars().all(rest) {
        return Err("must match [A-Za-z_][A-Za-z0-9_]*");
    }
    if name.starts_with("KRUNTIME_") {
        return Err("must not start with KRUNTIME_");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::StepStatus;

    use super::*;

    fn merged(steps: &[StepStatus]) -> Result<BTreeMap<String, String>, String> {
        let mut environment = BTreeMap::new();
        publish(&mut environment, steps).map(|()| environment)
    }

    fn step(phase: StepPhase, entries: &[(&str, &str)]) -> StepStatus {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        StepStatus {
            phase,
            outputs: entries.iter().map(own).collect(),
            ..StepStatus::default()
        }
    }

    #[test]
    fn w_132_w_135_later_successful_steps_win() {
        let steps = [
            step(
                StepPhase::Succeeded,
                &[("kruntimes.io/env/A", "1"), ("kruntimes.io/env/B", "1")],
            ),
            step(
                StepPhase::Succeeded,
                &[
                    ("kruntimes.io/env/A", "${{ x }}"),
                    ("v", "kruntimes.io/env/C"),
                ],
            ),
            step(StepPhase::Failed, &[("kruntimes.io/env/B", "failed")]),
        ];
        let want = [("A", "${{ x }}"), ("B", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(merged(&steps).unwrap(), want.into());
    }

    #[test]
    fn w_133_names_are_checked() {
        for (name, cause) in [
            ("", "must match [A-Za-z_][A-Za-z0-9_]*"),
            ("9A", "must match [A-Za-z_][A-Za-z0-9_]*"),
            ("A-B", "must match [A-Za-z_][A-Za-z0-9_]*"),
            ("KRUNTIME_OUTPUTS", "must not start with KRUNTIME_"),
        ] {
            let key = format!("kruntimes.io/env/{name}");
            let steps = [step(StepPhase::Succeeded, &[(&key, "v")])];
            assert_eq!(
                merged(&steps).unwrap_err(),
                format!("reserved environment output \"{key}\" has invalid variable name: {cause}")
            );
        }
    }
}
