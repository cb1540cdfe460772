//! `krt local down`: ends an engine and waits until it is gone.

use std::path::PathBuf;
use std::time::Duration;

use kruntimes_embedded::home::{self, Presence, Record};
use kruntimes_runtime::process::Identity;

use crate::counts::Counts;
use crate::exit::Exit;
use crate::place::Place;
use crate::say;

/// Twenty seconds for Runs, five for what does not want to end, five for open requests, and some to spare.
const PATIENCE: Duration = Duration::from_secs(40);
/// Time for a killed process to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// Ends the engine in a directory, if there is one.
pub(crate) async fn run(asked: Option<PathBuf>, now: bool) -> Exit {
    match end(asked, now).await {
        Ok(()) => Exit::Done,
        Err(exit) => exit,
    }
}

async fn end(asked: Option<PathBuf>, now: bool) -> Result<(), Exit> {
    let place = Place::find_or_say(asked)?;
    let record = match place.look()? {
        Presence::Nobody => return nobody(&place, now).await,
        Presence::Somebody(record) => record,
    };
    let known = record.and_then(|record| Some((record.process()?, record)));
    let Some((process, record)) = known else {
        let said = "krt: the engine does not say yet which process it is";
        say::notice(&format!("{said}\n  try again in a moment"));
        return Err(Exit::NotCarriedOut);
    };
    if now {
        kill(&place, &process).await
    } else {
        ask(&place, &record, &process).await
    }
}

/// Nothing is to be ended, unless an engine that was killed has left something running.
async fn nobody(place: &Place, now: bool) -> Result<(), Exit> {
    let dir = place.dir.display();
    let left = if now && place.dir.exists() {
        clear(place).await?
    } else {
        0
    };
    let left = match left {
        0 => String::new(),
        n => format!("; {n} processes of an earlier one were killed"),
    };
    say::notice(&format!("krt: no engine is running in {dir}{left}"));
    Ok(())
}

async fn clear(place: &Place) -> Result<usize, Exit> {
    home::clear(&place.dir).await.map_err(|error| {
        say::notice(&say::problem(&error, &place.next(&error)));
        Exit::NotCarriedOut
    })
}

/// Asks the engine to end.
async fn ask(place: &Place, record: &Record, process: &Identity) -> Result<(), Exit> {
    let busy = Counts::of(record)
        .await
        .map_or(0, |counts| counts.running());
    if busy > 0 {
        say::notice(&format!("krt: waiting up to 20 s for running Runs: {busy}"));
    }
    process.terminate().map_err(|error| refused(&error))?;
    if tokio::time::timeout(PATIENCE, process.gone())
        .await
        .is_err()
    {
        let (pid, flag) = (process.pid(), &place.flag);
        say::notice(&format!(
            "krt: the engine (process {pid}) has not ended after {} s\n  kill it with `krt local down --now{flag}`",
            PATIENCE.as_secs()
        ));
        return Err(Exit::NotCarriedOut);
    }
    say::notice("krt: the engine has ended");
    Ok(())
}

/// Kills the engine and everything it has started.
async fn kill(place: &Place, process: &Identity) -> Result<(), Exit> {
    process.kill().map_err(|error| refused(&error))?;
    if tokio::time::timeout(KILLED_WITHIN, process.gone())
        .await
        .is_err()
    {
        say::notice(&format!(
            "krt: process {} does not end\n  it hangs in the kernel; only a restart of the machine helps",
            process.pid()
        ));
        return Err(Exit::NotCarriedOut);
    }
    clear(place).await?;
    say::notice("krt: the engine was killed");
    Ok(())
}

fn refused(error: &std::io::Error) -> Exit {
    say::notice(&say::problem(
        error,
        "the engine belongs to somebody else; ask that user to end it",
    ));
    Exit::NotCarriedOut
}
