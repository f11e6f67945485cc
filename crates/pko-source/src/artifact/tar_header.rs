//! Fields of a tar header, parsed strictly.
//!
//! Tar readers disagree about malformed fields, so a malformed field is an error and never a guess.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tar::Header;

/// The upper bytes of a time before 1970.
const NEGATIVE: &[u8; 4] = &[0xff; 4];
const BINARY: u8 = 0x80;

pub(super) fn size(header: &Header) -> Option<u64> {
    number(&header.as_old().size)
}

/// The permission bits, without setuid, setgid and sticky.
pub(super) fn mode(header: &Header) -> Option<u32> {
    let mode = number(&header.as_old().mode)?;
    u32::try_from(mode & 0o777).ok()
}

/// May be before 1970.
pub(super) fn modified(header: &Header) -> Option<SystemTime> {
    let field = &header.as_old().mtime;
    match field.split_first_chunk() {
        Some((NEGATIVE, low)) => {
            let seconds = i64::from_be_bytes(low.try_into().ok()?);
            let seconds = Duration::from_secs(seconds.unsigned_abs());
            UNIX_EPOCH.checked_sub(seconds)
        }
        _ => UNIX_EPOCH.checked_add(Duration::from_secs(number(field)?)),
    }
}

/// The name in the header. A ustar header stores long names in two parts.
pub(super) fn name(header: &Header) -> Vec<u8> {
    let name = until_zero(&header.as_old().name);
    let bytes = header.as_bytes();
    let prefix = bytes.get(345..500).map(until_zero).unwrap_or_default();
    if bytes.get(257..263) != Some(b"ustar\0") || prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits, or base-256 for numbers that do not fit.
fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((&BINARY, rest)) => rest.iter().try_fold(0_u64, |sum, byte| {
            sum.checked_mul(256)?.checked_add(u64::from(*byte))
        }),
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = str::from_utf8(until_zero(field)).ok()?.trim_matches(' ');
    let digits = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    digits.then(|| u64::from_str_radix(text, 8).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_header_numbers_are_parsed_strictly() {
        let table: [(&[u8], Option<u64>); 12] = [
            (b"00000000017\0", Some(15)),
            (b"         17 ", Some(15)),
            (b"777777777777", Some(0o777_777_777_777)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\x02", Some(258)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x81\0\0\0\0\0\0\0\0\0\0\x01", None),
            (b"+17\0\0\0\0\0\0\0\0\0", None),
            (b"\x0017\0\0\0\0\0\0\0\0\0", None),
            (b"18\0\0\0\0\0\0\0\0\0\0", None),
            (b"1 7\0\0\0\0\0\0\0\0\0", None),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", None),
        ];
        for (field, expected) in table {
            assert_eq!(number(field), expected, "{field:?}");
        }
    }

    #[test]
    fn tar_header_times_may_precede_1970() {
        let of = |field: &[u8; 12]| {
            let mut header = Header::new_ustar();
            header.as_old_mut().mtime = *field;
            modified(&header)
        };
        let second = Duration::from_secs(1);
        let before = of(&[0xff; 12]);
        assert_eq!(before, UNIX_EPOCH.checked_sub(second));
        assert_eq!(of(b"00000000001\0"), UNIX_EPOCH.checked_add(second));
        assert_eq!(of(b"\xff\x01\0\0\0\0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn tar_header_name_joins_prefix() {
        let mut header = Header::new_ustar();
        header
            .set_path("x".repeat(90) + "/" + &"y".repeat(60))
            .unwrap();
        assert_eq!(name(&header).len(), 151);
        let mut old = Header::new_gnu();
        old.set_path("a").unwrap();
        old.as_mut_bytes()[345] = b'p';
        assert_eq!(name(&old), b"a", "something else is in its place");
    }
}
