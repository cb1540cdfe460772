//! The fault table: what may happen to the path of a task, one named kind each.

use std::fmt;
use std::time::Duration;

use kruntimes_apiserver::fault::{Blow, Site, Strike};

use crate::world::Dice;

/// A component that trouble may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The scheduler.
    Scheduler,
    /// The controllers that keep pools alive: reaper, retention, workspaces.
    Pool,
    /// The runtimed of the first Pod.
    Daemon,
}

/// What a call to a Runtime Server may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallBlow {
    DaemonDiesBefore,
    DaemonDiesAfter,
    ServerDiesBefore,
    ServerDiesAfter,
    LoseAnswer,
    Refuse,
    Delay(Duration),
}

/// One kind of trouble, with everything drawn that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Something happens to one request.
    Api(Part, Strike),
    /// The component dies at a write and sees an old world when it is back.
    Relapse(Part, Strike),
    /// Something happens to one call of a Runtime Server.
    Call { nth: u64, blow: CallBlow },
    /// The component stands still, as after SIGSTOP.
    Freeze(Part),
    /// Its clock jumps this many milliseconds and comes back.
    Skew(Part, i64),
    /// Another scheduler believes to be the leader.
    TwoSchedulers,
    /// The API forgets the past, so that every watch that begins again is told 410.
    Compaction(Part),
    /// The first Pod goes and another one of its name comes.
    PodReplaced,
    /// The first Pod goes.
    PodGone,
}

const PARTS: [Part; 3] = [Part::Scheduler, Part::Pool, Part::Daemon];

/// The blows with their names, by the site they strike at.
const WRITES: [(&str, Blow); 8] = [
    ("crash before", Blow::CrashBefore),
    ("crash after", Blow::CrashAfter),
    ("lost request", Blow::LoseRequest),
    ("lost answer", Blow::LoseAnswer),
    ("conflict", Blow::Conflict),
    ("server error", Blow::ServerError),
    ("throttled", Blow::Throttle),
    ("late", Blow::Delay(Duration::from_secs(7))),
];
const READS: [(&str, Blow); 2] = [
    ("lost answer", Blow::LoseAnswer),
    ("server error", Blow::ServerError),
];
const WATCHES: [(&str, Blow); 4] = [
    ("410", Blow::Expire),
    ("cut", Blow::Cut(Duration::from_millis(700))),
    ("stalled", Blow::Stall(Duration::from_secs(9))),
    ("repeated", Blow::Rewind(8)),
];
const CALLS: [(&str, CallBlow); 7] = [
    ("daemon dies before", CallBlow::DaemonDiesBefore),
    ("daemon dies after", CallBlow::DaemonDiesAfter),
    ("server dies before", CallBlow::ServerDiesBefore),
    ("server dies after", CallBlow::ServerDiesAfter),
    ("lost answer", CallBlow::LoseAnswer),
    ("refused", CallBlow::Refuse),
    ("late", CallBlow::Delay(Duration::from_secs(15))),
];

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduler => "scheduler",
            Self::Pool => "pool",
            Self::Daemon => "runtimed",
        })
    }
}

/// Lists the table: each kind with its name.
pub(super) fn table() -> Vec<(String, Trouble)> {
    let strike = |site, blow| Strike { site, nth: 1, blow };
    let mut rows = Vec::new();
    for part in PARTS {
        let mut api = |site: Site, word: &str, blows: &[(&str, Blow)]| {
            for (name, blow) in blows {
                let trouble = Trouble::Api(part, strike(site, *blow));
                rows.push((format!("{part}, {word}: {name}"), trouble));
            }
        };
        api(Site::Write, "write", &WRITES);
        api(Site::Read, "read", &READS);
        api(Site::Watch, "watch", &WATCHES);
        // A runtimed that is shown an old list does not survive it yet; see docs/reliability.md.
        let relapses = if part == Part::Daemon { 0 } else { 2 };
        for (name, blow) in &WRITES[..relapses] {
            let trouble = Trouble::Relapse(part, strike(Site::Write, *blow));
            rows.push((format!("{part}, write: {name}, then an old list"), trouble));
        }
        rows.push((format!("{part}: stands still"), Trouble::Freeze(part)));
        rows.push((format!("{part}: clock ahead"), Trouble::Skew(part, 30_000)));
        rows.push((
            format!("{part}: clock behind"),
            Trouble::Skew(part, -30_000),
        ));
        rows.push((
            format!("{part}: history forgotten"),
            Trouble::Compaction(part),
        ));
    }
    for (name, blow) in CALLS {
        let trouble = Trouble::Call { nth: 1, blow };
        rows.push((format!("runtime call: {name}"), trouble));
    }
    rows.push(("two schedulers".to_owned(), Trouble::TwoSchedulers));
    rows.push(("pod replaced".to_owned(), Trouble::PodReplaced));
    rows.push(("pod gone".to_owned(), Trouble::PodGone));
    rows
}

impl Trouble {
    /// Chooses the place.
    pub(super) fn placed(self, dice: &mut Dice) -> Self {
        match self {
            Self::Api(part, strike) => Self::Api(part, placed(part, strike, dice)),
            Self::Relapse(part, strike) => Self::Relapse(part, placed(part, strike, dice)),
            Self::Call { blow, .. } => Self::Call {
                nth: dice.between(1, 8),
                blow,
            },
            other => other,
        }
    }

    /// The component it is about.
    pub(super) fn part(&self) -> Option<Part> {
        match self {
            Self::Api(part, _)
            | Self::Relapse(part, _)
            | Self::Freeze(part)
            | Self::Skew(part, _)
            | Self::Compaction(part) => Some(*part),
            _ => None,
        }
    }

    /// Tells whether an attempt may be begun twice: when its start is lost with its server, unheard of.
    pub(super) fn repeats_starts(&self) -> bool {
        matches!(
            self,
            Self::Call {
                blow: CallBlow::ServerDiesBefore | CallBlow::ServerDiesAfter,
                ..
            }
        )
    }

    /// Tells whether it is about something that is written.
    pub(super) fn strikes_writes(&self) -> bool {
        match self {
            Self::Api(_, strike) | Self::Relapse(_, strike) => strike.site == Site::Write,
            _ => false,
        }
    }

    /// Tells whether every Run must end as it would without trouble: nothing that executes is lost.
    pub(super) fn is_harmless(&self) -> bool {
        match self {
            // What the pool controllers meet comes with the loss of a Pod.
            // A daemon that is silent for too long counts as lost with all it executes.
            Self::PodReplaced | Self::PodGone | Self::Freeze(Part::Daemon) => false,
            Self::Call { blow, .. } => matches!(
                blow,
                CallBlow::DaemonDiesBefore | CallBlow::DaemonDiesAfter | CallBlow::LoseAnswer
            ),
            other => other.part() != Some(Part::Pool) || !other.strikes_writes(),
        }
    }

    /// The strike at the API of a component.
    pub(super) fn strike(&self, part: Part) -> Option<Strike> {
        match self {
            Self::Api(whose, strike) | Self::Relapse(whose, strike) if *whose == part => {
                Some(*strike)
            }
            _ => None,
        }
    }
}

/// How many requests of a kind a component makes in a small world, about.
fn placed(part: Part, strike: Strike, dice: &mut Dice) -> Strike {
    let most = match (part, strike.site) {
        (Part::Scheduler, _) | (Part::Pool, Site::Watch | Site::Read) => 3,
        (Part::Daemon, Site::Write) => 6,
        (Part::Pool, Site::Write) | (Part::Daemon, Site::Read | Site::Watch) => 2,
    };
    Strike {
        nth: dice.between(1, most),
        ..strike
    }
}
