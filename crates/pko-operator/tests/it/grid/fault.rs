//! What goes wrong in a try: a fault for each point of each goal.

use std::fmt;

use pko_testkit::fault_proxy::{KillPoint, WriteFailure};

/// The resources whose watches are disturbed; the last one only where it changes.
pub(super) const RESOURCES: [&str; 4] = ["stacks", "workspaces", "updates", "programs"];
/// Of so many writes one fails: twenty percent.
pub(super) const EVERY: usize = 5;
/// How late events are, in seconds.
const DELAYS: [u64; 3] = [1, 5, 30];
/// How long there is no API server, in seconds.
const OUTAGE: u64 = 60;
const FAILURES: [WriteFailure; 4] = [
    WriteFailure::TooManyRequests,
    WriteFailure::ServerError,
    WriteFailure::TimeoutAfterCommit,
    WriteFailure::CutAfterCommit,
];

/// A goal of the project that this grid is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goal {
    R1,
    R4,
    R5,
    R6,
}

/// What goes wrong. Writes are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The manager is killed at a write.
    Killed { write: usize, when: KillPoint },
    /// Events of a resource come late.
    Late {
        resource: &'static str,
        seconds: u64,
    },
    /// The manager is killed after a write, and the next one lists the state from before the play:
    /// for a while it sees one resource so, or all.
    OldLists {
        resource: Option<&'static str>,
        write: usize,
    },
    /// Every second change of a resource is not delivered until the watch restarts.
    Dropped { resource: &'static str },
    /// Of the changes within seconds, the last is delivered.
    Coalesced { resource: &'static str },
    /// Each second all watches are too old.
    Gone,
    /// Each second all watches break.
    Cut,
    /// A fifth of all writes fails, from this one on.
    Failing { how: WriteFailure, first: usize },
    /// After a write, the API server is unreachable for a while.
    Outage { write: usize, seconds: u64 },
    /// At a write the API server is killed, and comes back.
    Restart { write: usize },
}

impl Fault {
    pub(super) fn goal(self) -> Goal {
        match self {
            Self::Killed { .. } => Goal::R1,
            Self::Late { .. } | Self::OldLists { .. } => Goal::R4,
            Self::Dropped { .. } | Self::Coalesced { .. } | Self::Gone | Self::Cut => Goal::R5,
            Self::Failing { .. } | Self::Outage { .. } | Self::Restart { .. } => Goal::R6,
        }
    }

    /// Whether it ends the manager that there was.
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::Killed { .. } | Self::OldLists { .. })
    }

    /// Whether other tries would suffer with it.
    pub(super) fn is_alone(self) -> bool {
        matches!(self, Self::Restart { .. })
    }

    /// How long it lasts at least, in seconds.
    pub(super) fn seconds(self) -> u64 {
        match self {
            Self::Late { seconds, .. } | Self::Outage { seconds, .. } => seconds,
            _ => 0,
        }
    }

    /// All of a scenario that takes so many writes, and in which Programs change or not.
    pub(super) fn all(writes: usize, with_programs: bool) -> Vec<Self> {
        let resources = if with_programs {
            &RESOURCES[..]
        } else {
            &RESOURCES[..3]
        };
        let mut all = Vec::new();
        all.extend(kills(writes));
        all.extend(stale(writes, resources));
        all.extend(unobserved(resources));
        all.extend(refusals(writes));
        all
    }
}

/// R1.
fn kills(writes: usize) -> impl Iterator<Item = Fault> {
    (1..=writes).flat_map(|write| {
        let sides = [KillPoint::Before, KillPoint::After];
        sides.map(|when| Fault::Killed { write, when })
    })
}

/// R4.
fn stale(writes: usize, resources: &[&'static str]) -> Vec<Fault> {
    let mut all = Vec::new();
    for &resource in resources {
        all.extend(DELAYS.map(|seconds| Fault::Late { resource, seconds }));
    }
    let old = |resource, write| Fault::OldLists { resource, write };
    for write in thirds(writes) {
        all.push(old(None, write));
        all.extend(resources.iter().map(|resource| old(Some(*resource), write)));
    }
    all
}

/// R5.
fn unobserved(resources: &[&'static str]) -> Vec<Fault> {
    let mut all = vec![Fault::Gone, Fault::Cut];
    for &resource in resources {
        all.push(Fault::Dropped { resource });
        all.push(Fault::Coalesced { resource });
    }
    all
}

/// R6.
fn refusals(writes: usize) -> Vec<Fault> {
    let mut all = Vec::new();
    for how in FAILURES {
        all.extend((1..=EVERY).map(|first| Fault::Failing { how, first }));
    }
    let seconds = OUTAGE;
    let [first, second, _] = thirds(writes);
    all.push(Fault::Outage {
        write: first,
        seconds,
    });
    all.extend([first, second].map(|write| Fault::Restart { write }));
    all
}

/// A write in the first, one in the second third, and the last one that is surely made.
fn thirds(writes: usize) -> [usize; 3] {
    let last = writes.saturating_sub(2);
    [writes.div_ceil(3), (2 * writes).div_ceil(3), last].map(|write| write.max(1))
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { write, when } => {
                let side = match when {
                    KillPoint::Before => "before",
                    KillPoint::After => "after",
                };
                write!(formatter, "killed {side} write {write}")
            }
            Self::Late { resource, seconds } => write!(formatter, "{resource} {seconds}s late"),
            Self::OldLists { resource, write } => {
                let resource = resource.unwrap_or("all");
                write!(formatter, "old list of {resource} after write {write}")
            }
            Self::Dropped { resource } => write!(formatter, "{resource} dropped"),
            Self::Coalesced { resource } => write!(formatter, "{resource} coalesced"),
            Self::Gone => formatter.write_str("410 each second"),
            Self::Cut => formatter.write_str("cut each second"),
            Self::Failing { how, first } => write!(formatter, "{how:?} from write {first}"),
            Self::Outage { write, seconds } => {
                write!(formatter, "outage of {seconds}s at write {write}")
            }
            Self::Restart { write } => write!(formatter, "API server restarted at write {write}"),
        }
    }
}
