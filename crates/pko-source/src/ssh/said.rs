//! What a server wrote for people to read: kept to a bound, and without what a terminal or a log would obey.

/// Enough for the few lines in which servers say what is wrong.
const MOST_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct Said(Vec<u8>);

impl Said {
    /// The end is kept, as that is where a reason stands.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev().take(MOST_BYTES).rev());
        let surplus = self.0.len().saturating_sub(MOST_BYTES);
        self.0.drain(..surplus);
    }

    /// In one line, with only one blank between words.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let text: String = text
            .chars()
            .map(|character| {
                if character.is_control() {
                    ' '
                } else {
                    character
                }
            })
            .collect();
        let words: Vec<_> = text.split_whitespace().collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_line_of_plain_text() {
        let mut said = Said::default();
        said.add(b"ERROR:\tRepository\r\n not ");
        said.add(b"found.\x1b[31m\n\xff\n");
        assert_eq!(said.text(), "ERROR: Repository not found. [31m \u{fffd}");
    }

    #[test]
    fn a_server_that_does_not_stop_talking_costs_nothing() {
        let mut said = Said::default();
        for _ in 0..1000 {
            said.add(&[b'a'; 10_000]);
        }
        said.add(b" the end");
        assert_eq!(said.0.len(), MOST_BYTES);
        assert!(said.text().ends_with("a the end"));
    }
}
