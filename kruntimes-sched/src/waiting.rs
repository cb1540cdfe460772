//! What a Run that nothing fits is told.

use kruntimes_core::message::quoted;

use crate::decision::{Action, Rejections};
use crate::plugin::Reason;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::Snapshot;

/// Condition reason when nothing more telling is known.
const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";

/// Puts rejections into the order in which the profile declares plugins and reasons.
///
/// That order does not depend on the Pods, so every way to count them agrees.
pub(crate) fn sort(profile: &Profile, given: &mut [Rejections]) {
    if given.len() > 1 {
        given.sort_by_key(|seen| {
            declared(profile)
                .position(|(plugin, reason)| plugin == seen.plugin && reason.name == seen.reason)
        });
    }
}

/// Leaves a Run pending, with everything it is told; `given` is in the order of [`sort`].
pub(crate) fn action(
    profile: &Profile,
    run: &Run,
    given: &[Rejections],
    explained: Option<&'static str>,
) -> Action {
    Action::Wait {
        message: message(profile, run, given),
        condition: condition(profile, given, explained),
        reasons: given.iter().map(|seen| seen.reason).collect(),
    }
}

/// Returns the message of S-112: the first declared reason with words of its own that was given.
fn message(profile: &Profile, run: &Run, given: &[Rejections]) -> String {
    declared(profile)
        .filter(|(plugin, reason)| was_given(given, plugin, reason))
        .find_map(|(_, reason)| reason.message)
        .map_or_else(|| for_pods(run), |template| fill(template, run))
}

/// Returns the message of a Run about which there is nothing more telling to say.
pub(crate) fn for_pods(run: &Run) -> String {
    let runtime = quoted(run.runtime.as_str());
    format!("waiting for available runtime pods for runtime {runtime}")
}

/// Returns the condition reason of S-111.
///
/// `explained` is what the filters say about the pool as a whole.
fn condition(
    profile: &Profile,
    given: &[Rejections],
    explained: Option<&'static str>,
) -> &'static str {
    let named = |first: bool| {
        declared(profile)
            .filter(|(plugin, reason)| reason.first == first && was_given(given, plugin, reason))
            .find_map(|(_, reason)| reason.condition)
    };
    named(true)
        .or(explained)
        .or_else(|| named(false))
        .unwrap_or(INSUFFICIENT_CAPACITY)
}

/// Asks every filter what it makes of the pool as a whole.
pub(crate) fn explained(
    profile: &Profile,
    snapshot: &Snapshot,
    run: &Run,
    mut guard: impl FnMut(&'static str, &dyn Fn() -> Option<&'static str>) -> Option<&'static str>,
) -> Option<&'static str> {
    profile
        .filters
        .iter()
        .find_map(|entry| guard(entry.name, &|| entry.plugin.explain(snapshot, run)))
}

fn declared(profile: &Profile) -> impl Iterator<Item = (&'static str, &'static Reason)> {
    let pre = profile.pre_filters.iter().map(|e| (e.name, e.reasons));
    let filters = profile.filters.iter().map(|e| (e.name, e.reasons));
    pre.chain(filters)
        .flat_map(|(plugin, reasons)| reasons.iter().map(move |reason| (plugin, reason)))
}

fn was_given(given: &[Rejections], plugin: &str, reason: &Reason) -> bool {
    given
        .iter()
        .any(|seen| seen.plugin == plugin && seen.reason == reason.name)
}

fn fill(template: &str, run: &Run) -> String {
    let workspace = run.workspace.as_ref().map_or("", |name| name.as_str());
    // The names are put in piece by piece, so that a name that looks like a placeholder stays a name.
    template
        .split_inclusive(['{', '}'])
        .map(|piece| match piece {
            "runtime}" => quoted(run.runtime.as_str()),
            "workspace}" => quoted(workspace),
            text => text.trim_end_matches('{').to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_112_names_are_quoted_and_never_read_as_placeholders() {
        let mut run = Run::new("ns", "r", "u");
        run.runtime = "a{workspace}\"".into();
        run.workspace = Some("w".into());
        assert_eq!(
            fill("bind {workspace} for {runtime} now", &run),
            "bind \"w\" for \"a{workspace}\\\"\" now"
        );
    }
}
