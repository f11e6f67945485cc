//! A bounded pipe between a thread that blocks and the task that talks to the server. Each pipe has one writer and
//! one reader, one of which blocks and one of which awaits.

use std::{
    collections::VecDeque,
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::SshError;
use crate::Deadline;

/// What is held between the two at most.
const CAPACITY: usize = 128 * 1024;

#[derive(Default)]
pub(super) struct Pipe {
    state: Mutex<State>,
    for_thread: Condvar,
    for_task: Notify,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Nothing more comes; what is still here may be read.
    ended: bool,
    /// Nobody reads any more; what is written is lost.
    abandoned: bool,
    failure: Option<SshError>,
}

impl Pipe {
    /// Blocks until there is something, the writer ended, or time is up.
    pub(super) fn read(&self, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        let mut state = self.lock();
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
            state = self.wait(state, deadline)?;
        }
    }

    /// Blocks until there is room for something of it, nobody reads any more, or time is up.
    pub(super) fn write(&self, from: &[u8], deadline: Deadline) -> io::Result<usize> {
        let mut state = self.lock();
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
            state = self.wait(state, deadline)?;
        }
    }

    /// Waits for something; nothing when the writer ended.
    pub(super) async fn take(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut state = self.lock();
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

    /// Waits until there was room for all of it. What nobody reads is dropped.
    pub(super) async fn put(&self, mut from: &[u8]) {
        loop {
            {
                let mut state = self.lock();
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

    /// The writer has no more.
    pub(super) fn end(&self, failure: Option<SshError>) {
        self.change(|state| {
            state.ended = true;
            state.failure = state.failure.take().or(failure);
        });
    }

    /// The reader wants no more.
    pub(super) fn abandon(&self, failure: Option<SshError>) {
        self.change(|state| {
            state.abandoned = true;
            state.failure = state.failure.take().or(failure);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.for_thread.notify_all();
        self.for_task.notify_one();
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> io::Result<MutexGuard<'a, State>> {
        let left = deadline.remaining();
        let left = left.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))?;
        let woken = self.for_thread.wait_timeout(state, left);
        Ok(woken.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn all_bytes_arrive_in_order_through_a_pipe_that_is_smaller() {
        let sent: Vec<u8> = (0..=250).cycle().take(10 * CAPACITY).collect();
        let pipe = Arc::new(Pipe::default());
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
    fn a_thread_that_writes_waits_for_room() {
        let pipe = Arc::new(Pipe::default());
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
    fn nothing_waits_longer_than_it_may() {
        let pipe = Pipe::default();
        let now = Deadline::after(Duration::ZERO);
        let error = pipe.read(&mut [0], now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        pipe.write(&vec![0; CAPACITY], now).unwrap();
        let error = pipe.write(&[0], now).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_arrived_before_a_failure_is_read_first() {
        let pipe = Pipe::default();
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
    fn a_pipe_that_nobody_reads_takes_no_more() {
        let pipe = Pipe::default();
        pipe.abandon(None);
        let error = pipe.write(b"a", soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        block_on(pipe.put(&vec![0; 10 * CAPACITY]));
    }
}
