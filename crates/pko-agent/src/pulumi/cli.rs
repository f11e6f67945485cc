//! Runs the CLI as a process: captures its output, and interrupts or kills it on request.

use std::{
    borrow::Cow,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
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

/// How long output is read after the exit, if a child of the CLI keeps the pipes open.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Canceled,
    TimeLimit,
    /// The caller that owned the run disconnected.
    CallerGone,
    /// The agent shuts down.
    Shutdown,
}

/// Requests a stop. The first reason wins.
#[derive(Debug, Clone)]
pub(crate) struct StopSource(Arc<watch::Sender<Option<StopReason>>>);

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
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.0.borrow()
    }

    /// Waits for a stop; forever once all sources are dropped.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Invocation {
    pub(crate) arguments: Vec<String>,
    /// Standard input, which also carries secrets.
    pub(crate) input: Option<Redacted>,
    /// Turns on the flags that only exist for the Automation API, such as `--event-log`.
    pub(crate) debug_commands: bool,
    /// Copies the output to the agent's log.
    pub(crate) logged: bool,
    /// Keeps the whole output, and does not mask it on success: it is parsed, not shown.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    /// The process could not be started or waited for.
    Unknown(String),
}

#[derive(Debug)]
pub(crate) struct CliOutput {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CliOutput {
    pub(crate) fn succeeded(&self) -> bool {
        self.exit == Exit::Code(0)
    }

    fn not_started(reason: &str) -> Self {
        Self {
            exit: Exit::Unknown(reason.to_owned()),
            stdout: String::new(),
            stderr: String::new(),
        }
    }
}

/// The CLI of one workspace.
pub(crate) struct Cli {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    /// Added to the agent's own environment.
    pub(crate) environment: Vec<(String, Redacted)>,
    pub(crate) mask: Arc<Mask>,
    /// The time between the interrupt and the kill.
    pub(crate) patience: Duration,
}

impl Cli {
    /// Runs the CLI to its end. A stop interrupts it, and kills it after `patience`.
    pub(crate) async fn run(&self, invocation: Invocation, stop: StopSignal) -> CliOutput {
        self.run_with_pid(invocation, stop, |_| {}).await
    }

    /// As [`Self::run`], and reports the process id once it is started.
    pub(crate) async fn run_with_pid(
        &self,
        invocation: Invocation,
        stop: StopSignal,
        report_pid: impl FnOnce(u32),
    ) -> CliOutput {
        tracing::debug!(command = ?invocation.arguments.first(), "Running pulumi");
        if let Some(reason) = stop.reason() {
            return CliOutput::not_started(&format!("stopped before it started: {reason:?}"));
        }
        match self.start(&invocation) {
            Ok(child) => {
                child.id().map(report_pid);
                self.wait_for_output(child, invocation, stop).await
            }
            Err(error) => CliOutput::not_started(&error.to_string()),
        }
    }

    /// An environment variable as the CLI sees it.
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
            // Its own process group, so that a kill includes the CLI's children.
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

    async fn wait_for_output(
        &self,
        mut child: Child,
        invocation: Invocation,
        stop: StopSignal,
    ) -> CliOutput {
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
        let stdout = PipeReader::start(child.stdout.take(), invocation.exact, log(Stream::Out));
        let stderr = PipeReader::start(child.stderr.take(), false, log(Stream::Error));
        let exit = self.wait(&mut child, stop).await;
        let exit = exit.map_or_else(|error| Exit::Unknown(error.to_string()), Exit::from);
        if let Some(writer) = writer {
            writer.abort();
        }
        let (stdout, stderr) = tokio::join!(stdout.text(), stderr.text());
        let exact = invocation.exact && exit == Exit::Code(0);
        // Strip colors before masking: an escape sequence inside a secret would hide it.
        CliOutput {
            exit,
            stdout: if exact {
                stdout
            } else {
                self.mask_secrets(plain(&stdout))
            },
            stderr: self.mask_secrets(plain(&stderr)),
        }
    }

    async fn wait(&self, child: &mut Child, mut stop: StopSignal) -> io::Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => return status,
            () = stop.wait() => {}
        }
        tracing::info!(reason = ?stop.reason(), "Interrupting pulumi");
        // Only the CLI itself: it interrupts its children, and a second interrupt would kill it.
        signal(child, |process| kill_process(process, Signal::INT));
        tokio::select! {
            status = child.wait() => return status,
            () = sleep(self.patience) => {}
        }
        tracing::warn!("Killing pulumi, which did not exit after the interrupt");
        signal(child, |process| kill_process_group(process, Signal::KILL));
        child.wait().await
    }

    fn mask_secrets(&self, text: String) -> String {
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
        tracing::warn!(%error, "Failed to send a signal to pulumi");
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

struct PipeReader {
    task: JoinHandle<()>,
    capture: Arc<Mutex<Capture>>,
}

impl PipeReader {
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
                shared.lock().push(line);
                if let Some((stream, mask)) = &log {
                    log_line(*stream, mask, line);
                }
            })
            .await;
        });
        Self { task, capture }
    }

    /// The output up to the end, or up to now if a child of the CLI keeps the pipe open.
    async fn text(mut self) -> String {
        if timeout(PIPE_DRAIN_TIMEOUT, &mut self.task).await.is_err() {
            tracing::warn!("A process that pulumi left behind keeps its output open");
            self.task.abort();
        }
        let mut capture = self.capture.lock();
        std::mem::replace(&mut *capture, Capture::new(false)).into_text()
    }
}

/// Reads to the end by lines, and very long lines in pieces.
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

    async fn run(invocation: Invocation) -> CliOutput {
        shell(Duration::from_mins(1))
            .run(invocation, StopSource::new().signal())
            .await
    }

    #[tokio::test]
    async fn cli_run_returns_output_and_exit_code() {
        let finished = run(script("echo $GREETING; echo bad >&2; printf part; exit 3")).await;
        assert_eq!(finished.exit, Exit::Code(3));
        assert_eq!(
            (&*finished.stdout, &*finished.stderr),
            ("hello\npart", "bad\n")
        );
    }

    #[tokio::test]
    async fn cli_run_passes_standard_input() {
        let mut invocation = script("cat");
        invocation.input = Some(Redacted::new("by hand".to_owned()));
        assert_eq!(run(invocation).await.stdout, "by hand");
    }

    #[tokio::test]
    async fn cli_output_masks_secrets() {
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
    async fn cli_output_has_no_escape_sequences() {
        let cli = shell(Duration::ZERO);
        cli.mask.add("canary-value");
        let colored = r"printf '\033[31mError\033[0m: \033[1;4mcanary-\033[0mvalue\n'";
        let text = format!("{colored}; {colored} >&2");
        let finished = cli.run(script(&text), StopSource::new().signal()).await;
        let expected = "Error: [secret]\n";
        assert_eq!((&*finished.stdout, &*finished.stderr), (expected, expected));
    }

    #[tokio::test]
    async fn missing_program_is_an_exit() {
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
            .run_with_pid(script(script_text), stop.signal(), move |_| {
                announced.stop(StopReason::Canceled);
            })
            .await
            .exit
    }

    #[tokio::test]
    async fn stop_interrupts_before_it_kills() {
        // As the agent does. A process that was started with interrupts ignored, and does not
        // listen to them, would pass that on to its children, and a shell can't undo it.
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
    async fn stopped_signal_prevents_start() {
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
