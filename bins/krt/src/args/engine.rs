//! Flags of the engine that stays.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as Group, Subcommand, ValueHint};
use kruntimes_workflow::extend::Extensions;

use super::{Command, Format};

pub(super) const EXAMPLES: &str = "\
Examples:
  krt local up                                    serve until Ctrl-C
  krt local up --detach                           serve in the background
  export KUBECONFIG=$(krt local kubeconfig --path)
  kubectl apply -f workflow.yaml && kubectl get workflowruns --watch
  krt local status && krt local down

Exit codes:
  0    done; for status: an engine is running
  1    could not be carried out; for status: could not tell
  2    wrong usage
  5    no engine is running there (status and kubeconfig)
  130  stopped by Ctrl-C  143  stopped by SIGTERM, as by `krt local down`";

/// Where an engine lives.
#[derive(Debug, Group)]
pub(super) struct Place {
    /// Directory of the engine: objects, files of Pods, keys; by default `krt/default` among the
    /// data of the user (`~/.local/share`)
    #[arg(long, env = "KRT_DATA_DIR", value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<OsString>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Engine {
    /// Start an engine that stays: kubectl works with it, and nothing is lost when it ends
    ///
    /// Everything is stored in its directory; started again it goes on where it ended, even if it
    /// was killed. A Runtime `bash` is provided in namespace `default`. There is no isolation.
    #[command(after_help = EXAMPLES)]
    Up {
        #[command(flatten)]
        place: Place,
        /// Port on 127.0.0.1; unless given that of the last time if it is free, or any
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Steps that may run at once in the provided Runtime when it is made; the number of
        /// processors unless given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
        slots: Option<u32>,
        /// What workflows may use beyond the built-in API, such as conditions,matrix; `all` for everything
        #[arg(
            long,
            value_name = "LIST",
            default_value = "",
            hide_default_value = true
        )]
        workflow_extensions: Extensions,
        /// Go to the background and return when the engine is ready
        #[arg(short, long)]
        detach: bool,
        /// The process in the background, which tells on standard output how its start went
        #[arg(long, hide = true, conflicts_with = "detach")]
        background: bool,
    },
    /// End the engine in order and wait until all its processes are gone
    ///
    /// What runs has twenty seconds to come to its end; what does not is lost, as its status says
    /// after the next start. Nothing to end is no error.
    #[command(after_help = EXAMPLES)]
    Down {
        #[command(flatten)]
        place: Place,
        /// Kill the engine and everything it runs
        #[arg(long)]
        now: bool,
    },
    /// Say whether an engine runs, where it serves, and what it is busy with
    #[command(after_help = EXAMPLES)]
    Status {
        #[command(flatten)]
        place: Place,
        /// Print it for people, or as JSON
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Print the kubeconfig of the engine
    #[command(after_help = EXAMPLES)]
    Kubeconfig {
        #[command(flatten)]
        place: Place,
        /// Print where it is instead
        #[arg(long)]
        path: bool,
    },
}

/// An engine to start.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    /// Directory as it was given.
    pub(crate) dir: Option<PathBuf>,
    /// Port; zero for any.
    pub(crate) port: u16,
    /// Steps at once in the provided Runtime.
    pub(crate) slots: Option<u32>,
    /// What workflows may use beyond the built-in API.
    pub(crate) extensions: Extensions,
    /// Whether to return when it is ready.
    pub(crate) detach: bool,
    /// Whether this is the process in the background.
    pub(crate) background: bool,
}

impl Engine {
    pub(super) fn into_command(self) -> Command {
        match self {
            Self::Up {
                place,
                port,
                slots,
                workflow_extensions,
                detach,
                background,
            } => Command::Up(Up {
                dir: place.dir(),
                port,
                slots,
                extensions: workflow_extensions,
                detach,
                background,
            }),
            Self::Down { place, now } => Command::Down {
                dir: place.dir(),
                now,
            },
            Self::Status { place, output } => Command::Status {
                dir: place.dir(),
                format: output,
            },
            Self::Kubeconfig { place, path } => Command::Kubeconfig {
                dir: place.dir(),
                path,
            },
        }
    }
}

impl Place {
    /// A variable that is empty says nothing.
    fn dir(self) -> Option<PathBuf> {
        let dir = self.dir.filter(|dir| !dir.is_empty());
        dir.map(PathBuf::from)
    }
}
