//! Pax records (`<length> <key>=<value>\n`), which describe the next member or all members.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last value of a repeated key counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxRecords {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<SystemTime>,
    /// The member is a sparse file: its data begins with a list of holes.
    pub(super) sparse: bool,
}

/// Returns `None` if the records are malformed.
pub(super) fn parse(mut bytes: &[u8]) -> Option<PaxRecords> {
    let mut records = PaxRecords::default();
    while !bytes.is_empty() {
        let (record, rest) = split_record(bytes)?;
        let equals = record.iter().position(|byte| *byte == b'=')?;
        let (key, value) = record.split_at_checked(equals)?;
        records.add(key, value.get(1..)?)?;
        bytes = rest;
    }
    Some(records)
}

/// The length includes its own digits, the space and the final newline. A value may contain
/// newlines.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length = decimal(bytes.get(..space)?)?;
    let (record, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    Some((record, rest))
}

impl PaxRecords {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(path(value)?),
            b"size" => self.size = Some(decimal(value)?),
            b"mtime" => self.modified = Some(time(value)?),
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {}
        }
        Some(())
    }
}

fn path(value: &[u8]) -> Option<Vec<u8>> {
    let good = !value.is_empty() && !value.contains(&0);
    good.then(|| value.to_vec())
}

fn decimal(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    digits.then(|| str::from_utf8(bytes).ok()?.parse().ok())?
}

/// Seconds since 1970, possibly negative or with a fraction.
fn time(value: &[u8]) -> Option<SystemTime> {
    match value.strip_prefix(b"-") {
        Some(before) => UNIX_EPOCH.checked_sub(seconds(before)?),
        None => UNIX_EPOCH.checked_add(seconds(value)?),
    }
}

fn seconds(value: &[u8]) -> Option<Duration> {
    let point = value.iter().position(|byte| *byte == b'.');
    let (seconds, fraction) = value.split_at_checked(point.unwrap_or(value.len()))?;
    let fraction = fraction.get(1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(b"000000000".iter()).take(9);
    let nanoseconds = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Some(Duration::new(decimal(seconds)?, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> Vec<u8> {
        let bare = key.len() + value.len() + 3;
        let length = (bare..bare + 9).find(|length| bare + length.to_string().len() == *length);
        format!("{} {key}={value}\n", length.unwrap()).into_bytes()
    }

    #[test]
    fn records() {
        let bytes = [
            record("comment", "x"),
            record("path", "first"),
            record("path", "of\n11 path=x\n two lines"),
            record("size", "12"),
            record("mtime", "1350244992.0239601089"),
        ];
        let found = parse(&bytes.concat()).unwrap();
        assert_eq!(found.path.unwrap(), b"of\n11 path=x\n two lines");
        assert_eq!(found.size, Some(12));
        let time = Duration::new(1_350_244_992, 23_960_108);
        assert_eq!(found.modified, Some(UNIX_EPOCH + time));
        assert!(!found.sparse);
        assert_eq!(parse(b""), Some(PaxRecords::default()));
        let early = parse(&record("mtime", "-1.5")).unwrap();
        let before = UNIX_EPOCH.checked_sub(Duration::from_millis(1500));
        assert_eq!(early.modified, before);
        let holes = parse(&record("GNU.sparse.major", "1")).unwrap();
        assert!(holes.sparse);
    }

    #[test]
    fn pax_malformed_records_are_rejected() {
        let bad: [&[u8]; 10] = [
            b"\0\0\0\0",
            b"6 a=b",
            b"7 a=b\n",
            b"5 a=b\n",
            b"+6 a=b\n",
            b"0 a=b\n",
            b"7 a-bc\n",
            b"99999999999999999999999 a=b\n",
            b"8 path=\n",
            b"10 size=-1\n",
        ];
        for bytes in bad {
            assert_eq!(parse(bytes), None, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(parse(&record("path", "a\0b")), None);
        assert_eq!(parse(&record("mtime", "1.x")), None);
    }
}
