//! Valid object names. Users can refer to objects by any text; one that is no valid name must not
//! become part of a request's path, where it could address something else.

const MAX_LENGTH: usize = 253;

/// Whether a text is a DNS subdomain: lowercase letters, digits, `-` and `.`, with a letter or
/// digit at both ends of each label.
pub(crate) fn is_valid(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let labels = || name.split('.');
    name.len() <= MAX_LENGTH
        && labels().all(|label| {
            let (first, last) = (label.bytes().next(), label.bytes().last());
            first.is_some_and(is_plain)
                && last.is_some_and(is_plain)
                && label.bytes().all(|byte| is_plain(byte) || byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_name_is_valid_if_it_is_a_dns_subdomain() {
        let longest = "a".repeat(MAX_LENGTH);
        for name in ["a", "demo-1", "0", "a.b-c.d", longest.as_str()] {
            assert!(is_valid(name), "{name}");
        }
        let too_long = "a".repeat(MAX_LENGTH + 1);
        for text in [
            "",
            " ",
            ".",
            "..",
            "../../other/secrets/theirs",
            "demo/status",
            "/nonexistent",
            "demo?watch=true",
            "demo%2fstatus",
            "line\nbreak",
            "Demo",
            "-demo",
            "demo-",
            "a..b",
            "größe",
            too_long.as_str(),
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }
}
