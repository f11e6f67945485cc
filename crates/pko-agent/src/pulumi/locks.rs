//! The locks of a stack, parsed from the CLI's error when it cannot take the lock. Pure.
//!
//! Only backends in files and buckets report their locks. Pulumi Cloud reports only that another
//! update is in progress.

use std::fmt;

use jiff::Timestamp;

const LOCKED_MESSAGE: &str = "the stack is currently locked by ";

/// A lock and its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) user: String,
    pub(crate) host: String,
    pub(crate) process: u32,
    /// Pulumi's CLI omits fractions of a second.
    pub(crate) taken: Timestamp,
}

/// What a failed call reports about locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockReport {
    /// Nothing; it failed for another reason.
    NotReported,
    /// There are locks, but not all of them can be parsed.
    Unreadable,
    /// Exactly these.
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

impl LockReport {
    /// Parses standard error. A report that is not understood completely is unreadable as a whole.
    pub(crate) fn parse(stderr: &str) -> Self {
        let mut lines = stderr.lines();
        let Some(count) = lines.find_map(lock_count) else {
            return Self::NotReported;
        };
        let rest: Vec<&str> = lines.collect();
        let held = rest
            .iter()
            .take_while(|line| line.starts_with("  "))
            .map(|line| held_lock(line));
        let held: Option<Vec<HeldLock>> = held.collect();
        let is_whole = |held: &Vec<HeldLock>| held.len() == count && !held.is_empty();
        let is_single_report = !rest.iter().any(|line| lock_count(line).is_some());
        match held.filter(is_whole).filter(|_| is_single_report) {
            Some(held) => Self::Held(held),
            None => Self::Unreadable,
        }
    }
}

/// The number of locks that a line reports; 0 if it is not a number, which matches no report.
fn lock_count(line: &str) -> Option<usize> {
    let error = line.strip_prefix("error:")?;
    let (_, rest) = error.split_once(LOCKED_MESSAGE)?;
    let count = rest.split_once(" lock(s)").map(|(count, _)| count);
    Some(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// `  LOCATION: created by USER@HOST (pid NUMBER) at TIME`. A user name may contain `@`, a host
/// name may not.
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

    fn locked_error(count: &str) -> String {
        format!(
            "error: the stack is currently locked by {count} lock(s). Either wait for the other process(es) to end or \
             delete the lock file with `pulumi cancel`."
        )
    }

    #[test]
    fn lock_report_parses_real_cli_output() {
        let printed =
            include_str!("../../../../testing/pko-testkit/transcripts/33-up-locked/stderr.txt");
        assert_eq!(LockReport::parse(printed), LockReport::Held(vec![first()]));
    }

    #[test]
    fn lock_report_is_complete_or_unreadable() {
        let (one, two) = (locked_error("1"), locked_error("2"));
        let held = |locks: &[HeldLock]| LockReport::Held(locks.to_vec());
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
                "as part of another error",
                format!(
                    "{}\n{FIRST}",
                    one.replace("error:", "error: could not create stack:")
                ),
                held(&[first()]),
            ),
            (
                "Pulumi Cloud",
                "error: [409] Conflict: Another update is currently in progress.".to_owned(),
                LockReport::NotReported,
            ),
            (
                "a program that prints it",
                format!("{}\n{FIRST}", one.trim_start_matches("error: ")),
                LockReport::NotReported,
            ),
            ("nothing", String::new(), LockReport::NotReported),
        ];
        for (what, text, expected) in table {
            assert_eq!(LockReport::parse(&text), expected, "{what}: {text}");
        }
    }

    #[test]
    fn lock_report_rejects_partial_text() {
        let (one, two) = (locked_error("1"), locked_error("2"));
        let table = [
            ("fewer than it says", format!("{two}\n{FIRST}\n")),
            ("more than it says", format!("{one}\n{FIRST}\n{SECOND}\n")),
            ("none", format!("{one}\n")),
            ("none, and it says so", locked_error("0")),
            ("no number", format!("{}\n{FIRST}", locked_error("many"))),
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
            assert_eq!(
                LockReport::parse(&text),
                LockReport::Unreadable,
                "{what}: {text}"
            );
        }
    }

    #[test]
    fn held_lock_display_names_holder() {
        assert_eq!(
            first().to_string(),
            "pulumi@demo-workspace-0 (pid 4242) since 2026-01-02T03:04:05Z"
        );
    }
}
