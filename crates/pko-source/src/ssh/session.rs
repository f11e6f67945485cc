//! A command on a server, as a blocking reader and writer.
//!
//! ```text
//!   caller's thread            session thread (a current-thread runtime)
//!   SshReader ◀── pipe ◀── pump ◀── channel ◀─┐
//!   SshWriter ──▶ pipe ──▶ pump ──▶ channel ──▶ connection
//! ```
//!
//! The thread and the connection end when both halves are dropped, at the deadline, or when the
//! server ends the command.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use russh::{ChannelMsg, ChannelReadHalf};
use tokio::{runtime, sync::oneshot, time};

use super::{
    KnownHosts, SshError, SshStage, SshTarget,
    blocking_pipe::BlockingPipe,
    handler::SharedMessages,
    handshake::{Handshake, RunningCommand},
    private_key,
};
use crate::{Deadline, git::SshKey};

/// The time for the exit status after the end of the output.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// The time beyond the deadline in which the thread reports it.
const DEADLINE_SLACK: Duration = Duration::from_secs(2);

pub struct SshSession {
    reader: SshReader,
    writer: SshWriter,
}

/// The command's standard output. If the command fails, the last read is an error with its standard
/// error.
pub struct SshReader {
    pipe: Arc<BlockingPipe>,
    shared: Arc<SessionHandle>,
}

/// The command's standard input. Dropping it closes the input.
pub struct SshWriter {
    pipe: Arc<BlockingPipe>,
    shared: Arc<SessionHandle>,
}

/// Held by both halves. Dropping it ends the session.
struct SessionHandle {
    address: String,
    deadline: Deadline,
    messages: SharedMessages,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Runs a command on a server. The deadline covers the whole session.
pub fn connect(
    target: &SshTarget,
    key: &SshKey,
    known_hosts: &KnownHosts,
    deadline: Deadline,
) -> Result<SshSession, SshError> {
    let stage = Arc::new(Mutex::new(SshStage::Connect));
    let messages = SharedMessages::default();
    let handshake = Handshake {
        target: target.clone(),
        key: private_key::read(key)?,
        known_hosts: Arc::new(known_hosts.clone()),
        deadline,
        stage,
        messages: messages.clone(),
    };
    let (input, output) = (
        Arc::<BlockingPipe>::default(),
        Arc::<BlockingPipe>::default(),
    );
    let (stop, stopped) = oneshot::channel();
    let (started, start) = mpsc::sync_channel(1);
    let worker = SessionWorker {
        handshake,
        input: Arc::clone(&input),
        output: Arc::clone(&output),
        started,
    };
    let thread = thread::Builder::new().name(format!("ssh {}", target.port));
    let thread = thread.spawn(move || worker.run(stopped));
    let shared = Arc::new(SessionHandle {
        address: target.address(),
        deadline,
        messages,
        stop: Some(stop),
        thread: Some(thread.map_err(|error| SshError::Thread(error.to_string()))?),
    });
    let patience = deadline.remaining().unwrap_or_default() + DEADLINE_SLACK;
    let outcome = start.recv_timeout(patience);
    outcome.unwrap_or_else(|_| Err(shared.deadline_error(SshStage::Connect)))?;
    Ok(SshSession {
        reader: SshReader {
            pipe: output,
            shared: Arc::clone(&shared),
        },
        writer: SshWriter {
            pipe: input,
            shared,
        },
    })
}

impl SshSession {
    #[must_use]
    pub fn split(self) -> (SshReader, SshWriter) {
        (self.reader, self.writer)
    }

    /// What the server and the command wrote for people to read.
    #[must_use]
    pub fn messages(&self) -> String {
        self.reader.messages()
    }
}

impl SshReader {
    #[must_use]
    pub fn messages(&self) -> String {
        self.shared.messages.text()
    }
}

impl Read for SshSession {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl Write for SshSession {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.writer.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Read for SshReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.pipe.read(into, self.shared.deadline);
        read.map_err(|error| self.shared.add_address(error))
    }
}

impl Write for SshWriter {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let written = self.pipe.write(from, self.shared.deadline);
        written.map_err(|error| self.shared.add_address(error))
    }

    /// Written bytes are already on their way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SshReader {
    fn drop(&mut self) {
        self.pipe.abandon(None);
    }
}

impl Drop for SshWriter {
    fn drop(&mut self) {
        self.pipe.end(None);
    }
}

impl SessionHandle {
    /// Adds the address, which the pipe does not know.
    fn add_address(&self, error: io::Error) -> io::Error {
        let plain = SshError::of(&error).is_none();
        if plain && error.kind() == io::ErrorKind::TimedOut {
            return self.deadline_error(SshStage::Transfer).into();
        }
        error
    }

    fn deadline_error(&self, stage: SshStage) -> SshError {
        SshError::Deadline {
            address: self.address.clone(),
            stage,
        }
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread stops now. A panic in it already ended the session.
            let _ = thread.join();
        }
    }
}

struct SessionWorker {
    handshake: Handshake,
    input: Arc<BlockingPipe>,
    output: Arc<BlockingPipe>,
    started: SyncSender<Result<(), SshError>>,
}

impl SessionWorker {
    fn run(self, stopped: oneshot::Receiver<()>) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => {
                runtime.block_on(self.serve(stopped));
                // Does not wait for a pending DNS lookup.
                runtime.shutdown_background();
            }
            Err(error) => {
                let _ = self.started.send(Err(SshError::Thread(error.to_string())));
            }
        }
    }

    async fn serve(&self, mut stopped: oneshot::Receiver<()>) {
        let deadline = time::Instant::from_std(self.handshake.deadline.at());
        let outcome = tokio::select! {
            biased;
            _ = &mut stopped => None,
            outcome = self.command() => Some(outcome),
            () = time::sleep_until(deadline) => Some(Err(self.deadline_error())),
        };
        let failure = outcome.and_then(Result::err);
        // Received only if the command has not started. After that the pipes carry the failure.
        if let Some(failure) = failure.clone() {
            let _ = self.started.try_send(Err(failure));
        }
        self.input.abandon(failure.clone());
        self.output.end(failure);
    }

    fn deadline_error(&self) -> SshError {
        SshError::Deadline {
            address: self.handshake.target.address(),
            stage: *self.handshake.stage.lock(),
        }
    }

    async fn command(&self) -> Result<(), SshError> {
        let RunningCommand {
            handle,
            mut output,
            input,
        } = self.handshake.run().await?;
        let _ = self.started.try_send(Ok(()));
        let feed = async {
            while let Some(bytes) = self.input.take().await {
                // The output side reports the reason.
                if input.data_bytes(bytes).await.is_err() {
                    break;
                }
            }
            let _ = input.eof().await;
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = self.drain(&mut output) => outcome,
            () = feed => Ok(()),
        };
        drop(handle);
        outcome
    }

    /// Forwards the command's output until it ends.
    async fn drain(&self, output: &mut ChannelReadHalf) -> Result<(), SshError> {
        let mut status = None;
        let mut ended = false;
        loop {
            let message = if ended {
                time::timeout(EXIT_STATUS_TIMEOUT, output.wait())
                    .await
                    .ok()
                    .flatten()
            } else {
                output.wait().await
            };
            match message {
                Some(ChannelMsg::Data { data }) => self.output.put(&data).await,
                Some(ChannelMsg::ExtendedData { data, .. }) => self.handshake.messages.add(&data),
                Some(ChannelMsg::ExitStatus { exit_status }) => status = Some(exit_status),
                Some(ChannelMsg::ExitSignal { .. }) => return Err(self.command_failed(None)),
                Some(ChannelMsg::Eof) => ended = true,
                None if !ended && status.is_none() => return Err(self.handshake.closed()),
                Some(ChannelMsg::Close) | None => break,
                Some(_) => {}
            }
        }
        match status {
            None | Some(0) => Ok(()),
            status => Err(self.command_failed(status)),
        }
    }

    fn command_failed(&self, status: Option<u32>) -> SshError {
        SshError::CommandFailed {
            address: self.handshake.target.address(),
            program: self.handshake.target.program(),
            status,
            message: self.handshake.messages.text(),
        }
    }
}
