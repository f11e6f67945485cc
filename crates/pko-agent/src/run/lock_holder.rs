//! Checks whether a process of this host may hold a lock.

use std::fs;

use jiff::Timestamp;

/// `USER_HZ`, which is 100 on all supported platforms.
const TICKS_PER_SECOND: i64 = 100;
/// For clock adjustments, and for the boot time's resolution of a second.
const TOLERANCE_SECONDS: i64 = 2;

/// The host name, as the CLI writes it into its locks.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Whether a process with this id may have taken a lock at that time. True if in doubt.
pub(super) fn may_hold(process: u32, taken: Timestamp) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => may_have_taken(&stat, boot_time(), taken),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// In seconds since 1970.
fn boot_time() -> Option<i64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// A `pulumi` process counts whatever its start time, because a clock adjustment would hide it.
fn may_have_taken(stat: &str, boot_time: Option<i64>, taken: Timestamp) -> bool {
    // The name is in parentheses and may contain any character; the fields follow it.
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
    // Field 22 of the line; the state is field 3.
    let ticks = fields.nth(18).and_then(|ticks| ticks.parse::<i64>().ok());
    let started_at = ticks
        .zip(boot_time)
        .map(|(ticks, boot_time)| boot_time + ticks / TICKS_PER_SECOND);
    let existed = |start: i64| start <= taken.as_second() + TOLERANCE_SECONDS;
    is_pulumi || started_at.is_none_or(existed)
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
        // Booted at 1000, so 5000 is 400 000 ticks later.
        let table = [
            (
                "started before the lock",
                line("sleep", "S", "300000"),
                Some(1_000),
                true,
            ),
            (
                "started with the lock",
                line("sleep", "S", "400000"),
                Some(1_000),
                true,
            ),
            (
                "started within the tolerance",
                line("sleep", "S", "400200"),
                Some(1_000),
                true,
            ),
            (
                "started later",
                line("sleep", "S", "400300"),
                Some(1_000),
                false,
            ),
            (
                "pulumi, started later",
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
            ("zombie", line("pulumi", "Z", "300000"), Some(1_000), false),
            ("dead", line("pulumi", "X", "300000"), Some(1_000), false),
            (
                "unknown boot time",
                line("sleep", "S", "900000"),
                None,
                true,
            ),
            (
                "unknown start time",
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
        for (what, stat, boot_time, expected) in table {
            assert_eq!(may_have_taken(&stat, boot_time, taken), expected, "{what}");
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
