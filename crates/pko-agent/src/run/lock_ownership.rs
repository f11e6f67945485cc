//! Decides whether the locks of a stack were left behind by dead runs of this workspace. Pure.
//!
//! # Guarantees
//! A lock is removed only if it is proven to be abandoned: it was taken on this host, its process
//! does not exist any more, and either a journaled run had that process, or the manager lost a run
//! in the time in which the lock was taken. All locks of a stack are removed at once, so one
//! unproven lock keeps all of them.
//!
//! # Caveats
//! A lock does not name its workspace. For a run that the manager lost, only the host name and the
//! time match, so another workspace with the same host name (in another cluster or namespace) that
//! works on the same stack at that time can be mistaken for the lost one. So can a pod that was
//! force-deleted while its node was unreachable. A process of our own journal cannot be mistaken.

use std::fmt;

use jiff::Timestamp;

use crate::pulumi::{HeldLock, LockReport};

/// A finished run of this journal, whose process has exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRun {
    pub(crate) run_id: String,
    pub(crate) process: u32,
    pub(crate) begun: Timestamp,
    pub(crate) ended: Timestamp,
}

/// A run that the manager reports as lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRun {
    pub(crate) run_id: String,
    pub(crate) begun: Timestamp,
    pub(crate) lost: Timestamp,
}

/// The candidates for a lock's holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LockFacts {
    pub(super) host: String,
    /// Finished runs of this stack.
    pub(super) own: Vec<OwnRun>,
    /// Lost runs of this stack.
    pub(super) lost: Vec<LostRun>,
    /// Existing processes of this host that may have taken the locks.
    pub(super) living: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LockDecision {
    /// Remove the locks, which these runs left behind.
    Cancel(Vec<String>),
    Keep(KeepReason),
}

/// Why the locks are not removed.
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
            Self::NotALock => "the state backend reports an update in progress",
            Self::Unreadable => "its holder cannot be read",
            Self::OtherHost => "it was taken on another host",
            Self::Living => "its process is still running",
            Self::NotOurs => "it belongs to no known run of this workspace",
        })
    }
}

pub(super) fn decide(locks: &LockReport, facts: &LockFacts) -> LockDecision {
    let held = match locks {
        LockReport::NotReported => return LockDecision::Keep(KeepReason::NotALock),
        LockReport::Unreadable => return LockDecision::Keep(KeepReason::Unreadable),
        LockReport::Held(held) => held,
    };
    let runs: Result<Vec<String>, KeepReason> = held
        .iter()
        .map(|lock| abandoning_run(lock, facts))
        .collect();
    match runs {
        Ok(runs) if runs.is_empty() => LockDecision::Keep(KeepReason::Unreadable),
        Ok(mut runs) => {
            runs.dedup();
            LockDecision::Cancel(runs)
        }
        Err(reason) => LockDecision::Keep(reason),
    }
}

/// The run that left the lock behind.
fn abandoning_run(lock: &HeldLock, facts: &LockFacts) -> Result<String, KeepReason> {
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

/// In whole seconds, which is the resolution of the CLI and of the API server.
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
            ("taken before it began", ours(at(9)), one(), Keep(NotOurs)),
            ("taken after its end", ours(at(101)), one(), Keep(NotOurs)),
            (
                "another process",
                vec![lock(HOST, 43, at(20))],
                one(),
                Keep(NotOurs),
            ),
            (
                "another host, the same number",
                vec![lock("laptop", 42, at(20))],
                one(),
                Keep(OtherHost),
            ),
            (
                "a process of that number is there",
                ours(at(20)),
                facts(&[own("one", 42, 10, 100)], &[], &[42]),
                Keep(Living),
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
                Keep(NotOurs),
            ),
            (
                "nothing is known",
                ours(at(20)),
                facts(&[], &[], &[]),
                Keep(NotOurs),
            ),
        ]);
    }

    /// The CLI omits fractions, so a lock can appear to be older than its run.
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
                Keep(NotOurs),
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
            ("before it", ours(at(9)), gone(), Keep(NotOurs)),
            ("after it", ours(at(101)), gone(), Keep(NotOurs)),
            (
                "of another host in its time",
                vec![lock("demo-workspace-1", 42, at(20))],
                gone(),
                Keep(OtherHost),
            ),
            (
                "its process is there",
                ours(at(20)),
                facts(&[], &[lost("gone", 10, 100)], &[42]),
                Keep(Living),
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
                Keep(NotOurs),
            ),
        ]);
    }

    /// One `pulumi cancel` removes all locks.
    #[test]
    fn unproven_lock_keeps_all_locks() {
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
                Keep(OtherHost),
            ),
            (
                "the first is foreign",
                vec![lock("laptop", 42, at(20)), ours()],
                both(),
                Keep(OtherHost),
            ),
            (
                "the second is of no known run",
                vec![ours(), lock(HOST, 7, at(150))],
                both(),
                Keep(NotOurs),
            ),
            (
                "the second lives",
                vec![ours(), lock(HOST, 7, at(250))],
                facts(&[own("one", 42, 10, 100)], &[lost("gone", 200, 300)], &[7]),
                Keep(Living),
            ),
        ]);
    }

    #[test]
    fn unreadable_lock_is_kept() {
        let all_facts = facts(&[own("one", 42, 0, 1000)], &[lost("gone", 0, 1000)], &[]);
        assert_eq!(decide(&LockReport::NotReported, &all_facts), Keep(NotALock));
        assert_eq!(
            decide(&LockReport::Unreadable, &all_facts),
            Keep(Unreadable)
        );
        assert_eq!(
            decide(&LockReport::Held(Vec::new()), &all_facts),
            Keep(Unreadable)
        );
        let cloud =
            LockReport::parse("error: [409] Conflict: Another update is currently in progress.");
        assert_eq!(decide(&cloud, &all_facts), Keep(NotALock));
    }

    #[test]
    fn lock_of_unknown_host_is_kept() {
        let nameless = LockFacts {
            host: String::new(),
            ..facts(&[own("one", 42, 10, 100)], &[], &[])
        };
        let locks = LockReport::Held(vec![lock("", 42, at(20))]);
        assert_eq!(decide(&locks, &nameless), Keep(OtherHost));
    }
}
