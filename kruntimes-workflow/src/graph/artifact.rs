//! Artifact imports: what a `from` names, and where a `path` leads (section 13.3).

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Step};

use super::{Invalid, Problem};
use crate::location::Location;

/// What an artifact import names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactSource<'a> {
    /// The job that made the artifact.
    pub job: &'a str,
    /// Its name there.
    pub artifact: &'a str,
}

impl<'a> ArtifactSource<'a> {
    /// Reads `jobs.<job>.artifacts.<artifact>`; the job ends at the first `.artifacts.` (W-128).
    ///
    /// # Errors
    ///
    /// Any other form.
    pub fn parse(from: &'a str) -> Result<Self, Problem> {
        let parts = from.strip_prefix("jobs.");
        let parts = parts.and_then(|rest| rest.split_once(".artifacts."));
        match parts {
            Some((job, artifact)) if !job.is_empty() && !artifact.is_empty() => {
                Ok(Self { job, artifact })
            }
            Some(_) | None => Err(Problem::ArtifactSource(from.to_owned())),
        }
    }
}

/// Returns a destination without `.` segments and doubled slashes (W-129).
///
/// # Errors
///
/// A path that is absolute, empty, leaves the work directory or holds NUL or a backslash.
pub fn destination(path: &str) -> Result<String, Problem> {
    let refuse = |rule| {
        let path = path.to_owned();
        Err(Problem::ArtifactPath { path, rule })
    };
    if path.contains(['\0', '\\']) {
        return refuse("may not contain NUL or a backslash");
    }
    if path.starts_with('/') {
        return refuse("must be relative");
    }
    let segments = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let segments: Vec<&str> = segments.collect();
    if segments.contains(&"..") {
        return refuse("may not leave the work directory");
    }
    if segments.is_empty() {
        return refuse("must name a file");
    }
    Ok(segments.join("/"))
}

/// Checks the imports of every plain step: each names a direct dependency (W-128).
///
/// # Errors
///
/// The first problem, jobs sorted.
pub fn artifact_edges(jobs: &BTreeMap<String, Job>) -> Result<(), Invalid> {
    for (name, job) in jobs {
        for step in &job.steps {
            imports(name, job, step, &Location::job(name).step(&step.name))?;
        }
    }
    Ok(())
}

/// Checks the imports of one step, which may be a step of an Action that the job calls.
///
/// # Errors
///
/// The first problem.
pub fn imports(name: &str, job: &Job, step: &Step, location: &Location) -> Result<(), Invalid> {
    for artifact in &step.artifacts {
        let refuse = |problem: Problem| problem.at(location.clone().field("artifacts"));
        let source = ArtifactSource::parse(&artifact.from).map_err(refuse)?;
        if !job.needs.iter().any(|need| need == source.job) {
            return Err(refuse(Problem::ArtifactEdge {
                job: name.to_owned(),
                from: artifact.from.clone(),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::StepArtifact;

    use super::*;

    #[test]
    fn w_128_a_source_ends_its_job_at_the_first_artifacts() {
        for (from, want) in [
            ("jobs.build.artifacts.dist.tgz", Some(("build", "dist.tgz"))),
            ("jobs.a.b.artifacts.x", Some(("a.b", "x"))),
            (
                "jobs.a.artifacts.b.artifacts.c",
                Some(("a", "b.artifacts.c")),
            ),
            ("jobs..artifacts.x", None),
            ("jobs.a.artifacts.", None),
            ("jobs.a.outputs.x", None),
            ("a.artifacts.x", None),
            ("", None),
        ] {
            match (ArtifactSource::parse(from), want) {
                (Ok(source), Some(want)) => assert_eq!((source.job, source.artifact), want),
                (Err(problem), None) => assert_eq!(
                    problem.to_string(),
                    format!(
                        "invalid artifact source \"{from}\" (expected jobs.<job-id>.artifacts.<name>)"
                    )
                ),
                (found, want) => panic!("{from}: {found:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn w_129_destinations_stay_below_the_work_directory() {
        for (path, want) in [
            ("./dist.tgz", Some("dist.tgz")),
            ("a/./b//c", Some("a/b/c")),
            ("a", Some("a")),
            ("/a", None),
            ("", None),
            (".", None),
            ("a/../b", None),
            ("..", None),
            ("a\\b", None),
            ("a\0", None),
        ] {
            assert_eq!(destination(path).ok().as_deref(), want, "{path:?}");
        }
    }

    #[test]
    fn w_13_w_128_only_direct_needs_may_be_imported_from() {
        let jobs = |from: &str| -> BTreeMap<String, Job> {
            let step = Step {
                name: "s".into(),
                run: Some("1".into()),
                artifacts: vec![StepArtifact {
                    from: from.into(),
                    path: "x".into(),
                }],
                ..Step::default()
            };
            let job = |needs: &[&str], steps: Vec<Step>| Job {
                needs: needs.iter().map(|&need| need.into()).collect(),
                steps,
                ..Job::default()
            };
            [
                ("a", job(&[], vec![])),
                ("b", job(&["a"], vec![])),
                ("c", job(&["b"], vec![step])),
            ]
            .into_iter()
            .map(|(name, job)| (name.to_owned(), job))
            .collect()
        };
        assert!(artifact_edges(&jobs("jobs.b.artifacts.x")).is_ok());
        let text = |from: &str| artifact_edges(&jobs(from)).unwrap_err().to_string();
        assert_eq!(
            text("jobs.a.artifacts.x"),
            "job \"c\" artifact input \"jobs.a.artifacts.x\" must reference a direct needs dependency"
        );
        assert!(text("x").starts_with("invalid artifact source \"x\""));
    }
}
