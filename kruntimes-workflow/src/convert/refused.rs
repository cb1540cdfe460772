//! Keys without an equivalent, and what to do instead.

/// Keys that change what runs: they can be neither ignored nor dropped.
const DECISIVE: [&str; 4] = ["if", "strategy", "matrix", "uses"];

/// Keys that are known from CI files, with the nearest way that works here.
const KNOWN: [(&str, &str); 17] = [
    (
        "if",
        "there are no conditions: let the script decide, or write two workflows",
    ),
    (
        "strategy",
        "there is no matrix: write one job per combination",
    ),
    (
        "matrix",
        "there is no matrix: write one job per combination",
    ),
    (
        "continue-on-error",
        "let the script end with 0, for example `command || true`",
    ),
    ("timeout-minutes", "use `timeout 10m command` in the script"),
    ("concurrency", "there are no concurrency groups"),
    (
        "permissions",
        "steps hold no token; rights belong to the Runtime",
    ),
    ("defaults", "write `shell` and paths in each step"),
    (
        "container",
        "the image belongs to the Runtime: name one in `runs-on`",
    ),
    (
        "services",
        "start the service in the step that needs it, or run it in the cluster",
    ),
    ("environment", "there are no deployment environments"),
    ("secrets", "mount secrets into the Runtime"),
    ("working-directory", "begin the script with `cd`"),
    ("run-name", "`metadata.name` names the execution"),
    (
        "outputs",
        "outputs of a workflow are declared below `on.workflow_call`",
    ),
    (
        "artifacts",
        "write a kruntimes manifest to import artifacts",
    ),
    ("needs", "`needs` belongs to a job"),
];

/// Tells whether a key may be named in [`super::Options::droppable`].
pub(super) fn is_droppable(key: &str) -> bool {
    !DECISIVE.contains(&key)
}

/// Returns what to do instead of a key.
pub(super) fn instead(key: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(known, _)| *known == key);
    found.map(|(_, help)| *help)
}
