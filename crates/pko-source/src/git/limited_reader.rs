use std::io::{self, Read};

use super::error::LimitExceeded;
use crate::Deadline;

/// A reader with a byte limit and a deadline.
#[derive(Debug)]
pub(super) struct LimitedReader<R> {
    reader: R,
    left: u64,
    limit: LimitExceeded,
    deadline: Deadline,
}

/// The payload of the `io::Error` for an exceeded limit.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(transparent)]
pub(super) struct LimitReached(pub(super) LimitExceeded);

impl<R> LimitedReader<R> {
    pub(super) fn new(reader: R, most: u64, limit: LimitExceeded, deadline: Deadline) -> Self {
        Self {
            reader,
            left: most,
            limit,
            deadline,
        }
    }
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.deadline.remaining().map_err(io::Error::other)?;
        let count = self.reader.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(LimitReached(self.limit)))?;
        Ok(count)
    }
}

/// The limit that caused a read error, if any.
pub(super) fn exceeded_limit(error: &io::Error) -> Option<LimitExceeded> {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<LimitReached>())
        .map(|too_much| too_much.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn limited_reader_stops_at_limit_and_deadline() {
        let limit = LimitExceeded::ReferenceBytes(10);
        let read = |text: &str, deadline| {
            let mut read = Vec::new();
            LimitedReader::new(text.as_bytes(), 10, limit, deadline)
                .read_to_end(&mut read)
                .map(|_| read)
        };
        let later = Deadline::after(Duration::from_mins(1));
        assert_eq!(read("0123456789", later).unwrap(), b"0123456789");
        assert_eq!(
            exceeded_limit(&read("0123456789x", later).unwrap_err()),
            Some(limit)
        );
        let late = read("0", Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(late.get_ref().unwrap().is::<crate::DeadlineExceeded>());
    }
}
