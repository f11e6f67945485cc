//! Removes locks that dead runs left behind, or advises who holds a lock and how to remove it.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::{
    lock_holder,
    lock_ownership::{KeepReason, LockDecision, LockFacts, LostRun, OwnRun, decide},
};
use crate::{
    pulumi::{CliFailure, HeldLock, LockReport},
    workspace::CliSession,
};

/// Set in every workspace pod.
const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// The agent's container in a workspace pod.
const CONTAINER: &str = "pulumi";

pub(super) struct LockRecovery<'run> {
    pub(super) stack: &'run str,
    /// Runs that the manager reports as lost.
    pub(super) lost: &'run [LostRun],
    /// The stack's finished runs in the journal.
    pub(super) own: &'run (dyn Fn() -> Vec<OwnRun> + Sync),
}

impl LockRecovery<'_> {
    /// Removes the locks that made a call fail, if all of them are proven to be abandoned by runs
    /// of ours. Returns a note for the result.
    pub(super) async fn release(
        &self,
        session: &CliSession,
        failure: &CliFailure,
    ) -> Option<String> {
        let locks = failure.locks();
        let LockDecision::Cancel(runs) = decide(&locks, &self.facts(&locks)) else {
            return None;
        };
        if let Err(error) = session.cancel(self.stack).await {
            tracing::warn!(error = error.text(), "Failed to remove a lock");
            return None;
        }
        let note = note(&runs);
        tracing::info!(stack = self.stack, "{note}");
        Some(note)
    }

    /// Who holds the stack since when, and how to remove the lock by hand. `None` if there is no
    /// lock.
    pub(super) fn advice(&self, session: &CliSession, failure: &CliFailure) -> Option<String> {
        let locks = failure.locks();
        let reason = match decide(&locks, &self.facts(&locks)) {
            LockDecision::Keep(KeepReason::NotALock) => return None,
            LockDecision::Keep(reason) => reason.to_string(),
            LockDecision::Cancel(runs) => {
                format!("{}, but removing it failed", left_by(&runs))
            }
        };
        let held = match &locks {
            LockReport::Held(held) => &held[..],
            _ => &[],
        };
        let namespace = std::env::var(POD_NAMESPACE).ok();
        let pod = namespace.map(|namespace| (namespace, lock_holder::host_name()));
        let command = command(session.program(), session.folder(), pod, self.stack);
        Some(advice(held, &reason, &command, Timestamp::now()))
    }

    fn facts(&self, locks: &LockReport) -> LockFacts {
        let LockReport::Held(held) = locks else {
            return LockFacts::default();
        };
        let living = held
            .iter()
            .filter(|lock| lock_holder::may_hold(lock.process, lock.taken));
        LockFacts {
            host: lock_holder::host_name(),
            own: (self.own)(),
            lost: self.lost.to_vec(),
            living: living.map(|lock| lock.process).collect(),
        }
    }
}

fn left_by(runs: &[String]) -> String {
    match runs {
        [run] => format!("run {run} left it behind"),
        runs => format!("runs {} left it behind", runs.join(", ")),
    }
}

fn note(runs: &[String]) -> String {
    match runs {
        [run] => format!("removed the lock that run {run} had left behind"),
        runs => format!(
            "removed the locks that runs {} had left behind",
            runs.join(", ")
        ),
    }
}

fn advice(held: &[HeldLock], reason: &str, command: &str, now: Timestamp) -> String {
    let holders: Vec<String> = held
        .iter()
        .map(|lock| format!("{lock} ({} ago)", age(lock.taken, now)))
        .collect();
    let who = if holders.is_empty() {
        "the stack is locked".to_owned()
    } else {
        format!("the stack is locked by {}", holders.join(" and by "))
    };
    format!(
        "{who}; the lock was not removed because {reason}. If nothing updates the stack, remove it: {command}"
    )
}

/// In seconds below a minute, else in minutes.
fn age(taken: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(taken).as_secs().max(0);
    let shown = if seconds < 60 {
        seconds
    } else {
        seconds - seconds % 60
    };
    format!("{:#}", SignedDuration::from_secs(shown))
}

/// The command that removes the stack's locks: in this pod, or without one, on this host.
fn command(program: &Path, folder: &Path, pod: Option<(String, String)>, stack: &str) -> String {
    let (program, folder) = (program.display(), folder.display());
    match pod {
        Some((namespace, pod)) => format!(
            "`kubectl exec -n {namespace} {pod} -c {CONTAINER} -- {program} cancel --stack {stack} --yes`"
        ),
        None => format!(
            "`{program} cancel --cwd {folder} --stack {stack} --yes`, with the stack's own environment"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(process: u32) -> HeldLock {
        HeldLock {
            user: "pulumi".to_owned(),
            host: "demo-workspace-0".to_owned(),
            process,
            taken: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    #[test]
    fn lock_advice_names_holder_age_and_command() {
        let now = "2026-01-02T05:10:59Z".parse().unwrap();
        assert_eq!(
            advice(
                &[lock(42)],
                "its process is still running",
                "`cancel it`",
                now
            ),
            "the stack is locked by pulumi@demo-workspace-0 (pid 42) since 2026-01-02T03:04:05Z (2h 6m ago); \
             the lock was not removed because its process is still running. \
             If nothing updates the stack, remove it: `cancel it`"
        );
        let both = advice(&[lock(42), lock(43)], "x", "y", now);
        assert!(
            both.contains("(pid 42) since 2026-01-02T03:04:05Z (2h 6m ago) and by pulumi@"),
            "{both}"
        );
        let none = advice(&[], "its holder cannot be read", "y", now);
        assert!(none.starts_with(
            "the stack is locked; the lock was not removed because its holder cannot"
        ));
    }

    #[test]
    fn lock_age_is_rounded_to_minutes() {
        let taken: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let table = [
            (-5, "0s"),
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_725, "1h 2m"),
            (90_061, "25h 1m"),
        ];
        for (seconds, text) in table {
            let now = taken + SignedDuration::from_secs(seconds);
            assert_eq!(age(taken, now), text);
        }
    }

    #[test]
    fn unlock_command_depends_on_pod() {
        let (program, folder) = (
            Path::new("/pulumi/bin/pulumi"),
            Path::new("/share/workspace"),
        );
        let pod = ("shop".to_owned(), "demo-workspace-0".to_owned());
        assert_eq!(
            command(program, folder, Some(pod), "dev"),
            "`kubectl exec -n shop demo-workspace-0 -c pulumi -- /pulumi/bin/pulumi cancel --stack dev --yes`"
        );
        assert_eq!(
            command(program, folder, None, "dev"),
            "`/pulumi/bin/pulumi cancel --cwd /share/workspace --stack dev --yes`, with the stack's own environment"
        );
    }

    #[test]
    fn lock_removal_note_names_runs() {
        let runs = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            note(&runs(&["a"])),
            "removed the lock that run a had left behind"
        );
        assert_eq!(
            note(&runs(&["a", "b"])),
            "removed the locks that runs a, b had left behind"
        );
        assert_eq!(left_by(&runs(&["a"])), "run a left it behind");
        assert_eq!(left_by(&runs(&["a", "b"])), "runs a, b left it behind");
    }
}
