//! A command on a server, as a reader and a writer that block.
//!
//! ```text
//!   caller's thread            thread of the session (one small runtime)
//!   Reader ◀── pipe ◀── pump ◀── channel ◀─┐
//!   Writer ──▶ pipe ──▶ pump ──▶ channel ──▶ connection
//! ```
//!
//! The thread and the connection end with the last of the two halves, at the deadline, or when the server ends.

use std::{
    io::{self, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use russh::{ChannelMsg, ChannelReadHalf};
use tokio::{runtime, sync::oneshot, time};

use super::{
    KnownHosts, SshError, Stage, Target,
    handler::Heard,
    handshake::{Handshake, Running},
    pipe::Pipe,
    private_key,
};
use crate::{Deadline, git::SshKey};

/// How long a server may take to say how a command ended, after its output ended.
const FAREWELL: Duration = Duration::from_secs(5);
/// How much longer than its deadline a thread may take to say that time is up.
const SLACK: Duration = Duration::from_secs(2);

/// A command that runs.
pub struct Session {
    reader: Reader,
    writer: Writer,
}

/// What the command writes. At the end, a command that failed is an error, with what it wrote to its standard error.
pub struct Reader {
    pipe: Arc<Pipe>,
    shared: Arc<Shared>,
}

/// What the command reads. It sees an end when this is dropped.
pub struct Writer {
    pipe: Arc<Pipe>,
    shared: Arc<Shared>,
}

/// What both halves hold; the session ends with it.
struct Shared {
    address: String,
    deadline: Deadline,
    heard: Heard,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Runs a command on a server. All of it, the session too, is over at the deadline.
pub fn connect(
    target: &Target,
    key: &SshKey,
    known_hosts: &KnownHosts,
    deadline: Deadline,
) -> Result<Session, SshError> {
    let stage = Arc::new(Mutex::new(Stage::Connect));
    let heard = Heard::default();
    let handshake = Handshake {
        target: target.clone(),
        key: private_key::read(key)?,
        known_hosts: Arc::new(known_hosts.clone()),
        deadline,
        stage,
        heard: heard.clone(),
    };
    let (input, output) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
    let (stop, stopped) = oneshot::channel();
    let (started, start) = mpsc::sync_channel(1);
    let worker = Worker {
        handshake,
        input: Arc::clone(&input),
        output: Arc::clone(&output),
        started,
    };
    let thread = thread::Builder::new().name(format!("ssh {}", target.port));
    let thread = thread.spawn(move || worker.run(stopped));
    let shared = Arc::new(Shared {
        address: target.address(),
        deadline,
        heard,
        stop: Some(stop),
        thread: Some(thread.map_err(|error| SshError::Thread(error.to_string()))?),
    });
    let patience = deadline.remaining().unwrap_or_default() + SLACK;
    let outcome = start.recv_timeout(patience);
    outcome.unwrap_or_else(|_| Err(shared.took_too_long(Stage::Connect)))?;
    Ok(Session {
        reader: Reader {
            pipe: output,
            shared: Arc::clone(&shared),
        },
        writer: Writer {
            pipe: input,
            shared,
        },
    })
}

impl Session {
    /// The two halves, for two threads.
    #[must_use]
    pub fn split(self) -> (Reader, Writer) {
        (self.reader, self.writer)
    }

    /// What the server and the command wrote for people to read, so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.reader.said()
    }
}

impl Reader {
    /// What the server and the command wrote for people to read, so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.shared.heard.text()
    }
}

impl Read for Session {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl Write for Session {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.writer.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.pipe.read(into, self.shared.deadline);
        read.map_err(|error| self.shared.named(error))
    }
}

impl Write for Writer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let written = self.pipe.write(from, self.shared.deadline);
        written.map_err(|error| self.shared.named(error))
    }

    /// What is in the pipe is on its way already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.pipe.abandon(None);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.pipe.end(None);
    }
}

impl Shared {
    /// The pipe knows of no server.
    fn named(&self, error: io::Error) -> io::Error {
        let plain = SshError::of(&error).is_none();
        if plain && error.kind() == io::ErrorKind::TimedOut {
            return self.took_too_long(Stage::Transfer).into();
        }
        error
    }

    fn took_too_long(&self, stage: Stage) -> SshError {
        SshError::Deadline {
            address: self.address.clone(),
            stage,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It is told to stop and waits for nothing else; a panic of it was seen as an end already.
            let _ = thread.join();
        }
    }
}

/// What the thread of a session does.
struct Worker {
    handshake: Handshake,
    input: Arc<Pipe>,
    output: Arc<Pipe>,
    started: SyncSender<Result<(), SshError>>,
}

impl Worker {
    fn run(self, stopped: oneshot::Receiver<()>) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => {
                runtime.block_on(self.serve(stopped));
                // A name that is still being looked up is not waited for.
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
            () = time::sleep_until(deadline) => Some(Err(self.took_too_long())),
        };
        let failure = outcome.and_then(Result::err);
        // Nobody waits for this if the command was started; then the pipes tell it.
        if let Some(failure) = failure.clone() {
            let _ = self.started.try_send(Err(failure));
        }
        self.input.abandon(failure.clone());
        self.output.end(failure);
    }

    fn took_too_long(&self) -> SshError {
        let stage = self.handshake.stage.lock();
        SshError::Deadline {
            address: self.handshake.target.address(),
            stage: *stage.unwrap_or_else(PoisonError::into_inner),
        }
    }

    async fn command(&self) -> Result<(), SshError> {
        let Running {
            handle,
            mut output,
            input,
        } = self.handshake.run().await?;
        let _ = self.started.try_send(Ok(()));
        let feed = async {
            while let Some(bytes) = self.input.take().await {
                // The other direction sees why.
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

    /// Passes on what the command writes, until it has ended.
    async fn drain(&self, output: &mut ChannelReadHalf) -> Result<(), SshError> {
        let mut status = None;
        let mut ended = false;
        loop {
            let message = if ended {
                time::timeout(FAREWELL, output.wait()).await.ok().flatten()
            } else {
                output.wait().await
            };
            match message {
                Some(ChannelMsg::Data { data }) => self.output.put(&data).await,
                Some(ChannelMsg::ExtendedData { data, .. }) => self.handshake.heard.add(&data),
                Some(ChannelMsg::ExitStatus { exit_status }) => status = Some(exit_status),
                Some(ChannelMsg::ExitSignal { .. }) => return Err(self.failed(None)),
                Some(ChannelMsg::Eof) => ended = true,
                None if !ended && status.is_none() => return Err(self.handshake.closed()),
                Some(ChannelMsg::Close) | None => break,
                Some(_) => {}
            }
        }
        match status {
            None | Some(0) => Ok(()),
            status => Err(self.failed(status)),
        }
    }

    fn failed(&self, status: Option<u32>) -> SshError {
        SshError::CommandFailed {
            address: self.handshake.target.address(),
            program: self.handshake.target.program(),
            status,
            said: self.handshake.heard.text(),
        }
    }
}
