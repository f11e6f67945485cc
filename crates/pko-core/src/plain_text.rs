//! Removes colors and other escape sequences from the output of other programs.

/// The text without escape sequences and control characters, except line breaks and tabs. An
/// unterminated sequence removes at most the rest of its line.
#[must_use]
pub fn plain(text: &str) -> String {
    let lines = text.split('\n');
    let lines = lines.map(|line| anstream::adapter::strip_str(line).to_string());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed() {
        for (text, expected) in [
            (
                "\u{1b}[31mError\u{1b}[0m: no such plugin",
                "Error: no such plugin",
            ),
            (
                "type: \u{1b}[1;4mnosuch:index:Thing\u{1b}[0m\n",
                "type: nosuch:index:Thing\n",
            ),
            ("\u{1b}[38;2;1;2;3mé\u{1b}[m ü", "é ü"),
            ("\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("bell\u{7} and back\u{8}space", "bell and backspace"),
            ("cut off \u{1b}[3", "cut off "),
            (
                "never ends \u{1b}]0;title\nthe next line",
                "never ends \nthe next line",
            ),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn plain_text_is_unchanged() {
        for text in [
            "",
            "one line",
            "two\nlines\n",
            "a\tb\r\n",
            "[0m is text",
            "日本",
        ] {
            assert_eq!(plain(text), text);
        }
    }
}
