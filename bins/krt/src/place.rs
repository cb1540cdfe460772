//! Which directory an engine lives in, and whether one is there.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use kruntimes_embedded::home::{self, HomeError, Presence, Record};

use crate::exit::Exit;
use crate::say;

/// Why there is no directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    /// The user has no home.
    #[error("there is no directory for the data of this user")]
    NoHome(#[from] etcetera::HomeDirError),
    /// The directory this process is in is gone.
    #[error("cannot find {}", path.display())]
    Lost {
        /// The directory as it was given.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// A directory for an engine.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Absolute path.
    pub(crate) dir: PathBuf,
    /// The flag that leads there, with a blank in front; empty for the default.
    pub(crate) flag: String,
}

impl Place {
    /// Takes the directory that was asked for, or that of the user.
    pub(crate) fn find(asked: Option<PathBuf>) -> Result<Self, NoPlace> {
        let Some(path) = asked else {
            let data = etcetera::choose_base_strategy()?.data_dir();
            return Ok(Self {
                dir: data.join("krt/default"),
                flag: String::new(),
            });
        };
        match std::path::absolute(&path) {
            Ok(dir) => Ok(Self {
                flag: format!(" --dir {}", quoted(&dir)),
                dir,
            }),
            Err(source) => Err(NoPlace::Lost { path, source }),
        }
    }

    /// Like [`find`](Self::find); says it when there is none.
    pub(crate) fn find_or_say(asked: Option<PathBuf>) -> Result<Self, Exit> {
        Self::find(asked).map_err(|error| {
            say::notice(&say::problem(&error, "name a directory with --dir"));
            Exit::NotCarriedOut
        })
    }

    /// Looks for an engine; says it when that cannot be seen.
    pub(crate) fn look(&self) -> Result<Presence, Exit> {
        home::look(&self.dir).map_err(|error| {
            say::notice(&say::problem(&error, &self.next(&error)));
            Exit::NotCarriedOut
        })
    }

    /// Finds the record of an engine that serves; says it when there is none.
    pub(crate) fn serving(&self) -> Result<Box<Record>, Exit> {
        match self.look()? {
            Presence::Nobody => {
                self.say_nobody();
                Err(Exit::NotRunning)
            }
            Presence::Somebody(Some(record)) if record.endpoint.is_some() => Ok(record),
            Presence::Somebody(_) => {
                say::notice(&format!(
                    "krt: the engine in {} is starting\n  try again in a moment",
                    self.dir.display()
                ));
                Err(Exit::NotCarriedOut)
            }
        }
    }

    /// Says that no engine is there and how to start one.
    pub(crate) fn say_nobody(&self) {
        let (dir, flag) = (self.dir.display(), &self.flag);
        say::notice(&format!(
            "krt: no engine is running in {dir}\n  start one with `krt local up{flag}`"
        ));
    }

    /// What to do about a directory that does not work.
    pub(crate) fn next(&self, error: &HomeError) -> String {
        let flag = &self.flag;
        match error {
            HomeError::Taken { .. } => format!(
                "use it (`krt local status{flag}`), or end it first (`krt local down{flag}`)"
            ),
            HomeError::Foreign { .. } => "name an empty or a new directory with --dir".to_owned(),
            HomeError::Leftovers { .. } => "end these processes, then try again".to_owned(),
            _ => "check the rights of the directory, or name another one with --dir".to_owned(),
        }
    }
}

/// Writes a path so that a shell reads it as one word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        for (path, want) in [
            (
                "/home/me/.local/share/krt/default",
                "/home/me/.local/share/krt/default",
            ),
            ("/a b", "'/a b'"),
            ("/it's", r"'/it'\''s'"),
            ("/$HOME", "'/$HOME'"),
        ] {
            assert_eq!(quoted(Path::new(path)), want);
        }
    }
}
