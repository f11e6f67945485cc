//! What can be the name of an object; pure. Users refer to objects by any text, and a text that is no name must not become
//! part of a request's path: it would be another request.

/// No name is longer.
const LONGEST: usize = 253;

/// Whether an object can have this name: lowercase letters, digits, `-` and `.`, and a letter or digit at either end.
pub(crate) fn is_possible(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let labels = || name.split('.');
    name.len() <= LONGEST
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
    fn a_name_is_what_the_api_server_takes_for_one() {
        let longest = "a".repeat(LONGEST);
        for name in ["a", "demo-1", "0", "a.b-c.d", longest.as_str()] {
            assert!(is_possible(name), "{name}");
        }
        let too_long = "a".repeat(LONGEST + 1);
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
            assert!(!is_possible(text), "{text}");
        }
    }
}
