//! Runs the steps of a reply, and handles interrupts meanwhile.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::Arc,
    thread::{self, sleep},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use pko_testkit::stand_in::{Interrupt, Reply, ReplyStep};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};

use crate::{
    GRANDCHILD,
    call_recorder::CallRecorder,
    cli_error::{CliError, CliResult, print, print_error},
    command_line::CommandLine,
    default_cli,
    event_sink::EventSink,
};

/// The real CLI's output on an interrupt.
const NOTICED: &[u8] = b"^C received; cancelling. If you would like to terminate immediately, press ^C \
again.\nNote that terminating immediately may lead to orphaned resources and other inconsistencies.\n";

/// How often a file is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The context of one call.
#[derive(Debug)]
pub(crate) struct CallContext {
    pub(crate) folder: PathBuf,
    pub(crate) version: String,
    pub(crate) line: CommandLine,
    pub(crate) recorder: CallRecorder,
    /// Nothing once it is closed.
    sink: Mutex<Option<EventSink>>,
}

impl CallContext {
    pub(crate) fn new(
        folder: PathBuf,
        version: String,
        line: CommandLine,
        recorder: CallRecorder,
    ) -> Self {
        Self {
            folder,
            version,
            line,
            recorder,
            sink: Mutex::new(Some(EventSink::Nowhere)),
        }
    }

    /// Opens the event stream of the command line. Idempotent.
    pub(crate) fn open_events(&self) -> CliResult<()> {
        let mut sink = self.sink();
        if matches!(*sink, Some(EventSink::Nowhere)) {
            *sink = Some(EventSink::open(self.line.event_log())?);
        }
        Ok(())
    }

    /// One event; nothing once an interrupt has ended the stream.
    pub(crate) fn emit(&self, event: &Value) -> CliResult<()> {
        match &mut *self.sink() {
            Some(sink) => sink.emit(event.to_string()),
            None => Ok(()),
        }
    }

    fn close_events(&self) {
        let sink = self.sink().take();
        if let Some(sink) = sink {
            sink.close();
        }
    }

    fn sink(&self) -> MutexGuard<'_, Option<EventSink>> {
        self.sink.lock()
    }
}

pub(crate) struct ScriptRunner {
    context: Arc<CallContext>,
    answer: Reply,
}

impl ScriptRunner {
    pub(crate) fn new(context: CallContext, answer: Reply) -> CliResult<Self> {
        let context = Arc::new(context);
        handle_signals(Arc::clone(&context), answer.interrupt)?;
        Ok(Self { context, answer })
    }

    pub(crate) fn play(self) -> CliResult<i32> {
        let scripted = !matches!(self.answer.steps.first(), Some(ReplyStep::RunDefault));
        // The default CLI opens the stream itself, when Pulumi would.
        if scripted && self.context.line.is_operation() && !self.answer.without_events {
            self.context.open_events()?;
        }
        let mut code = 0;
        for step in &self.answer.steps {
            if let Some(end) = self.step(step)? {
                code = end;
                break;
            }
        }
        self.context.close_events();
        Ok(code)
    }

    /// The exit code, if the step is the last one.
    fn step(&self, step: &ReplyStep) -> CliResult<Option<i32>> {
        let folder = &self.context.folder;
        match step {
            ReplyStep::Print(bytes) => print(bytes),
            ReplyStep::PrintError(bytes) => print_error(bytes),
            ReplyStep::PrintVariable(name) => {
                let value = env::var(name).unwrap_or_default();
                print(format!("{value}\n").as_bytes());
            }
            ReplyStep::Event(event) => self.context.emit(event)?,
            ReplyStep::Flood { count, size } => self.flood(*count, *size)?,
            ReplyStep::Pause(milliseconds) => sleep(Duration::from_millis(*milliseconds)),
            ReplyStep::WaitFor(file) => wait_for(&folder.join(file)),
            ReplyStep::Create(file) => std::fs::write(folder.join(file), "")?,
            ReplyStep::Grandchild(file) => leave_grandchild(&folder.join(file))?,
            ReplyStep::RunDefault => return self.run_default_cli(),
            ReplyStep::Exit(code) => return Ok(Some(*code)),
            ReplyStep::Die(signal) => {
                low_level::emulate_default_handler(*signal)?;
            }
        }
        Ok(None)
    }

    fn flood(&self, count: u64, size: usize) -> CliResult<()> {
        let message = "x".repeat(size);
        for sequence in 0..count {
            let event = json!({"sequence": sequence, "stdoutEvent": {"message": message}});
            self.context.emit(&event)?;
        }
        Ok(())
    }

    fn run_default_cli(&self) -> CliResult<Option<i32>> {
        match default_cli::answer(&self.context) {
            Ok(()) => Ok(None),
            Err(problem) => match problem.downcast::<CliError>() {
                Ok(error) => Ok(Some(error.print())),
                Err(problem) => Err(problem),
            },
        }
    }
}

/// Until the file is there, or its folder is gone: then the test is over.
pub(crate) fn wait_for(file: &Path) {
    let goes_on = || file.parent().is_some_and(Path::exists);
    while !file.exists() && goes_on() {
        sleep(LOOK_EVERY);
    }
}

/// A process that inherits the pipes and outlives this one.
fn leave_grandchild(until: &Path) -> io::Result<()> {
    Command::new(env::current_exe()?)
        .arg(GRANDCHILD)
        .arg(until)
        .stdin(Stdio::null())
        .spawn()?;
    Ok(())
}

/// Records signals, and then follows the script or the default handler.
fn handle_signals(context: Arc<CallContext>, interrupt: Interrupt) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // A signal takes effect even if it can't be recorded.
            let _ = context.recorder.signal(signal);
            match interrupt {
                Interrupt::Ignore if signal == SIGINT => {}
                Interrupt::Obey { after, code }
                    if signal == SIGINT && context.line.is_operation() =>
                {
                    sleep(Duration::from_millis(after));
                    cancel_operation(&context, code);
                }
                _ => drop(low_level::emulate_default_handler(signal)),
            }
        }
    });
    Ok(())
}

/// Ends as a canceled operation of the real CLI does.
fn cancel_operation(context: &CallContext, code: i32) {
    print(NOTICED);
    let _ = context.emit(&json!({"cancelEvent": {}}));
    context.close_events();
    print_error(b"error: update canceled\n");
    let _ = context.recorder.end(code);
    process::exit(code);
}
