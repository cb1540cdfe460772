//! The words behind `cargo xtask e2e`.

use std::path::PathBuf;

/// What the command says about itself.
pub(super) const HELP: &str = "\
usage: cargo xtask e2e [--keep] [--only TEXT] [--kubeconfig FILE]

Starts etcd, kube-apiserver and kube-controller-manager and runs the tests that compare with Kubernetes: the
behaviour of the API, the rules of the CRDs, and whole workflows. The first run builds the control plane from
tests/control-plane/go.mod, which needs Go and takes minutes; later runs find it in the target directory.

  --keep             leave the control plane running after the tests, until Ctrl-C, and keep its logs
  --only TEXT        run only tests whose name contains TEXT
  --kubeconfig FILE  use this cluster instead; the CRDs are applied to it and namespaces are left behind

examples:
  cargo xtask e2e
  cargo xtask e2e --only watches
  cargo xtask e2e --keep --only a_stale_update_conflicts
  cargo xtask e2e --kubeconfig ~/.kube/kind

exit codes: 0 all tests passed, 1 failed, 2 wrong usage, 3 no Go toolchain that can build the control plane
";

/// How to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Args {
    /// Leaves the control plane running after the tests.
    pub(super) keep: bool,
    /// Part of the names of the tests to run.
    pub(super) only: Option<String>,
    /// An existing cluster to use.
    pub(super) kubeconfig: Option<PathBuf>,
}

/// What the words ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To run.
    Run(Args),
    /// To be told how.
    Help,
}

/// Reads the words.
///
/// # Errors
///
/// Returns a sentence about the first word that has no place.
pub(super) fn parse(words: &[&str]) -> Result<Asked, String> {
    let mut args = Args::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || {
            let given = rest.next().filter(|value| !value.is_empty());
            given
                .copied()
                .ok_or_else(|| format!("{word} needs a value"))
        };
        match *word {
            "--help" | "-h" => return Ok(Asked::Help),
            "--keep" => args.keep = true,
            "--only" => args.only = Some(value()?.to_owned()),
            "--kubeconfig" => args.kubeconfig = Some(PathBuf::from(value()?)),
            other => return Err(format!("{other} is no option of e2e")),
        }
    }
    if args.keep && args.kubeconfig.is_some() {
        return Err("--keep has nothing to keep when --kubeconfig names a cluster".to_owned());
    }
    Ok(Asked::Run(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_taken() {
        let words = ["--keep", "--only", "watches"];
        let want = Args {
            keep: true,
            only: Some("watches".to_owned()),
            kubeconfig: None,
        };
        assert_eq!(parse(&words), Ok(Asked::Run(want)));
        let want = Args {
            kubeconfig: Some(PathBuf::from("f")),
            ..Args::default()
        };
        assert_eq!(parse(&["--kubeconfig", "f"]), Ok(Asked::Run(want)));
        assert_eq!(parse(&["--only", "x", "-h"]), Ok(Asked::Help));
    }

    #[test]
    fn words_without_a_place_are_refused() {
        for (words, says) in [
            (&["--only"][..], "--only needs a value"),
            (&["--only", ""], "--only needs a value"),
            (&["--kep"], "--kep is no option of e2e"),
            (&["watches"], "watches is no option of e2e"),
            (&["--keep", "--kubeconfig", "f"], "nothing to keep"),
        ] {
            let problem = parse(words).unwrap_err();
            assert!(problem.contains(says), "{words:?}: {problem}");
        }
    }

    #[test]
    fn the_help_names_every_option() {
        for option in ["--keep", "--only", "--kubeconfig"] {
            assert!(HELP.contains(&format!("\n  {option} ")), "{option}");
        }
    }
}
