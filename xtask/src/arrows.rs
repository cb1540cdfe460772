//! Compares the dependencies of the workspace with the allowed arrows.

use std::io;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// Libraries, what they may depend on, and what only their tests may depend on.
///
/// The table of the architecture, section 3. Binaries, examples, benches and
/// xtask stand outside it: they may use every library.
const ROOMS: [Room; 10] = [
    room("kruntimes-core", &[], &[]),
    room("kruntimes-apiserver", &[], &[]),
    room("kruntimes-sched", &["core"], &[]),
    room("kruntimes-workflow", &["core"], &[]),
    room("kruntimes-proto", &["core"], &[]),
    room("kruntimes-runtime", &["core", "proto"], &[]),
    room(
        "kruntimes-k8s",
        &["core", "sched", "workflow"],
        &["apiserver"],
    ),
    room(
        "kruntimes-node",
        &["core", "proto", "k8s"],
        &["runtime", "apiserver"],
    ),
    room(
        "kruntimes-gateway",
        &["core", "proto", "k8s"],
        &["apiserver"],
    ),
    room(
        "kruntimes-embedded",
        &[
            "core",
            "sched",
            "workflow",
            "proto",
            "runtime",
            "apiserver",
            "k8s",
            "node",
            "gateway",
        ],
        &[],
    ),
];

/// Libraries that a program without Kubernetes uses.
const PURE: [&str; 3] = ["kruntimes-core", "kruntimes-sched", "kruntimes-workflow"];

/// What such a program must not compile, members of the same family included.
const FOREIGN: [&str; 4] = ["kube", "k8s-openapi", "tokio", "tonic"];

/// One row of the table.
struct Room {
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
}

const fn room(
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Room {
    Room {
        name,
        uses,
        tests_use,
    }
}

/// Why the arrows do not hold or could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// Cargo did not start.
    #[error("cannot start cargo")]
    Start(#[source] io::Error),
    /// Cargo failed.
    #[error("`cargo {command}` failed: {message}")]
    Cargo {
        /// Its arguments.
        command: String,
        /// What it wrote.
        message: String,
    },
    /// The metadata is not JSON.
    #[error("cannot read the metadata")]
    Metadata(#[from] serde_json::Error),
    /// Arrows that the table does not allow.
    #[error("forbidden arrows:\n  {}", .0.join("\n  "))]
    Forbidden(Vec<String>),
}

/// Checks the arrows between the crates and what the pure crates compile.
///
/// # Errors
///
/// Fails when cargo does, or with every arrow that is not allowed.
pub(crate) fn run() -> Result<(), Error> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"])?;
    let mut faults = check(&packages(&serde_json::from_str(&metadata)?));
    for name in PURE {
        // The tree of one package, so that no other package switches features on.
        let edges = ["-e", "normal,build", "--target", "all"];
        let tree = ["tree", "--locked", "-p", name, "--prefix", "none"];
        faults.extend(foreign(name, &cargo(&[&tree[..], &edges].concat())?));
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::Forbidden(faults))
    }
}

fn cargo(arguments: &[&str]) -> Result<String, Error> {
    let done = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root::path())
        .output()
        .map_err(Error::Start)?;
    if !done.status.success() {
        return Err(Error::Cargo {
            command: arguments.join(" "),
            message: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// One package of the workspace and its dependencies inside it.
struct Package {
    name: String,
    /// Whether the package lies directly below the root, where libraries do.
    is_library: bool,
    /// Names, and whether only tests use them.
    uses: Vec<(String, bool)>,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let root = text(&metadata["workspace_root"]);
    let packages = list(&metadata["packages"]).into_iter().map(|package| {
        let uses = list(&package["dependencies"])
            .iter()
            .filter(|used| used["path"].is_string())
            .map(|used| (text(&used["name"]), used["kind"] == "dev"))
            .collect();
        let name = text(&package["name"]);
        let manifest = text(&package["manifest_path"]);
        Package {
            is_library: manifest == format!("{root}/{name}/Cargo.toml") && name != "xtask",
            name,
            uses,
        }
    });
    packages.collect()
}

/// What the table does not allow, one sentence each.
fn check(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| package.is_library) {
        let name = &package.name;
        let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
            faults.push(format!("{name} is not in the table"));
            continue;
        };
        for (used, only_tests) in &package.uses {
            if used == name && *only_tests {
                continue;
            }
            let short = used.strip_prefix("kruntimes-").unwrap_or(used);
            if room.uses.contains(&short) || (*only_tests && room.tests_use.contains(&short)) {
                continue;
            }
            let whose = if *only_tests { "tests of " } else { "" };
            faults.push(format!("{whose}{name} may not depend on {used}"));
        }
    }
    faults
}

/// What the tree of a pure package must not hold.
fn foreign(name: &str, tree: &str) -> Vec<String> {
    let mut compiled: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    compiled.sort_unstable();
    compiled.dedup();
    let is_foreign = |package: &&str| {
        FOREIGN.iter().any(|family| {
            let rest = package.strip_prefix(family);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    };
    compiled
        .into_iter()
        .filter(is_foreign)
        .map(|package| format!("{name} compiles {package}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(package: &str, used: &str, kind: &Value) -> Vec<String> {
        let metadata = json!({
            "workspace_root": "/r",
            "packages": [{
                "name": package,
                "manifest_path": format!("/r/{package}/Cargo.toml"),
                "dependencies": [
                    { "name": used, "kind": kind, "path": format!("/r/{used}") },
                    { "name": "serde", "kind": null },
                ],
            }],
        });
        check(&packages(&metadata))
    }

    #[test]
    fn s_142_the_table_decides_each_arrow() {
        let normal = Value::Null;
        let dev = json!("dev");
        for (package, used, kind, want) in [
            ("kruntimes-sched", "kruntimes-core", &normal, None),
            ("kruntimes-core", "kruntimes-core", &dev, None),
            ("kruntimes-k8s", "kruntimes-apiserver", &dev, None),
            (
                "kruntimes-k8s",
                "kruntimes-apiserver",
                &normal,
                Some("kruntimes-k8s may not depend on kruntimes-apiserver"),
            ),
            (
                "kruntimes-sched",
                "kruntimes-workflow",
                &dev,
                Some("tests of kruntimes-sched may not depend on kruntimes-workflow"),
            ),
            (
                "kruntimes-core",
                "kruntimes-proto",
                &json!("build"),
                Some("kruntimes-core may not depend on kruntimes-proto"),
            ),
            (
                "kruntimes-extra",
                "kruntimes-core",
                &normal,
                Some("kruntimes-extra is not in the table"),
            ),
            ("xtask", "kruntimes-k8s", &normal, None),
        ] {
            let want: Vec<String> = want.into_iter().map(str::to_owned).collect();
            assert_eq!(faults(package, used, kind), want, "{package} → {used}");
        }
    }

    #[test]
    fn binaries_may_use_every_library() {
        let metadata = json!({
            "workspace_root": "/r",
            "packages": [{
                "name": "krt",
                "manifest_path": "/r/bins/krt/Cargo.toml",
                "dependencies": [{ "name": "kruntimes-embedded", "kind": null, "path": "/r/e" }],
            }],
        });
        assert!(check(&packages(&metadata)).is_empty());
    }

    #[test]
    fn s_142_families_are_foreign_but_neighbours_are_not() {
        let tree = "kruntimes-sched v0.1.0 (/r)\nkube-core v5.0.0\ntokio v1.0.0 (*)\n\ntokio v1.0.0\nkubernetes v1\nserde v1\n";
        assert_eq!(
            foreign("kruntimes-sched", tree),
            [
                "kruntimes-sched compiles kube-core",
                "kruntimes-sched compiles tokio"
            ]
        );
    }

    #[test]
    fn every_arrow_of_the_table_points_at_a_room() {
        for room in ROOMS {
            for used in room.uses.iter().chain(room.tests_use) {
                let name = format!("kruntimes-{used}");
                assert!(ROOMS.iter().any(|room| room.name == name), "{name}");
            }
        }
    }
}
