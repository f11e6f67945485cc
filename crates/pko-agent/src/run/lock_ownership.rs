//! Whether the locks that hold a stack are ours, and nobody's any more. Pure.
//!
//! # Guarantees
//! A lock is given away only on proof. It is of this host; the process that took it is not here any more; and either a
//! run of ours had that very process, or the manager knows of a run that was lost while the lock was taken. All locks of a
//! stack go at once, so that one without a proof keeps all of them.
//!
//! # Caveats
//! A lock has no place to say whose it is. The manager's word is for a *time* in which a workspace of this name was lost:
//! whoever lets another workspace of the same host name, in another cluster or namespace, work on the same stack of the
//! same backend at that very time can be taken for the lost one; so can a pod that somebody deleted by force while its
//! node could not be reached. A process of our own journal can't.

use std::fmt;

use jiff::Timestamp;

use crate::pulumi::{HeldLock, LockReport};

/// A run of this journal that has ended, whose process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRun {
    pub(crate) run_id: String,
    pub(crate) process: u32,
    pub(crate) begun: Timestamp,
    pub(crate) ended: Timestamp,
}

/// A run that the manager knows to be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRun {
    pub(crate) run_id: String,
    pub(crate) begun: Timestamp,
    pub(crate) lost: Timestamp,
}

/// What is known of who may have taken a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LockFacts {
    /// The name of this host.
    pub(super) host: String,
    /// Of this stack.
    pub(super) own: Vec<OwnRun>,
    /// Of this stack.
    pub(super) lost: Vec<LostRun>,
    /// Processes of this host that may be the holders: they are there, and were when the locks were taken.
    pub(super) living: Vec<u32>,
}

/// What becomes of the locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LockDecision {
    /// They go: these runs have left them behind.
    Cancel(Vec<String>),
    /// They stay.
    Leave(KeepReason),
}

/// Why a lock stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepReason {
    NotALock,
    Unreadable,
    OtherHost,
    Living,
    NotOurs,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotALock => "the state backend itself says that it is in use",
            Self::Unreadable => "it can't be read who holds it",
            Self::OtherHost => "that is another host than this workspace's",
            Self::Living => "that process is still there",
            Self::NotOurs => "no run of this workspace is known to have left it behind",
        })
    }
}

/// Decides what becomes of the locks that hold a stack.
pub(super) fn decide(locks: &LockReport, facts: &LockFacts) -> LockDecision {
    let held = match locks {
        LockReport::NotReported => return LockDecision::Leave(KeepReason::NotALock),
        LockReport::Unreadable => return LockDecision::Leave(KeepReason::Unreadable),
        LockReport::Held(held) => held,
    };
    let runs: Result<Vec<String>, KeepReason> =
        held.iter().map(|lock| left_by(lock, facts)).collect();
    match runs {
        Ok(runs) if runs.is_empty() => LockDecision::Leave(KeepReason::Unreadable),
        Ok(mut runs) => {
            runs.dedup();
            LockDecision::Cancel(runs)
        }
        Err(reason) => LockDecision::Leave(reason),
    }
}

/// The run that has left a lock behind.
fn left_by(lock: &HeldLock, facts: &LockFacts) -> Result<String, KeepReason> {
    if lock.host != facts.host || facts.host.is_empty() {
        return Err(KeepReason::OtherHost);
    }
    if facts.living.contains(&lock.process) {
        return Err(KeepReason::Living);
    }
    let own = facts
        .own
        .iter()
        .find(|run| run.process == lock.process && is_within(lock.taken, run.begun, run.ended));
    let lost = || {
        let mut lost = facts.lost.iter();
        lost.find(|run| is_within(lock.taken, run.begun, run.lost))
    };
    let own = own.map(|run| &run.run_id);
    let run = own.or_else(|| lost().map(|run| &run.run_id));
    run.cloned().ok_or(KeepReason::NotOurs)
}

/// In whole seconds: the CLI and the API server know no other.
fn is_within(time: Timestamp, begin: Timestamp, end: Timestamp) -> bool {
    (begin.as_second()..=end.as_second()).contains(&time.as_second())
}

#[cfg(test)]
mod tests {
    use super::{KeepReason::*, LockDecision::*, *};

    const HOST: &str = "demo-workspace-0";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn fraction(second: i64, millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(at(second).as_millisecond() + millisecond).unwrap()
    }

    fn lock(host: &str, process: u32, taken: Timestamp) -> HeldLock {
        HeldLock {
            user: "pulumi".to_owned(),
            host: host.to_owned(),
            process,
            taken,
        }
    }

    fn own(run_id: &str, process: u32, begun: i64, ended: i64) -> OwnRun {
        OwnRun {
            run_id: run_id.to_owned(),
            process,
            begun: at(begun),
            ended: at(ended),
        }
    }

    fn lost(run_id: &str, begun: i64, lost: i64) -> LostRun {
        LostRun {
            run_id: run_id.to_owned(),
            begun: at(begun),
            lost: at(lost),
        }
    }

    fn facts(own: &[OwnRun], lost: &[LostRun], living: &[u32]) -> LockFacts {
        LockFacts {
            host: HOST.to_owned(),
            own: own.to_vec(),
            lost: lost.to_vec(),
            living: living.to_vec(),
        }
    }

    fn check<const N: usize>(table: [(&str, Vec<HeldLock>, LockFacts, LockDecision); N]) {
        for (what, locks, facts, expected) in table {
            assert_eq!(decide(&LockReport::Held(locks), &facts), expected, "{what}");
        }
    }

    fn cancel(runs: &[&str]) -> LockDecision {
        Cancel(runs.iter().map(|run| (*run).to_owned()).collect())
    }

    #[test]
    fn lock_of_journaled_run_is_cancelled() {
        let one = || facts(&[own("one", 42, 10, 100)], &[], &[]);
        let ours = |taken| vec![lock(HOST, 42, taken)];
        check([
            ("ours, and dead", ours(at(20)), one(), cancel(&["one"])),
            ("taken as it began", ours(at(10)), one(), cancel(&["one"])),
            ("taken as it ended", ours(at(100)), one(), cancel(&["one"])),
            ("taken before it began", ours(at(9)), one(), Leave(NotOurs)),
            ("taken after its end", ours(at(101)), one(), Leave(NotOurs)),
            (
                "another process",
                vec![lock(HOST, 43, at(20))],
                one(),
                Leave(NotOurs),
            ),
            (
                "another host, the same number",
                vec![lock("laptop", 42, at(20))],
                one(),
                Leave(OtherHost),
            ),
            (
                "a process of that number is there",
                ours(at(20)),
                facts(&[own("one", 42, 10, 100)], &[], &[42]),
                Leave(Living),
            ),
            (
                "another process is there",
                ours(at(20)),
                facts(&[own("one", 42, 10, 100)], &[], &[43]),
                cancel(&["one"]),
            ),
            (
                "the later of two with the same number",
                ours(at(220)),
                facts(
                    &[own("one", 42, 10, 100), own("two", 42, 200, 300)],
                    &[],
                    &[],
                ),
                cancel(&["two"]),
            ),
            (
                "between two with the same number",
                ours(at(150)),
                facts(
                    &[own("one", 42, 10, 100), own("two", 42, 200, 300)],
                    &[],
                    &[],
                ),
                Leave(NotOurs),
            ),
            (
                "nothing is known",
                ours(at(20)),
                facts(&[], &[], &[]),
                Leave(NotOurs),
            ),
        ]);
    }

    /// The CLI leaves out fractions, so that a lock seems to be older than it is, and than its run.
    #[test]
    fn lock_times_compare_by_whole_seconds() {
        let run = |begun, ended| OwnRun {
            begun,
            ended,
            ..own("one", 42, 0, 0)
        };
        let ours = |taken| vec![lock(HOST, 42, taken)];
        let late = LostRun {
            begun: fraction(10, 900),
            ..lost("one", 0, 20)
        };
        check([
            (
                "begun in the same second",
                ours(at(10)),
                facts(&[run(fraction(10, 900), at(20))], &[], &[]),
                cancel(&["one"]),
            ),
            (
                "ended in the same second",
                ours(fraction(20, 900)),
                facts(&[run(at(10), fraction(20, 100))], &[], &[]),
                cancel(&["one"]),
            ),
            (
                "begun in the next second",
                ours(fraction(9, 999)),
                facts(&[run(at(10), at(20))], &[], &[]),
                Leave(NotOurs),
            ),
            (
                "lost, and begun in the same second",
                ours(at(10)),
                facts(&[], &[late], &[]),
                cancel(&["one"]),
            ),
        ]);
    }

    #[test]
    fn lock_of_lost_run_is_cancelled() {
        let gone = || facts(&[], &[lost("gone", 10, 100)], &[]);
        let ours = |taken| vec![lock(HOST, 42, taken)];
        check([
            ("in its time", ours(at(20)), gone(), cancel(&["gone"])),
            ("as it began", ours(at(10)), gone(), cancel(&["gone"])),
            ("as it was lost", ours(at(100)), gone(), cancel(&["gone"])),
            ("before it", ours(at(9)), gone(), Leave(NotOurs)),
            ("after it", ours(at(101)), gone(), Leave(NotOurs)),
            (
                "of another host in its time",
                vec![lock("demo-workspace-1", 42, at(20))],
                gone(),
                Leave(OtherHost),
            ),
            (
                "its process is there",
                ours(at(20)),
                facts(&[], &[lost("gone", 10, 100)], &[42]),
                Leave(Living),
            ),
            (
                "one of several",
                ours(at(220)),
                facts(&[], &[lost("a", 10, 100), lost("b", 200, 300)], &[]),
                cancel(&["b"]),
            ),
            (
                "the journal knows better whose it is",
                ours(at(20)),
                facts(&[own("one", 42, 10, 30)], &[lost("gone", 10, 100)], &[]),
                cancel(&["one"]),
            ),
            (
                "the journal knows other processes only",
                ours(at(20)),
                facts(&[own("one", 41, 10, 30)], &[lost("gone", 10, 100)], &[]),
                cancel(&["gone"]),
            ),
            (
                "a window that ends before it begins",
                ours(at(50)),
                facts(&[], &[lost("gone", 100, 10)], &[]),
                Leave(NotOurs),
            ),
        ]);
    }

    /// One cancel takes all locks away.
    #[test]
    fn one_unproven_lock_keeps_all() {
        let ours = || lock(HOST, 42, at(20));
        let both = || facts(&[own("one", 42, 10, 100)], &[lost("gone", 200, 300)], &[]);
        check([
            (
                "both ours",
                vec![ours(), lock(HOST, 7, at(250))],
                both(),
                cancel(&["one", "gone"]),
            ),
            (
                "twice the same run's",
                vec![lock(HOST, 7, at(250)), lock(HOST, 8, at(251))],
                both(),
                cancel(&["gone"]),
            ),
            (
                "the second is foreign",
                vec![ours(), lock("laptop", 42, at(20))],
                both(),
                Leave(OtherHost),
            ),
            (
                "the first is foreign",
                vec![lock("laptop", 42, at(20)), ours()],
                both(),
                Leave(OtherHost),
            ),
            (
                "the second is of no known run",
                vec![ours(), lock(HOST, 7, at(150))],
                both(),
                Leave(NotOurs),
            ),
            (
                "the second lives",
                vec![ours(), lock(HOST, 7, at(250))],
                facts(&[own("one", 42, 10, 100)], &[lost("gone", 200, 300)], &[7]),
                Leave(Living),
            ),
        ]);
    }

    #[test]
    fn unreadable_lock_is_kept() {
        let knows_all = facts(&[own("one", 42, 0, 1000)], &[lost("gone", 0, 1000)], &[]);
        assert_eq!(
            decide(&LockReport::NotReported, &knows_all),
            Leave(NotALock)
        );
        assert_eq!(
            decide(&LockReport::Unreadable, &knows_all),
            Leave(Unreadable)
        );
        assert_eq!(
            decide(&LockReport::Held(Vec::new()), &knows_all),
            Leave(Unreadable)
        );
        let cloud =
            LockReport::parse("error: [409] Conflict: Another update is currently in progress.");
        assert_eq!(decide(&cloud, &knows_all), Leave(NotALock));
    }

    /// A host without a name is nobody's.
    #[test]
    fn lock_of_unknown_host_is_kept() {
        let nameless = LockFacts {
            host: String::new(),
            ..facts(&[own("one", 42, 10, 100)], &[], &[])
        };
        let locks = LockReport::Held(vec![lock("", 42, at(20))]);
        assert_eq!(decide(&locks, &nameless), Leave(OtherHost));
    }
}
