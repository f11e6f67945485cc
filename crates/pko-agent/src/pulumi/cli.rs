//! Runs the CLI: one process, its output, and how it is stopped.

use std::{
    borrow::Cow,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pko_auth::{Mask, Redacted};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{capture::Capture, plain_text::plain};

/// How long the pipes are read after the end, if something that the CLI left behind holds them.
const PIPES_AFTER_END: Duration = Duration::from_secs(2);

/// Why a process is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody asked for it.
    Canceled,
    /// It took too long.
    TimeLimit,
    /// The caller that it was for has gone.
    CallerGone,
    /// The agent itself ends.
    Shutdown,
}

/// Says when to stop; the first reason stays.
#[derive(Debug, Clone)]
pub(crate) struct StopSource(Arc<watch::Sender<Option<StopReason>>>);

/// Hears when to stop.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(watch::Receiver<Option<StopReason>>);

impl StopSource {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        self.0.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }

    pub(crate) fn signal(&self) -> StopSignal {
        StopSignal(self.0.subscribe())
    }
}

impl StopSignal {
    /// Why it is to stop, if it is.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.0.borrow()
    }

    /// Until it is to stop; for ever if nobody can say so any more.
    pub(crate) async fn stopped(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// One call of the CLI.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    pub(crate) arguments: Vec<String>,
    /// Standard input; how a secret is handed over.
    pub(crate) input: Option<Redacted>,
    /// Turns on the flags that only exist for the Automation API, such as `--event-log`.
    pub(crate) debug_commands: bool,
    /// Its output is what people look for in the log.
    pub(crate) logged: bool,
    /// The values that it prints are what is wanted: all of them, and nothing masked if it goes well.
    pub(crate) exact: bool,
}

impl Invocation {
    pub(crate) fn new(arguments: Vec<String>) -> Self {
        Self {
            arguments,
            ..Self::default()
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    /// It could not be started or waited for.
    Unknown(String),
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn succeeded(&self) -> bool {
        self.exit == Exit::Code(0)
    }

    fn not_run(reason: &str) -> Self {
        Self {
            exit: Exit::Unknown(reason.to_owned()),
            stdout: String::new(),
            stderr: String::new(),
        }
    }
}

/// The CLI in one workspace.
pub(crate) struct Cli {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    /// On top of the agent's own.
    pub(crate) environment: Vec<(String, Redacted)>,
    pub(crate) mask: Arc<Mask>,
    /// Between the interrupt and the kill.
    pub(crate) patience: Duration,
}

impl Cli {
    /// Runs the CLI to its end. If it is to stop, it is interrupted, and killed when patience ends.
    pub(crate) async fn run(&self, invocation: Invocation, stop: StopSignal) -> Finished {
        self.run_announced(invocation, stop, |_| {}).await
    }

    /// As [`Self::run`]; says the process's number once there is one.
    pub(crate) async fn run_announced(
        &self,
        invocation: Invocation,
        stop: StopSignal,
        announce: impl FnOnce(u32),
    ) -> Finished {
        tracing::debug!(command = ?invocation.arguments.first(), "Running pulumi");
        if let Some(reason) = stop.reason() {
            return Finished::not_run(&format!("stopped before it began: {reason:?}"));
        }
        match self.start(&invocation) {
            Ok(child) => {
                child.id().map(announce);
                self.attend(child, invocation, stop).await
            }
            Err(error) => Finished::not_run(&error.to_string()),
        }
    }

    /// A variable as the CLI sees it.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let own = self.environment.iter().rev().find(|(own, _)| own == name);
        match own {
            Some((_, value)) => Some(value.expose().to_owned()),
            None => std::env::var(name).ok(),
        }
    }

    fn start(&self, invocation: &Invocation) -> io::Result<Child> {
        let input = if invocation.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        self.command(invocation)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that a kill takes along what the CLI has started.
            .process_group(0)
            .spawn()
    }

    fn command(&self, invocation: &Invocation) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&invocation.arguments)
            .current_dir(&self.folder);
        command.env("PWD", &self.folder);
        if invocation.debug_commands {
            command.env("PULUMI_DEBUG_COMMANDS", "true");
        }
        for (name, value) in &self.environment {
            command.env(name, value.expose());
        }
        command.env("PULUMI_AUTOMATION_API", "true");
        command.env("PULUMI_SKIP_UPDATE_CHECK", "true");
        command
    }

    async fn attend(&self, mut child: Child, invocation: Invocation, stop: StopSignal) -> Finished {
        let writer = child
            .stdin
            .take()
            .zip(invocation.input)
            .map(|(mut pipe, input)| {
                tokio::spawn(async move { pipe.write_all(input.expose().as_bytes()).await })
            });
        let log = |stream| {
            let mask = Arc::clone(&self.mask);
            invocation.logged.then_some((stream, mask))
        };
        let stdout = Reader::start(child.stdout.take(), invocation.exact, log(Stream::Out));
        let stderr = Reader::start(child.stderr.take(), false, log(Stream::Error));
        let exit = self.wait(&mut child, stop).await;
        let exit = exit.map_or_else(|error| Exit::Unknown(error.to_string()), Exit::from);
        if let Some(writer) = writer {
            writer.abort();
        }
        let (stdout, stderr) = tokio::join!(stdout.text(), stderr.text());
        let exact = invocation.exact && exit == Exit::Code(0);
        // Colors in the middle of a secret would hide it from the mask.
        Finished {
            exit,
            stdout: if exact {
                stdout
            } else {
                self.masked(plain(&stdout))
            },
            stderr: self.masked(plain(&stderr)),
        }
    }

    async fn wait(&self, child: &mut Child, mut stop: StopSignal) -> io::Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => return status,
            () = stop.stopped() => {}
        }
        tracing::info!(reason = ?stop.reason(), "Interrupting pulumi");
        // Only the CLI itself: it tells what it has started, and a second interrupt would be a kill.
        signal(child, |process| kill_process(process, Signal::INT));
        tokio::select! {
            status = child.wait() => return status,
            () = sleep(self.patience) => {}
        }
        tracing::warn!("Killing pulumi, which did not end after it was interrupted");
        signal(child, |process| kill_process_group(process, Signal::KILL));
        child.wait().await
    }

    fn masked(&self, text: String) -> String {
        match self.mask.apply(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => masked,
        }
    }
}

fn signal(child: &Child, send: impl FnOnce(Pid) -> rustix::io::Result<()>) {
    let process = child.id().and_then(|id| i32::try_from(id).ok());
    let outcome = process.and_then(Pid::from_raw).map(send);
    if let Some(Err(error)) = outcome {
        tracing::warn!(%error, "A signal could not be sent to pulumi");
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown(status.to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Out,
    Error,
}

/// Reads one of the CLI's pipes.
struct Reader {
    task: JoinHandle<()>,
    capture: Arc<Mutex<Capture>>,
}

impl Reader {
    fn start(
        pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
        whole: bool,
        log: Option<(Stream, Arc<Mask>)>,
    ) -> Self {
        let capture = Arc::new(Mutex::new(Capture::new(whole)));
        let shared = Arc::clone(&capture);
        let task = tokio::spawn(async move {
            let Some(pipe) = pipe else { return };
            read(pipe, |line| {
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                if let Some((stream, mask)) = &log {
                    log_line(*stream, mask, line);
                }
            })
            .await;
        });
        Self { task, capture }
    }

    /// What was read by the end, or by then if something else holds the pipe open.
    async fn text(mut self) -> String {
        if timeout(PIPES_AFTER_END, &mut self.task).await.is_err() {
            tracing::warn!("Something that pulumi left behind holds its output open");
            self.task.abort();
        }
        let mut capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *capture, Capture::new(false)).into_text()
    }
}

/// Reads to the end, line by line; a very long line in pieces.
async fn read(pipe: impl AsyncRead + Unpin, take: impl Fn(&[u8])) {
    const PIECE: usize = 64 * 1024;
    let mut reader = BufReader::with_capacity(PIECE, pipe);
    let mut line = Vec::new();
    while let Ok(bytes) = reader.fill_buf().await {
        if bytes.is_empty() {
            break;
        }
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(bytes.len(), |at| at + 1);
        line.extend_from_slice(bytes.get(..used).unwrap_or_default());
        reader.consume(used);
        if newline.is_some() || line.len() >= PIECE {
            take(&line);
            line.clear();
        }
    }
    take(&line);
}

fn log_line(stream: Stream, mask: &Mask, line: &[u8]) {
    let line = plain(&String::from_utf8_lossy(line));
    let line = line.trim_end();
    if line.is_empty() {
        return;
    }
    match stream {
        Stream::Out => tracing::info!(target: "pulumi", "{}", mask.apply(line)),
        Stream::Error => tracing::warn!(target: "pulumi", "{}", mask.apply(line)),
    }
}

/// Reads the environment of this process into a mask.
pub(crate) fn mask_own_environment(mask: &Mask) {
    let variables: Vec<_> = std::env::vars_os().collect();
    mask.add_environment(
        variables
            .iter()
            .map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy())),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(patience: Duration) -> Cli {
        Cli {
            program: "/bin/sh".into(),
            folder: std::env::temp_dir(),
            environment: vec![("GREETING".to_owned(), Redacted::new("hello".to_owned()))],
            mask: Arc::default(),
            patience,
        }
    }

    fn script(text: &str) -> Invocation {
        Invocation::new(vec!["-c".to_owned(), text.to_owned()])
    }

    async fn run(invocation: Invocation) -> Finished {
        shell(Duration::from_mins(1))
            .run(invocation, StopSource::new().signal())
            .await
    }

    #[tokio::test]
    async fn output_exit_code_and_environment() {
        let finished = run(script("echo $GREETING; echo bad >&2; printf part; exit 3")).await;
        assert_eq!(finished.exit, Exit::Code(3));
        assert_eq!(
            (&*finished.stdout, &*finished.stderr),
            ("hello\npart", "bad\n")
        );
    }

    #[tokio::test]
    async fn standard_input_is_handed_over() {
        let mut invocation = script("cat");
        invocation.input = Some(Redacted::new("by hand".to_owned()));
        assert_eq!(run(invocation).await.stdout, "by hand");
    }

    #[tokio::test]
    async fn secrets_are_masked_in_what_is_kept() {
        let cli = shell(Duration::ZERO);
        cli.mask.add("canary-value");
        let finished = cli
            .run(script("echo canary-value"), StopSource::new().signal())
            .await;
        assert_eq!(finished.stdout, "[secret]\n");
        let exact = Invocation {
            exact: true,
            ..script("echo canary-value")
        };
        let finished = cli.run(exact, StopSource::new().signal()).await;
        assert_eq!(finished.stdout, "canary-value\n");
    }

    #[tokio::test]
    async fn output_is_kept_without_escape_sequences() {
        let cli = shell(Duration::ZERO);
        cli.mask.add("canary-value");
        let colored = r"printf '\033[31mError\033[0m: \033[1;4mcanary-\033[0mvalue\n'";
        let text = format!("{colored}; {colored} >&2");
        let finished = cli.run(script(&text), StopSource::new().signal()).await;
        let expected = "Error: [secret]\n";
        assert_eq!((&*finished.stdout, &*finished.stderr), (expected, expected));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_exit_too() {
        let cli = Cli {
            program: "/does/not/exist".into(),
            ..shell(Duration::ZERO)
        };
        let finished = cli
            .run(Invocation::default(), StopSource::new().signal())
            .await;
        assert!(matches!(finished.exit, Exit::Unknown(_)));
    }

    async fn stopped(script_text: &str, patience: Duration) -> Exit {
        let stop = StopSource::new();
        let announced = stop.clone();
        shell(patience)
            .run_announced(script(script_text), stop.signal(), move |_| {
                announced.stop(StopReason::Canceled);
            })
            .await
            .exit
    }

    #[tokio::test]
    async fn an_interrupt_comes_first_and_a_kill_last() {
        // As the agent does. A process that was started with interrupts ignored, and does not listen to them, would pass
        // that on to its children, and a shell can't undo it.
        let listening = tokio::signal::unix::SignalKind::interrupt();
        let _listening = tokio::signal::unix::signal(listening).unwrap();
        let obedient = "trap 'exit 8' INT; while :; do sleep 0.05; done";
        // The interrupt may come before the shell has set its trap.
        let exit = stopped(obedient, Duration::from_mins(10)).await;
        assert!(matches!(exit, Exit::Code(8) | Exit::Signal(2)));
        let stubborn = "trap '' INT; while :; do sleep 0.05; done";
        let exit = stopped(stubborn, Duration::ZERO).await;
        assert!(matches!(exit, Exit::Signal(9 | 2)));
    }

    #[tokio::test]
    async fn nothing_begins_after_a_stop() {
        let stop = StopSource::new();
        stop.stop(StopReason::Canceled);
        stop.stop(StopReason::Shutdown);
        assert_eq!(stop.signal().reason(), Some(StopReason::Canceled));
        let finished = shell(Duration::ZERO)
            .run(script("exit 0"), stop.signal())
            .await;
        assert!(matches!(finished.exit, Exit::Unknown(_)));
    }
}
