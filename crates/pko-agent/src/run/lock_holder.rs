//! Whether a process of this host may be the one that has taken a lock.

use std::fs;

use jiff::Timestamp;

/// In which the kernel tells times to programs, whatever it counts in itself.
const TICKS_A_SECOND: i64 = 100;
/// Clocks are set now and then, and the kernel knows to the second when it began.
const TOLERANCE_SECONDS: i64 = 2;

/// The name of this host, as the CLI writes it into its locks.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Whether there is a process of this number that may have taken a lock at that time. In doubt there is.
pub(super) fn may_hold(process: u32, taken: Timestamp) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => could_have(&stat, booted(), taken),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// When the kernel began, in seconds since 1970.
fn booted() -> Option<i64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// A `pulumi` is taken for the holder whenever it began: a clock that was set would hide it.
fn could_have(stat: &str, booted: Option<i64>, taken: Timestamp) -> bool {
    // The name is in parentheses and may hold anything; the fields follow it.
    let Some((head, fields)) = stat.rsplit_once(')') else {
        return true;
    };
    let is_pulumi = head
        .split_once('(')
        .is_some_and(|(_, name)| name.starts_with("pulumi"));
    let mut fields = fields.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return false;
    }
    // The 22nd of the whole line, and the state was the third.
    let ticks = fields.nth(18).and_then(|ticks| ticks.parse::<i64>().ok());
    let began = ticks
        .zip(booted)
        .map(|(ticks, booted)| booted + ticks / TICKS_A_SECOND);
    let was_there = |began: i64| began <= taken.as_second() + TOLERANCE_SECONDS;
    is_pulumi || began.is_none_or(was_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_holder_is_judged_by_start_time() {
        let line = |name: &str, state: &str, ticks: &str| {
            format!("42 ({name}) {state} 1 42 42 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 {ticks} 9 10\n")
        };
        let taken = Timestamp::from_second(5_000).unwrap();
        // The kernel began at 1000, so that 5000 is 400 000 ticks later.
        let table = [
            (
                "it was there",
                line("sleep", "S", "300000"),
                Some(1_000),
                true,
            ),
            (
                "it began with the lock",
                line("sleep", "S", "400000"),
                Some(1_000),
                true,
            ),
            (
                "it began a moment later",
                line("sleep", "S", "400200"),
                Some(1_000),
                true,
            ),
            (
                "it began later",
                line("sleep", "S", "400300"),
                Some(1_000),
                false,
            ),
            (
                "later, and a pulumi",
                line("pulumi", "S", "900000"),
                Some(1_000),
                true,
            ),
            (
                "the engine",
                line("pulumi-engine", "R", "900000"),
                Some(1_000),
                true,
            ),
            (
                "it has ended",
                line("pulumi", "Z", "300000"),
                Some(1_000),
                false,
            ),
            (
                "it is just gone",
                line("pulumi", "X", "300000"),
                Some(1_000),
                false,
            ),
            (
                "nobody knows when the kernel began",
                line("sleep", "S", "900000"),
                None,
                true,
            ),
            (
                "nobody knows when it began",
                line("sleep", "S", "x"),
                Some(1_000),
                true,
            ),
            (
                "a name that looks like fields",
                line("a) Z (b", "S", "900000"),
                Some(1_000),
                false,
            ),
            ("nonsense", "nonsense".to_owned(), Some(1_000), true),
        ];
        for (what, stat, booted, expected) in table {
            assert_eq!(could_have(&stat, booted, taken), expected, "{what}");
        }
    }

    #[test]
    fn own_process_may_hold_only_recent_lock() {
        let now = Timestamp::now();
        assert!(may_hold(std::process::id(), now));
        assert!(!may_hold(std::process::id(), Timestamp::UNIX_EPOCH));
        assert!(!may_hold(u32::MAX, now));
        assert!(!host_name().is_empty());
    }
}
