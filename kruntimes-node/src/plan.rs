//! What a task needs prepared and what is sent to the Runtime Server, as a pure function of its spec.

use std::collections::BTreeMap;
use std::path::Path;

use kruntimes_core::api::{EnvVar, RunSpec, Source, TaskMode};
use kruntimes_core::life::Failure;
use kruntimes_core::message::quoted;
use kruntimes_core::retry::reason;
use kruntimes_proto::ExecuteRequest;

use crate::files::RunDir;
use crate::git::GitSource;

/// Name of the file that holds an inline source.
pub(crate) const SCRIPT: &str = "script";

/// One attempt of a task, ready to be prepared and executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan<'a> {
    /// Text of the script file, if there is one.
    pub(crate) script: Option<&'a str>,
    /// Repository to check out, if there is one.
    pub(crate) git: Option<GitSource>,
    /// The start, still without its time limit.
    pub(crate) request: ExecuteRequest,
    /// Variables whose value is not resolved (N-70).
    pub(crate) ignored: Vec<&'a str>,
}

impl<'a> Plan<'a> {
    /// Plans a task.
    ///
    /// # Errors
    ///
    /// Returns the failure of the attempt when the spec cannot be executed by this runtimed.
    ///
    /// `stored` tells that there is a store for artifacts.
    pub(crate) fn of(
        spec: &'a RunSpec,
        uid: &str,
        dir: &RunDir,
        stored: bool,
    ) -> Result<Self, Failure> {
        let task = supported(spec)?;
        let inline = spec.source.as_ref().and_then(|s| s.inline.as_deref());
        let git = match &spec.source {
            Some(source) => {
                GitSource::of(source).map_err(|error| preparation(&error.to_string()))?
            }
            None => None,
        };
        let (entrypoint, args) = match inline {
            // N-42
            Some(_) => (SCRIPT.to_owned(), Vec::new()),
            None => (entrypoint(task.entrypoint.as_deref())?, task.args.clone()),
        };
        // N-65: the process starts in the workspace, wherever its source lies.
        let entrypoint = text(
            &dir.source_way(git.is_some(), inline.is_some())
                .join(entrypoint),
        );
        let (env, ignored) = environment(&spec.env, dir, stored)?;
        Ok(Self {
            script: inline,
            request: ExecuteRequest {
                id: uid.to_owned(),
                args,
                env,
                timeout: None,
                working_dir: text(&dir.work(git.is_some())),
                entrypoint,
                handler: String::new(),
            },
            ignored,
            git,
        })
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn preparation(text: &str) -> Failure {
    Failure::new(reason::PREPARE_SOURCE, &format!("prepare source: {text}"))
}

fn execution(text: &str) -> Failure {
    Failure::new(reason::RUNTIME_EXECUTE, text)
}

/// Refuses what this build cannot do, by name.
fn supported(spec: &RunSpec) -> Result<&TaskMode, Failure> {
    const YET: &str = "not supported by this runtimed yet";
    let mode = &spec.mode;
    let task = match (&mode.task, &mode.function, &mode.session) {
        (Some(task), None, None) => task,
        (None, Some(_), None) => {
            let source = spec.source.as_ref();
            match source.and_then(|source| source.inline_path.as_deref()) {
                Some(path) if !is_inline_path(path) => {
                    return Err(preparation(
                        "inlinePath must be a relative path without empty, `.` and `..` parts",
                    ));
                }
                Some(_) | None => return Err(execution(&format!("function mode is {YET}"))),
            }
        }
        (None, None, Some(_)) => {
            let text = format!("session mode is {YET}");
            return Err(Failure::new(reason::SESSION_REGISTER, &text));
        }
        _ => {
            let text = "mode must hold exactly one of task, function and session";
            return Err(execution(text));
        }
    };
    match &spec.source {
        Some(Source {
            repo_url: Some(_),
            inline: Some(_),
            ..
        }) => return Err(preparation("inline excludes repoURL")),
        Some(Source {
            inline_path: Some(_),
            ..
        }) => return Err(preparation("inlinePath needs function mode")),
        Some(_) | None => {}
    }
    Ok(task)
}

/// Tells whether a function's text may be put there, whatever its ending and the handler say (N-43, N-44).
fn is_inline_path(path: &str) -> bool {
    let mut parts = path.split('/');
    !path.contains('\0') && parts.all(|part| !matches!(part, "" | "." | ".."))
}

/// Resolves an entrypoint: relative, cleaned, and a file (N-62, N-63).
fn entrypoint(value: Option<&str>) -> Result<String, Failure> {
    let value = value.filter(|v| !v.is_empty()).unwrap_or(SCRIPT);
    let outside = || preparation("entrypoint must be a relative path within the workspace");
    if value.starts_with('/') || value.contains('\0') {
        return Err(outside());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in value.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(outside)?;
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return Err(preparation(
            "entrypoint must reference a file within the workspace",
        ));
    }
    Ok(parts.join("/"))
}

type Environment<'a> = (BTreeMap<String, String>, Vec<&'a str>);

/// Builds the environment: the Run's own entries, then what nobody may override (N-67 to N-70).
fn environment<'a>(
    entries: &'a [EnvVar],
    dir: &RunDir,
    stored: bool,
) -> Result<Environment<'a>, Failure> {
    let tmp = ("TMPDIR".to_owned(), text(&dir.tmp()));
    let mut env = BTreeMap::from([tmp.clone()]);
    let mut ignored = Vec::new();
    for entry in entries {
        let name = entry.name.as_str();
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(execution(&format!(
                "environment variable name {} is not valid",
                quoted(name)
            )));
        }
        if entry.value_from.is_some() {
            ignored.push(name);
        }
        let value = match &entry.value {
            Some(value) if entry.value_from.is_none() => value.clone(),
            Some(_) | None => String::new(),
        };
        if value.contains('\0') {
            return Err(execution(&format!(
                "environment variable {} contains a zero byte",
                quoted(name)
            )));
        }
        env.insert(name.to_owned(), value);
    }
    if let Some(home) = dir.private_home() {
        env.extend([("HOME".to_owned(), text(&home)), tmp]);
    }
    env.insert("KRUNTIME_OUTPUTS".to_owned(), text(&dir.outputs()));
    env.insert("KRUNTIME_TOOL_CACHE".to_owned(), text(&dir.tool_cache()));
    let artifacts = "KRUNTIME_ARTIFACTS_DIR";
    if stored {
        env.insert(artifacts.to_owned(), text(&dir.artifacts()));
    } else {
        // A value of this name could only mislead.
        env.remove(artifacts);
    }
    Ok((env, ignored))
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{FunctionMode, Mode, SessionMode};

    use super::*;
    use crate::files::NodeDirs;

    fn dir() -> RunDir {
        NodeDirs::new("/workspace").run("u-1", None).unwrap()
    }

    fn task(entrypoint: Option<&str>, args: &[&str]) -> RunSpec {
        RunSpec {
            mode: Mode {
                task: Some(TaskMode {
                    entrypoint: entrypoint.map(Into::into),
                    args: args.iter().map(|&a| a.into()).collect(),
                }),
                ..Mode::default()
            },
            ..RunSpec::default()
        }
    }

    fn inline(text: &str) -> Source {
        Source {
            inline: Some(text.into()),
            ..Source::default()
        }
    }

    #[test]
    fn n_62_n_63_entrypoints_are_cleaned_or_refused() {
        let outside = "prepare source: entrypoint must be a relative path within the workspace";
        let no_file = "prepare source: entrypoint must reference a file within the workspace";
        for (value, want) in [
            (None, Ok("script")),
            (Some(""), Ok("script")),
            (Some("b.sh"), Ok("b.sh")),
            (Some("./a/../b.sh"), Ok("b.sh")),
            (Some("a//b.sh/"), Ok("a/b.sh")),
            (Some("."), Err(no_file)),
            (Some("a/.."), Err(no_file)),
            (Some("/etc/passwd"), Err(outside)),
            (Some(".."), Err(outside)),
            (Some("a/../../b"), Err(outside)),
        ] {
            let found = entrypoint(value).map_err(|failure| {
                assert_eq!(failure.reason, "PrepareSource");
                failure.message
            });
            assert_eq!(found.as_deref().map_err(|e| &**e), want, "{value:?}");
        }
    }

    #[test]
    fn n_42_n_66_an_inline_source_ignores_entrypoint_and_args() {
        let spec = RunSpec {
            source: Some(inline("echo hi")),
            ..task(Some("/x"), &["a"])
        };
        let plan = Plan::of(&spec, "u-1", &dir(), false).unwrap();
        assert_eq!(plan.script, Some("echo hi"));
        assert_eq!(plan.request.entrypoint, "script");
        assert!(plan.request.args.is_empty());
        assert_eq!(plan.request.working_dir, "/workspace/u-1");
        assert_eq!(plan.request.handler, "", "N-66");
    }

    #[test]
    fn n_41_n_55_without_a_source_the_arguments_travel() {
        let spec = RunSpec {
            source: Some(Source::default()),
            ..task(None, &["echo", ""])
        };
        let plan = Plan::of(&spec, "u-1", &dir(), false).unwrap();
        assert_eq!(plan.script, None);
        assert_eq!(plan.request.args, ["echo", ""]);
        assert_eq!(plan.request.entrypoint, "script");
    }

    #[test]
    fn n_67_n_68_n_69_n_70_the_environment_has_its_order() {
        let var = |name: &str, value: Option<&str>| EnvVar {
            name: name.into(),
            value: value.map(Into::into),
            value_from: None,
        };
        let spec = RunSpec {
            env: vec![
                var("A", Some("1")),
                var("A", Some("$(B)")),
                var("KRUNTIME_OUTPUTS", Some("mine")),
                var("KRUNTIME_ARTIFACTS_DIR", Some("mine")),
                var("EMPTY", None),
                EnvVar {
                    value_from: Some(serde_json::Map::new()),
                    ..var("SECRET", Some("x"))
                },
            ],
            ..task(None, &[])
        };
        let plan = Plan::of(&spec, "u-1", &dir(), false).unwrap();
        let env: Vec<_> = plan
            .request
            .env
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            env,
            [
                ("A", "$(B)"),
                ("EMPTY", ""),
                ("KRUNTIME_OUTPUTS", "/workspace/u-1/outputs"),
                ("KRUNTIME_TOOL_CACHE", "/workspace/.kruntimes/tool-cache"),
                ("SECRET", ""),
                ("TMPDIR", "/workspace/u-1/.tmp"),
            ]
        );
        assert_eq!(plan.ignored, ["SECRET"]);
        let stored = Plan::of(&spec, "u-1", &dir(), true).unwrap().request;
        let artifacts = &stored.env["KRUNTIME_ARTIFACTS_DIR"];
        assert_eq!(artifacts, "/workspace/u-1/artifacts", "N-68");
        for name in ["", "A=B", "A\0"] {
            let spec = RunSpec {
                env: vec![var(name, None)],
                ..task(None, &[])
            };
            assert_eq!(
                Plan::of(&spec, "u-1", &dir(), false).unwrap_err().reason,
                "RuntimeExecute"
            );
        }
        let own = RunSpec {
            env: vec![var("TMPDIR", Some("/tmp"))],
            ..task(None, &[])
        };
        let plan = Plan::of(&own, "u-1", &dir(), false).unwrap();
        assert_eq!(plan.request.env["TMPDIR"], "/tmp", "N-69");
    }

    #[test]
    fn n_65_n_67_n_69_in_a_workspace_the_process_starts_at_its_root() {
        let dir = NodeDirs::new("/workspace").run("u-1", Some("w")).unwrap();
        let var = |name: &str| EnvVar {
            name: name.into(),
            value: Some("mine".into()),
            value_from: None,
        };
        let spec = RunSpec {
            source: Some(inline("echo hi")),
            env: vec![var("HOME"), var("TMPDIR")],
            ..task(None, &[])
        };
        let request = Plan::of(&spec, "u-1", &dir, false).unwrap().request;
        assert_eq!(request.working_dir, "/workspace/persistent/w");
        assert_eq!(request.entrypoint, ".kruntimes/runs/u-1/script");
        for (name, want) in [
            ("HOME", "/workspace/persistent/w/.home"),
            ("TMPDIR", "/workspace/persistent/w/.tmp"),
            (
                "KRUNTIME_OUTPUTS",
                "/workspace/persistent/w/.kruntimes/runs/u-1/outputs",
            ),
            ("KRUNTIME_TOOL_CACHE", "/workspace/.kruntimes/tool-cache"),
        ] {
            assert_eq!(request.env[name], want);
        }
        let plain = task(Some("a/b.sh"), &[]);
        let request = Plan::of(&plain, "u-1", &dir, false).unwrap().request;
        assert_eq!(request.entrypoint, "a/b.sh");
    }

    #[test]
    fn n_38_a_checkout_lies_beside_outputs() {
        let spec = RunSpec {
            source: Some(Source {
                repo_url: Some("https://example.com/x".into()),
                ..Source::default()
            }),
            ..task(Some("ci/build.sh"), &["a"])
        };
        let request = Plan::of(&spec, "u-1", &dir(), false).unwrap().request;
        assert_eq!(request.working_dir, "/workspace/u-1/repo");
        assert_eq!(request.entrypoint, "ci/build.sh");
        assert_eq!(request.env["KRUNTIME_OUTPUTS"], "/workspace/u-1/outputs");
        let dir = NodeDirs::new("/workspace").run("u-1", Some("w")).unwrap();
        let request = Plan::of(&spec, "u-1", &dir, false).unwrap().request;
        assert_eq!(request.working_dir, "/workspace/persistent/w");
        assert_eq!(request.entrypoint, ".kruntimes/runs/u-1/repo/ci/build.sh");
    }

    #[test]
    fn n_17_what_cannot_be_done_is_refused_by_reason() {
        let mode = |function, session| Mode {
            task: None,
            function,
            session,
        };
        let git = Source {
            repo_url: Some("http://example.com/x".into()),
            ..Source::default()
        };
        for (spec, reason) in [
            (
                RunSpec {
                    mode: mode(Some(FunctionMode::default()), None),
                    ..RunSpec::default()
                },
                "RuntimeExecute",
            ),
            (
                RunSpec {
                    mode: mode(None, Some(SessionMode::default())),
                    ..RunSpec::default()
                },
                "SessionRegister",
            ),
            (RunSpec::default(), "RuntimeExecute"),
            (
                RunSpec {
                    source: Some(git),
                    ..task(None, &[])
                },
                "PrepareSource",
            ),
        ] {
            let failure = Plan::of(&spec, "u-1", &dir(), false).unwrap_err();
            assert_eq!(failure.reason, reason, "{failure:?}");
        }
    }

    #[test]
    fn n_43_n_44_the_place_of_a_function_is_checked_again_and_its_ending_is_not() {
        let function = |path: &str| RunSpec {
            mode: Mode {
                function: Some(FunctionMode {
                    handler: Some("main.handle".into()),
                    ..FunctionMode::default()
                }),
                ..Mode::default()
            },
            source: Some(Source {
                inline_path: Some(path.into()),
                ..inline("x")
            }),
            ..RunSpec::default()
        };
        for path in [
            "", "/", "/a", "a//b", "a/", ".", "./a", "a/./b", "..", "../a", "a/..", "a\0",
        ] {
            let failure = Plan::of(&function(path), "u-1", &dir(), false).unwrap_err();
            assert_eq!(failure.reason, "PrepareSource", "{path:?}");
            assert!(
                failure.message.starts_with("prepare source: inlinePath "),
                "{path:?}"
            );
        }
        for path in ["main.py", "other.txt", "a/b", "a..b/.c/...d"] {
            let failure = Plan::of(&function(path), "u-1", &dir(), false).unwrap_err();
            assert_eq!(failure.reason, "RuntimeExecute", "{path:?}");
            assert!(failure.message.starts_with("function mode"), "{path:?}");
        }
    }
}
