//! The locks by which a stack is held, as the CLI tells of them when it can't have one itself. Pure.
//!
//! Only a state backend in files or buckets tells that: where Pulumi Cloud says that another update is in progress,
//! nobody but the service knows more.

use std::fmt;

use jiff::Timestamp;

const COMPLAINT: &str = "the stack is currently locked by ";

/// Who holds a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) user: String,
    pub(crate) host: String,
    pub(crate) process: u32,
    /// When it was taken. Pulumi's CLI leaves out what is less than a second.
    pub(crate) taken: Timestamp,
}

/// What a failed call says of locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Locks {
    /// Nothing: it failed for another reason.
    NotSaid,
    /// There are some, and not all of them can be told from the text.
    Unreadable,
    /// These, and no other.
    Held(Vec<HeldLock>),
}

impl fmt::Display for HeldLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            host,
            process,
            taken,
        } = self;
        write!(formatter, "{user}@{host} (pid {process}) since {taken:.0}")
    }
}

impl Locks {
    /// What the CLI's complaints say. A text that is not wholly understood says nothing of any lock.
    pub(crate) fn of(complaints: &str) -> Self {
        let mut lines = complaints.lines();
        let Some(count) = lines.find_map(counted) else {
            return Self::NotSaid;
        };
        let rest: Vec<&str> = lines.collect();
        let held = rest
            .iter()
            .take_while(|line| line.starts_with("  "))
            .map(|line| held_lock(line));
        let held: Option<Vec<HeldLock>> = held.collect();
        let is_whole = |held: &Vec<HeldLock>| held.len() == count && !held.is_empty();
        let is_said_once = !rest.iter().any(|line| counted(line).is_some());
        match held.filter(is_whole).filter(|_| is_said_once) {
            Some(held) => Self::Held(held),
            None => Self::Unreadable,
        }
    }
}

/// How many locks a line complains about, if it does: none if that is no number, which is never whole.
fn counted(line: &str) -> Option<usize> {
    let complaint = line.strip_prefix("error:")?;
    let (_, rest) = complaint.split_once(COMPLAINT)?;
    let count = rest.split_once(" lock(s)").map(|(count, _)| count);
    Some(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// `  PLACE: created by USER@HOST (pid NUMBER) at TIME`. A user's name may hold an `@`, a host's does not.
fn held_lock(line: &str) -> Option<HeldLock> {
    let (_, holder) = line.rsplit_once(": created by ")?;
    let (holder, taken) = holder.rsplit_once(" at ")?;
    let (holder, process) = holder.strip_suffix(')')?.rsplit_once(" (pid ")?;
    let (user, host) = holder.rsplit_once('@')?;
    Some(HeldLock {
        user: user.to_owned(),
        host: Some(host).filter(|host| !host.is_empty())?.to_owned(),
        process: process.parse().ok()?,
        taken: taken.trim_end().parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "  s3://b/.pulumi/locks/organization/demo/dev/1.json?region=x: created by pulumi@demo-workspace-0 (pid 4242) at 2026-01-02T03:04:05Z";
    const SECOND: &str = "  file:///a: created by b/2.json: created by me@corp@laptop (pid 7) at 2026-01-02T05:04:05+02:00";

    fn first() -> HeldLock {
        HeldLock {
            user: "pulumi".to_owned(),
            host: "demo-workspace-0".to_owned(),
            process: 4242,
            taken: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    fn second() -> HeldLock {
        HeldLock {
            user: "me@corp".to_owned(),
            host: "laptop".to_owned(),
            process: 7,
            taken: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    fn complaint(count: &str) -> String {
        format!(
            "error: the stack is currently locked by {count} lock(s). Either wait for the other process(es) to end or \
             delete the lock file with `pulumi cancel`."
        )
    }

    #[test]
    fn what_the_cli_really_printed() {
        let printed =
            include_str!("../../../../testing/pko-testkit/transcripts/33-up-locked/stderr.txt");
        assert_eq!(Locks::of(printed), Locks::Held(vec![first()]));
    }

    #[test]
    fn every_lock_is_read_or_none() {
        let (one, two) = (complaint("1"), complaint("2"));
        let held = |locks: &[HeldLock]| Locks::Held(locks.to_vec());
        let fraction = FIRST.replace("05Z", "05.75Z");
        let with_fraction = HeldLock {
            taken: "2026-01-02T03:04:05.75Z".parse().unwrap(),
            ..first()
        };
        let table = [
            ("one", format!("{one}\n{FIRST}\n"), held(&[first()])),
            (
                "the engine's time",
                format!("{one}\n{fraction}\n"),
                held(&[with_fraction]),
            ),
            (
                "two",
                format!("{two}\n{FIRST}\n{SECOND}"),
                held(&[first(), second()]),
            ),
            (
                "words before and after it",
                format!("warning: x\n{one}\n{FIRST}\ngoodbye\n"),
                held(&[first()]),
            ),
            (
                "as a part of another complaint",
                format!(
                    "{}\n{FIRST}",
                    one.replace("error:", "error: could not create stack:")
                ),
                held(&[first()]),
            ),
            (
                "Pulumi Cloud",
                "error: [409] Conflict: Another update is currently in progress.".to_owned(),
                Locks::NotSaid,
            ),
            (
                "a program that prints it",
                format!("{}\n{FIRST}", one.trim_start_matches("error: ")),
                Locks::NotSaid,
            ),
            ("nothing", String::new(), Locks::NotSaid),
        ];
        for (what, text, expected) in table {
            assert_eq!(Locks::of(&text), expected, "{what}: {text}");
        }
    }

    #[test]
    fn what_is_not_wholly_understood_says_nothing() {
        let (one, two) = (complaint("1"), complaint("2"));
        let table = [
            ("fewer than it says", format!("{two}\n{FIRST}\n")),
            ("more than it says", format!("{one}\n{FIRST}\n{SECOND}\n")),
            ("none", format!("{one}\n")),
            ("none, and it says so", complaint("0")),
            ("no number", format!("{}\n{FIRST}", complaint("many"))),
            ("said twice", format!("{one}\n{FIRST}\n{one}\n{FIRST}\n")),
            (
                "a holder that the engine can't read",
                format!("{one}\n  file:///a/1.json: unknown holder\n"),
            ),
            (
                "one of two that can't be read",
                format!("{two}\n{FIRST}\n  file:///a/1.json: unknown holder\n"),
            ),
            (
                "a time that is none",
                format!("{one}\n{}\n", FIRST.replace("03:04:05Z", "soon")),
            ),
            (
                "a time without a zone",
                format!("{one}\n{}\n", FIRST.replace("05Z", "05")),
            ),
            (
                "a process that is none",
                format!("{one}\n{}\n", FIRST.replace("4242", "-1")),
            ),
            (
                "nobody's host",
                format!("{one}\n{}\n", FIRST.replace("demo-workspace-0", "")),
            ),
            (
                "a text with its middle left out",
                format!("{two}\n{}\n[...]\n{FIRST}\n", &FIRST[..40]),
            ),
        ];
        for (what, text) in table {
            assert_eq!(Locks::of(&text), Locks::Unreadable, "{what}: {text}");
        }
    }

    #[test]
    fn a_holder_is_told_as_a_person_would() {
        assert_eq!(
            first().to_string(),
            "pulumi@demo-workspace-0 (pid 4242) since 2026-01-02T03:04:05Z"
        );
    }
}
