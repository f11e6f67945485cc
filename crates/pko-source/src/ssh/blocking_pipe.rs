//! A bounded pipe between a blocking thread and an async task.
//!
//! Each pipe has one reader and one writer, one of which blocks and one of which awaits.

use std::{collections::VecDeque, io};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::SshError;
use crate::Deadline;

const CAPACITY: usize = 128 * 1024;

#[derive(Default)]
pub(super) struct BlockingPipe {
    state: Mutex<PipeState>,
    for_thread: Condvar,
    for_task: Notify,
}

#[derive(Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// The writer is done. Buffered bytes can still be read.
    ended: bool,
    /// The reader is gone. Writes are discarded.
    abandoned: bool,
    failure: Option<SshError>,
}

impl BlockingPipe {
    /// Blocks until there is data, the writer is done, or the deadline passes.
    pub(super) fn read(&self, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        let mut state = self.state.lock();
        loop {
            let length = state.bytes.len().min(into.len());
            if length > 0 || into.is_empty() {
                for (place, byte) in into.iter_mut().zip(state.bytes.drain(..length)) {
                    *place = byte;
                }
                self.for_task.notify_one();
                return Ok(length);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone().into());
            }
            if state.ended {
                return Ok(0);
            }
            self.wait(&mut state, deadline)?;
        }
    }

    /// Blocks until there is room, the reader is gone, or the deadline passes.
    pub(super) fn write(&self, from: &[u8], deadline: Deadline) -> io::Result<usize> {
        let mut state = self.state.lock();
        loop {
            if state.abandoned {
                let failure = state.failure.clone().map(io::Error::from);
                return Err(failure.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()));
            }
            let room = CAPACITY.saturating_sub(state.bytes.len()).min(from.len());
            if room > 0 || from.is_empty() {
                state.bytes.extend(from.iter().take(room));
                self.for_task.notify_one();
                return Ok(room);
            }
            self.wait(&mut state, deadline)?;
        }
    }

    /// Returns `None` when the writer is done.
    pub(super) async fn take(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut state = self.state.lock();
                if !state.bytes.is_empty() {
                    self.for_thread.notify_all();
                    return Some(state.bytes.drain(..).collect());
                }
                if state.ended {
                    return None;
                }
            }
            self.for_task.notified().await;
        }
    }

    /// Waits until all bytes are buffered. Discards them if the reader is gone.
    pub(super) async fn put(&self, mut from: &[u8]) {
        loop {
            {
                let mut state = self.state.lock();
                if state.abandoned {
                    return;
                }
                let room = CAPACITY.saturating_sub(state.bytes.len()).min(from.len());
                let (now, later) = from.split_at(room);
                state.bytes.extend(now);
                from = later;
                self.for_thread.notify_all();
            }
            if from.is_empty() {
                return;
            }
            self.for_task.notified().await;
        }
    }

    pub(super) fn end(&self, failure: Option<SshError>) {
        self.change(|state| {
            state.ended = true;
            state.failure = state.failure.take().or(failure);
        });
    }

    pub(super) fn abandon(&self, failure: Option<SshError>) {
        self.change(|state| {
            state.abandoned = true;
            state.failure = state.failure.take().or(failure);
        });
    }

    fn change(&self, change: impl FnOnce(&mut PipeState)) {
        change(&mut self.state.lock());
        self.for_thread.notify_all();
        self.for_task.notify_one();
    }

    fn wait(&self, state: &mut MutexGuard<'_, PipeState>, deadline: Deadline) -> io::Result<()> {
        let left = deadline.remaining();
        let left = left.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))?;
        self.for_thread.wait_for(state, left);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn pipe_transfers_more_than_its_capacity() {
        let sent: Vec<u8> = (0..=250).cycle().take(10 * CAPACITY).collect();
        let pipe = Arc::new(BlockingPipe::default());
        let (other, data) = (Arc::clone(&pipe), sent.clone());
        let writer = thread::spawn(move || {
            block_on(async {
                for part in data.chunks(30_000) {
                    other.put(part).await;
                }
            });
            other.end(None);
        });
        let mut received: Vec<u8> = Vec::new();
        let mut buffer = [0; 7000];
        loop {
            let length = pipe.read(&mut buffer, soon()).unwrap();
            if length == 0 {
                break;
            }
            received.extend(&buffer[..length]);
        }
        writer.join().unwrap();
        assert!(received == sent);
    }

    #[test]
    fn pipe_write_blocks_until_there_is_room() {
        let pipe = Arc::new(BlockingPipe::default());
        let other = Arc::clone(&pipe);
        let writer = thread::spawn(move || {
            let all = vec![7; 5 * CAPACITY];
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                let length = other.write(rest, soon()).unwrap();
                rest = &rest[length..];
            }
            other.end(None);
        });
        let total = block_on(async {
            let mut total = 0;
            while let Some(bytes) = pipe.take().await {
                assert!(bytes.len() <= CAPACITY);
                total += bytes.len();
            }
            total
        });
        writer.join().unwrap();
        assert_eq!(total, 5 * CAPACITY);
    }

    #[test]
    fn pipe_read_and_write_end_at_deadline() {
        let pipe = BlockingPipe::default();
        let now = Deadline::after(Duration::ZERO);
        let error = pipe.read(&mut [0], now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        pipe.write(&vec![0; CAPACITY], now).unwrap();
        let error = pipe.write(&[0], now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn pipe_data_before_failure_is_read_first() {
        let pipe = BlockingPipe::default();
        block_on(pipe.put(b"ab"));
        pipe.end(Some(SshError::Path));
        pipe.end(None);
        let mut buffer = [0; 10];
        assert_eq!(pipe.read(&mut buffer, soon()).unwrap(), 2);
        for _ in 0..2 {
            let error = pipe.read(&mut buffer, soon()).unwrap_err();
            assert_eq!(SshError::of(&error), Some(&SshError::Path));
        }
    }

    #[test]
    fn pipe_without_reader_rejects_writes() {
        let pipe = BlockingPipe::default();
        pipe.abandon(None);
        let error = pipe.write(b"a", soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        block_on(pipe.put(&vec![0; 10 * CAPACITY]));
    }
}
