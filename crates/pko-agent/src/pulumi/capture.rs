//! Text of any length in bounded memory: the beginning and the end of it.

use std::collections::VecDeque;

/// How much of a stream is kept from its beginning, and as much from its end.
const KEPT: usize = 128 * 1024;

/// Of an answer that must be whole: a stack's outputs, a list of stacks.
const KEPT_WHOLE: usize = 128 * 1024 * 1024;

/// What a process wrote.
#[derive(Debug)]
pub(super) struct Capture {
    kept: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Capture {
    pub(super) fn new(whole: bool) -> Self {
        Self {
            kept: if whole { KEPT_WHOLE } else { KEPT },
            head: Vec::new(),
            tail: VecDeque::new(),
            left_out: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.kept.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.kept);
        self.tail.drain(..excess);
        self.left_out += excess;
    }

    /// As text; what is not UTF-8 is replaced.
    pub(super) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.left_out > 0 {
            text.push_str(&note(self.left_out));
        }
        let tail: Vec<u8> = self.tail.into();
        text.push_str(&String::from_utf8_lossy(&tail));
        text
    }
}

/// The beginning and the end of a text that is longer than `limit` bytes.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    let (first, last) = (
        text.get(..head).unwrap_or(""),
        text.get(tail..).unwrap_or(""),
    );
    format!("{first}{}{last}", note(tail - head))
}

fn note(bytes: usize) -> String {
    format!("\n[... {bytes} bytes left out ...]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_whole() {
        let mut capture = Capture::new(false);
        capture.push(b"one ");
        capture.push(b"\xfftwo");
        assert_eq!(capture.into_text(), "one \u{fffd}two");
    }

    #[test]
    fn of_long_text_the_ends_are_kept() {
        let mut capture = Capture::new(false);
        capture.push(b"begin");
        for _ in 0..100 {
            capture.push(&[b'.'; 10_000]);
        }
        capture.push(b"end");
        let text = capture.into_text();
        assert!(text.starts_with("begin.") && text.ends_with("end"));
        assert!(text.contains("bytes left out") && text.len() < 3 * KEPT);
    }

    #[test]
    fn an_answer_is_kept_whole() {
        let mut capture = Capture::new(true);
        for _ in 0..100 {
            capture.push(&[b'.'; 10_000]);
        }
        assert_eq!(capture.into_text().len(), 1_000_000);
    }

    #[test]
    fn shortening_respects_characters() {
        assert_eq!(shortened("short", 10), "short");
        let text = "é".repeat(100);
        let short = shortened(&text, 21);
        assert_eq!(short.matches('é').count(), 10);
        assert!(short.contains("[... 180 bytes left out ...]"));
    }
}
