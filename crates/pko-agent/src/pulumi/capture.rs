//! Captures output of any length in bounded memory: its beginning and its end.

use std::collections::VecDeque;

/// Kept of the beginning of a stream, and as much of its end.
const MAX_BYTES: usize = 128 * 1024;

/// For output that is parsed: a stack's outputs, a list of stacks.
const MAX_EXACT_BYTES: usize = 128 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Capture {
    max_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: usize,
}

impl Capture {
    pub(super) fn new(exact: bool) -> Self {
        Self {
            max_bytes: if exact { MAX_EXACT_BYTES } else { MAX_BYTES },
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self
            .max_bytes
            .saturating_sub(self.head.len())
            .min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.max_bytes);
        self.tail.drain(..excess);
        self.omitted += excess;
    }

    /// Invalid UTF-8 is replaced.
    pub(super) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted > 0 {
            text.push_str(&omission(self.omitted));
        }
        let tail: Vec<u8> = self.tail.into();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }
}

/// Shortens a text of more than `limit` bytes to its beginning and its end.
pub(crate) fn truncate_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    let (first, last) = (
        text.get(..head).unwrap_or(""),
        text.get(tail..).unwrap_or(""),
    );
    format!("{first}{}{last}", omission(tail - head))
}

fn omission(bytes: usize) -> String {
    format!("\n[... {bytes} bytes left out ...]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_keeps_short_output() {
        let mut capture = Capture::new(false);
        capture.push(b"one ");
        capture.push(b"\xfftwo");
        assert_eq!(capture.into_text(), "one \u{fffd}two");
    }

    #[test]
    fn capture_keeps_both_ends_of_long_output() {
        let mut capture = Capture::new(false);
        capture.push(b"begin");
        for _ in 0..100 {
            capture.push(&[b'.'; 10_000]);
        }
        capture.push(b"end");
        let text = capture.into_text();
        assert!(text.starts_with("begin.") && text.ends_with("end"));
        assert!(text.contains("bytes left out") && text.len() < 3 * MAX_BYTES);
    }

    #[test]
    fn exact_capture_keeps_everything() {
        let mut capture = Capture::new(true);
        for _ in 0..100 {
            capture.push(&[b'.'; 10_000]);
        }
        assert_eq!(capture.into_text().len(), 1_000_000);
    }

    #[test]
    fn truncation_respects_characters() {
        assert_eq!(truncate_middle("short", 10), "short");
        let text = "é".repeat(100);
        let short = truncate_middle(&text, 21);
        assert_eq!(short.matches('é').count(), 10);
        assert!(short.contains("[... 180 bytes left out ...]"));
    }
}
