//! A reader that ends when there was too much, or when it took too long.

use std::io::{self, Read};

use super::error::LimitExceeded;
use crate::Deadline;

/// Reads no more than a limit, and no longer than until a deadline.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    reader: R,
    left: u64,
    limit: LimitExceeded,
    deadline: Deadline,
}

/// An error of reading which says that there was too much.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(transparent)]
pub(super) struct TooMuch(pub(super) LimitExceeded);

impl<R> Bounded<R> {
    pub(super) fn new(reader: R, most: u64, limit: LimitExceeded, deadline: Deadline) -> Self {
        Self {
            reader,
            left: most,
            limit,
            deadline,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.deadline.remaining().map_err(io::Error::other)?;
        let count = self.reader.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(TooMuch(self.limit)))?;
        Ok(count)
    }
}

/// What an error of reading says about a limit.
pub(super) fn limit_of(error: &io::Error) -> Option<LimitExceeded> {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TooMuch>())
        .map(|too_much| too_much.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_than_the_limit() {
        let limit = LimitExceeded::ReferenceBytes(10);
        let read = |text: &str, deadline| {
            let mut read = Vec::new();
            Bounded::new(text.as_bytes(), 10, limit, deadline)
                .read_to_end(&mut read)
                .map(|_| read)
        };
        let later = Deadline::after(Duration::from_mins(1));
        assert_eq!(read("0123456789", later).unwrap(), b"0123456789");
        assert_eq!(
            limit_of(&read("0123456789x", later).unwrap_err()),
            Some(limit)
        );
        let late = read("0", Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(late.get_ref().unwrap().is::<crate::DeadlineExceeded>());
    }
}
