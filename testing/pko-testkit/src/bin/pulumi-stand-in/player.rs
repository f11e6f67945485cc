//! Gives an answer, step by step, and hears interrupts meanwhile.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, sleep},
    time::Duration,
};

use pko_testkit::stand_in::{Answer, Interrupt, Step};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};

use crate::{
    GRANDCHILD,
    line::Line,
    outcome::{Outcome, Refusal, complain, print},
    recorder::Recorder,
    sink::Sink,
    usual,
};

/// What the real CLI says to an interrupt.
const NOTICED: &[u8] = b"^C received; cancelling. If you would like to terminate immediately, press ^C \
again.\nNote that terminating immediately may lead to orphaned resources and other inconsistencies.\n";

/// How often a file is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What all that is done at a call needs.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) folder: PathBuf,
    pub(crate) version: String,
    pub(crate) line: Line,
    pub(crate) recorder: Recorder,
    /// Nothing once it is closed.
    sink: Mutex<Option<Sink>>,
}

impl Scene {
    pub(crate) fn new(folder: PathBuf, version: String, line: Line, recorder: Recorder) -> Self {
        Self {
            folder,
            version,
            line,
            recorder,
            sink: Mutex::new(Some(Sink::Nowhere)),
        }
    }

    /// Opens the event stream that the command line asks for, unless it is open: there is one for a call.
    pub(crate) fn open_events(&self) -> Outcome<()> {
        let mut sink = self.sink();
        if matches!(*sink, Some(Sink::Nowhere)) {
            *sink = Some(Sink::open(self.line.event_log())?);
        }
        Ok(())
    }

    /// One event; nothing once an interrupt has ended the stream.
    pub(crate) fn emit(&self, event: &Value) -> Outcome<()> {
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

    fn sink(&self) -> MutexGuard<'_, Option<Sink>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives one answer.
pub(crate) struct Player {
    scene: Arc<Scene>,
    answer: Answer,
}

impl Player {
    pub(crate) fn new(scene: Scene, answer: Answer) -> Outcome<Self> {
        let scene = Arc::new(scene);
        hear_signals(Arc::clone(&scene), answer.interrupt)?;
        Ok(Self { scene, answer })
    }

    /// The exit code.
    pub(crate) fn play(self) -> Outcome<i32> {
        let scripted = !matches!(self.answer.steps.first(), Some(Step::AsUsual));
        // What is done as usual opens the stream when Pulumi would.
        if scripted && self.scene.line.is_operation() && !self.answer.without_events {
            self.scene.open_events()?;
        }
        let mut code = 0;
        for step in &self.answer.steps {
            if let Some(end) = self.step(step)? {
                code = end;
                break;
            }
        }
        self.scene.close_events();
        Ok(code)
    }

    /// The exit code, if the step is the last one.
    fn step(&self, step: &Step) -> Outcome<Option<i32>> {
        let folder = &self.scene.folder;
        match step {
            Step::Print(bytes) => print(bytes),
            Step::Complain(bytes) => complain(bytes),
            Step::PrintVariable(name) => {
                let value = env::var(name).unwrap_or_default();
                print(format!("{value}\n").as_bytes());
            }
            Step::Event(event) => self.scene.emit(event)?,
            Step::Flood { count, size } => self.flood(*count, *size)?,
            Step::Pause(milliseconds) => sleep(Duration::from_millis(*milliseconds)),
            Step::WaitFor(file) => wait_for(&folder.join(file)),
            Step::Create(file) => std::fs::write(folder.join(file), "")?,
            Step::Grandchild(file) => leave_grandchild(&folder.join(file))?,
            Step::AsUsual => return self.as_usual(),
            Step::Exit(code) => return Ok(Some(*code)),
            Step::Die(signal) => {
                low_level::emulate_default_handler(*signal)?;
            }
        }
        Ok(None)
    }

    fn flood(&self, count: u64, size: usize) -> Outcome<()> {
        let message = "x".repeat(size);
        for sequence in 0..count {
            let event = json!({"sequence": sequence, "stdoutEvent": {"message": message}});
            self.scene.emit(&event)?;
        }
        Ok(())
    }

    fn as_usual(&self) -> Outcome<Option<i32>> {
        match usual::answer(&self.scene) {
            Ok(()) => Ok(None),
            Err(problem) => match problem.downcast::<Refusal>() {
                Ok(refusal) => Ok(Some(refusal.tell())),
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

/// Signals are recorded, and then do what the script says or what they do to every process.
fn hear_signals(scene: Arc<Scene>, interrupt: Interrupt) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // Whoever sent it wants it to have an effect even if it can't be recorded.
            let _ = scene.recorder.signal(signal);
            match interrupt {
                Interrupt::Ignore if signal == SIGINT => {}
                Interrupt::Obey { after, code }
                    if signal == SIGINT && scene.line.is_operation() =>
                {
                    sleep(Duration::from_millis(after));
                    obey(&scene, code);
                }
                _ => drop(low_level::emulate_default_handler(signal)),
            }
        }
    });
    Ok(())
}

/// Ends as a canceled operation of the real CLI does.
fn obey(scene: &Scene, code: i32) {
    print(NOTICED);
    let _ = scene.emit(&json!({"cancelEvent": {}}));
    scene.close_events();
    complain(b"error: update canceled\n");
    let _ = scene.recorder.end(code);
    process::exit(code);
}
