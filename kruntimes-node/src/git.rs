//! Git sources: fetched by the git program under bounds it cannot leave (node, section 6.3).

mod process;
mod size;
mod source;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::files::RunDir;
use process::{Bounds, End, Stop};
pub(crate) use source::GitSource;
use source::without_credentials;

/// The git program and what it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitTool {
    /// Name or path of the program.
    pub program: PathBuf,
    /// Variables it gets beside those that keep it from asking and from reading any configuration: proxies
    /// and certificates of the network.
    pub env: Vec<(OsString, OsString)>,
    /// Limit of everything that is fetched for one source (N-51).
    pub fetch_limit: Duration,
    /// Limit of the checkout (N-51).
    pub checkout_limit: Duration,
    /// Bytes of regular files a checkout may have, the history in `.git` included (N-53).
    pub size_limit: u64,
}

impl Default for GitTool {
    fn default() -> Self {
        Self {
            program: PathBuf::from("git"),
            env: Vec::new(),
            fetch_limit: Duration::from_secs(30),
            checkout_limit: Duration::from_secs(15),
            size_limit: 100 * 1024 * 1024,
        }
    }
}

/// Why there is no checkout.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("{step}: timed out after {}", kruntimes_core::duration::Duration::from(*.limit))]
    TimedOut { step: &'static str, limit: Duration },
    #[error("{step}: git source size limit exceeded: more than {limit} bytes")]
    TooLarge { step: &'static str, limit: u64 },
    #[error("{step}: {text}")]
    Failed { step: &'static str, text: String },
    #[error("abandoned")]
    Abandoned,
}

const CLONE: &str = "git clone";
const CHECKOUT: &str = "git checkout";
/// Everything a server offers, for revisions it does not give alone.
const ALL: [&str; 2] = [
    "+refs/heads/*:refs/remotes/origin/*",
    "+refs/tags/*:refs/tags/*",
];

/// Fetches a source into the `repo` directory of a Run and checks it out there.
///
/// On any failure the directory is gone, and with it everything that was fetched.
pub(crate) async fn check_out(
    tool: &GitTool,
    source: &GitSource,
    dir: &RunDir,
    abandoned: &CancellationToken,
) -> Result<(), GitError> {
    let failed = |error: std::io::Error| GitError::Failed {
        step: CLONE,
        text: error.to_string(),
    };
    dir.make_repo().map_err(failed)?;
    let repo = dir.repo();
    let work = Work {
        tool,
        repo: &repo,
        abandoned,
    };
    let done = work.perform(source).await;
    if done.is_err() {
        let dir = dir.clone();
        let removed = tokio::task::spawn_blocking(move || dir.remove_repo()).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "a partial checkout stays until its run is over");
        }
    }
    done
}

struct Work<'a> {
    tool: &'a GitTool,
    repo: &'a Path,
    abandoned: &'a CancellationToken,
}

/// One part of the work with the limit it shares with others of its kind.
struct Step {
    name: &'static str,
    limit: Duration,
    until: Instant,
}

impl Step {
    fn new(name: &'static str, limit: Duration) -> Self {
        Self {
            name,
            limit,
            until: Instant::now() + limit,
        }
    }
}

impl Work<'_> {
    async fn perform(&self, source: &GitSource) -> Result<(), GitError> {
        let fetch = Step::new(CLONE, self.tool.fetch_limit);
        self.git(&fetch, &["init", "--quiet", "--template="])
            .await?;
        let revision = self.fetch(&fetch, source).await?;
        let checkout = Step::new(CHECKOUT, self.tool.checkout_limit);
        self.check_room(&checkout, &revision).await?;
        self.git(
            &checkout,
            &["checkout", "--quiet", "--force", "--detach", &revision],
        )
        .await?;
        self.check_size(&checkout).await
    }

    /// Brings one revision here and returns its object name (N-50).
    async fn fetch(&self, step: &Step, source: &GitSource) -> Result<String, GitError> {
        let url = source.url.as_str();
        let wanted = source.commit.as_deref().unwrap_or("HEAD");
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-auto-gc"];
        let one = [&quiet[..], &["--depth=1", "--end-of-options", url, wanted]].concat();
        let name = match self.git(step, &one).await {
            Ok(_) => "FETCH_HEAD",
            // Servers may refuse what no ref points to, and none knows a short name.
            Err(GitError::Failed { .. }) if is_hex(wanted) => {
                let all = [&quiet[..], &["--end-of-options", url], &ALL].concat();
                self.git(step, &all).await?;
                wanted
            }
            Err(error) => return Err(error),
        };
        let commit = format!("{name}^{{commit}}");
        let asked = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &commit,
        ];
        match self.git(step, &asked).await {
            Ok(found) => Ok(found.trim().to_owned()),
            Err(GitError::Failed { step, .. }) => Err(GitError::Failed {
                step,
                text: format!("there is no commit {wanted}"),
            }),
            Err(error) => Err(error),
        }
    }

    /// Refuses a tree that will not fit before the first file of it is written (N-53).
    async fn check_room(&self, step: &Step, revision: &str) -> Result<(), GitError> {
        let limit = self.tool.size_limit;
        let stored = size::measure(self.repo, limit).await;
        let list = ["ls-tree", "-r", "-l", "--full-tree", revision];
        let listed = self.git(step, &list).await?;
        // A list may be cut off where files are countless; the size is watched all the same.
        let size = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        let tree = listed.lines().filter_map(size).fold(0, u64::saturating_add);
        if stored.saturating_add(tree) > limit {
            let step = step.name;
            return Err(GitError::TooLarge { step, limit });
        }
        Ok(())
    }

    async fn check_size(&self, step: &Step) -> Result<(), GitError> {
        let limit = self.tool.size_limit;
        if size::measure(self.repo, limit).await > limit {
            let step = step.name;
            return Err(GitError::TooLarge { step, limit });
        }
        Ok(())
    }

    /// Runs git and returns what it printed.
    async fn git(&self, step: &Step, args: &[&str]) -> Result<String, GitError> {
        let bounds = Bounds {
            directory: self.repo,
            until: step.until,
            abandoned: self.abandoned,
        };
        let name = step.name;
        let too_large = || GitError::TooLarge {
            step: name,
            limit: self.tool.size_limit,
        };
        let ended = self.tool.run(&bounds, args).await;
        match ended.map_err(|error| GitError::Failed {
            step: name,
            text: error.to_string(),
        })? {
            End::Stopped(Stop::TimedOut) => Err(GitError::TimedOut {
                step: name,
                limit: step.limit,
            }),
            End::Stopped(Stop::TooLarge) => Err(too_large()),
            End::Stopped(Stop::Abandoned) => Err(GitError::Abandoned),
            End::Exited { status, stdout, .. } if status.success() => Ok(stdout),
            End::Exited { status, stderr, .. } => {
                // The limit of each file strikes first where data arrives fast.
                if stderr.contains("File too large") || stderr.contains("signal 25") {
                    return Err(too_large());
                }
                self.check_size(step).await?;
                let said = without_credentials(stderr.trim());
                let text = if said.is_empty() {
                    status.to_string()
                } else {
                    said
                };
                Err(GitError::Failed { step: name, text })
            }
        }
    }
}

/// Tells whether a text may be the beginning of an object name.
fn is_hex(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
