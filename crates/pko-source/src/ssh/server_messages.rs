//! Text from a server for error messages, limited in length and without control characters.

const MAX_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct ServerMessages(Vec<u8>);

impl ServerMessages {
    /// Keeps the end, which is where servers put the reason.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev().take(MAX_BYTES).rev());
        let surplus = self.0.len().saturating_sub(MAX_BYTES);
        self.0.drain(..surplus);
    }

    /// As one line.
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
    fn server_messages_are_one_plain_line() {
        let mut messages = ServerMessages::default();
        messages.add(b"ERROR:\tRepository\r\n not ");
        messages.add(b"found.\x1b[31m\n\xff\n");
        assert_eq!(
            messages.text(),
            "ERROR: Repository not found. [31m \u{fffd}"
        );
    }

    #[test]
    fn server_messages_are_bounded() {
        let mut messages = ServerMessages::default();
        for _ in 0..1000 {
            messages.add(&[b'a'; 10_000]);
        }
        messages.add(b" the end");
        assert_eq!(messages.0.len(), MAX_BYTES);
        assert!(messages.text().ends_with("a the end"));
    }
}
