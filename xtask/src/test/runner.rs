//! Runs suites side by side. Does I/O: processes, signals, temporary folders, logs.
//!
//! Each suite gets a `TMPDIR` of its own. Whatever it starts has a path below that folder in its
//! arguments, so what is left when it has ended is found, named and ended, and counts as a failure.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use pko_testkit::{end_processes_of, processes_of};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tempfile::TempDir;

use super::{
    output::Output,
    report::{Report, StatusLine, suite_line},
    suites::Suite,
};
use crate::{progress::seconds, target_folder};

/// How many suites run at a time: unit tests compute, the others wait most of the time.
const LANES: usize = 3;
/// After this long a suite is taken for hung.
pub(super) const LONGEST: Duration = Duration::from_mins(25);
/// How long what a suite has started may take to notice that it has ended.
const GRACE: Duration = Duration::from_secs(10);
/// How long a cluster may take to be taken down.
const CLUSTER_GRACE: Duration = Duration::from_mins(2);
/// What the command lines of a cluster of e2e have in them, and of the guards of all clusters of tests.
const CLUSTER_PROCESSES: [&str; 2] = ["cluster/e2e", "pko-cluster-guard"];
/// How often the status line is renewed.
const TICK: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(50);
/// How many lines of a failed suite's log are shown.
const SHOWN_LINES: usize = 200;
/// How much of the arguments of a process is shown.
const SHOWN_CHARACTERS: usize = 200;

/// What all suites have in common.
pub(super) struct Runner {
    variables: Vec<(&'static str, PathBuf)>,
    longest: Option<Duration>,
    logs: PathBuf,
    folder: TempDir,
    groups: Groups,
}

/// The process groups of the suites that run.
#[derive(Clone, Default)]
struct Groups {
    running: Arc<Mutex<Vec<Pid>>>,
    is_interrupted: Arc<AtomicBool>,
}

/// A suite at work.
struct Running {
    suite: Suite,
    start: Instant,
    output: Arc<Mutex<Output>>,
    log: PathBuf,
}

/// How a suite has ended.
struct Ended {
    index: usize,
    status: ExitStatus,
    is_hung: bool,
    /// Its processes that were still there.
    left: Vec<String>,
}

impl Runner {
    /// Takes over Ctrl-C from here on: suites are in groups of their own, and end before this does.
    pub(super) fn new(
        variables: Vec<(&'static str, PathBuf)>,
        longest: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let logs = target_folder()?.join("test-logs");
        fs::create_dir_all(&logs)
            .with_context(|| format!("failed to create {}", logs.display()))?;
        // Short: the name of a socket below it has about a hundred characters at most
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("pko-t").rand_bytes(4).tempdir();
        let groups = Groups::default();
        groups.watch_signals()?;
        Ok(Self {
            variables,
            longest,
            logs,
            folder: folder.context("failed to create a temporary folder")?,
            groups,
        })
    }

    /// Runs suites, a few at a time, and adds what they come to.
    pub(super) fn run(&self, suites: Vec<Suite>, report: &mut Report) -> anyhow::Result<()> {
        let mut waiting: VecDeque<Suite> = suites.into();
        let mut running: Vec<Option<Running>> = Vec::new();
        let (sender, ended) = mpsc::channel();
        let line = StatusLine::new();
        loop {
            let active = running.iter().flatten().count();
            if active < LANES
                && !self.groups.is_interrupted()
                && let Some(suite) = waiting.pop_front()
            {
                let begun = self.start(suite, running.len(), sender.clone())?;
                running.push(Some(begun));
                continue;
            }
            if active == 0 {
                break;
            }
            line.show(&shown(&running), waiting.len());
            if let Ok(ended) = ended.recv_timeout(TICK)
                && let Some(suite) = running.get_mut(ended.index).and_then(Option::take)
            {
                line.clear();
                suite.finish(&ended, report);
            }
        }
        if self.groups.is_interrupted() {
            wait_for_clusters();
            bail!("interrupted: the suites were ended, and nothing of them is left running");
        }
        Ok(())
    }

    fn start(
        &self,
        suite: Suite,
        index: usize,
        sender: mpsc::Sender<Ended>,
    ) -> anyhow::Result<Running> {
        let folder = self.folder.path().join(index.to_string());
        fs::create_dir_all(&folder)?;
        let log = self.logs.join(suite.log_name());
        let file = File::create(&log)?;
        let mut command = suite.command();
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file.try_clone()?)
            .process_group(0);
        let child = self.groups.spawn(&mut command);
        let child = child.with_context(|| format!("failed to run {}", suite.program.display()))?;
        let output = Arc::new(Mutex::new(Output::default()));
        let attendant = Attendant {
            index,
            folder,
            longest: self.longest,
            groups: self.groups.clone(),
        };
        let read = Arc::clone(&output);
        thread::spawn(move || {
            let _ = sender.send(attendant.attend(child, &read, file));
        });
        Ok(Running {
            suite,
            start: Instant::now(),
            output,
            log,
        })
    }
}

/// What a suite's thread needs to know of it.
struct Attendant {
    index: usize,
    folder: PathBuf,
    longest: Option<Duration>,
    groups: Groups,
}

impl Attendant {
    /// Reads what a suite prints, waits for its end, and ends what it has left.
    fn attend(&self, mut child: Child, output: &Arc<Mutex<Output>>, mut log: File) -> Ended {
        let (sender, is_read) = mpsc::channel();
        let stdout = child.stdout.take();
        let output = Arc::clone(output);
        thread::spawn(move || {
            for line in stdout
                .into_iter()
                .flat_map(|it| BufReader::new(it).split(b'\n'))
            {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line);
                let _ = writeln!(log, "{line}");
                lock(&output).read(&line);
            }
            let _ = sender.send(());
        });
        let (status, is_hung) = self.wait(&mut child);
        self.groups.forget(&child);
        // A process that the suite has left may hold the other end of its standard output
        let _ = is_read.recv_timeout(GRACE);
        let left = self.left();
        end_processes_of(&self.folder, GRACE);
        let _ = fs::remove_dir_all(&self.folder);
        Ended {
            index: self.index,
            status,
            is_hung,
            left,
        }
    }

    fn wait(&self, child: &mut Child) -> (ExitStatus, bool) {
        let start = Instant::now();
        let mut is_hung = false;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return (status, is_hung);
            }
            if !is_hung
                && self
                    .longest
                    .is_some_and(|longest| start.elapsed() > longest)
            {
                is_hung = true;
                kill(child);
            }
            thread::sleep(PAUSE);
        }
    }

    /// What runs in the suite's folder after a moment in which it may end by itself.
    fn left(&self) -> Vec<String> {
        let end = Instant::now() + GRACE;
        loop {
            let processes = processes_of(&self.folder);
            if processes.is_empty() || Instant::now() > end {
                return processes.into_iter().map(describe).collect();
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Groups {
    fn watch_signals(&self) -> anyhow::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let groups = self.clone();
        thread::spawn(move || {
            for _ in signals.forever() {
                groups.interrupt();
            }
        });
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::SeqCst)
    }

    /// Ends all suites; what they have started ends with them, or is ended by their threads.
    fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        for group in lock(&self.running).iter() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // Held while it starts: one that starts during an interruption is ended, too
        let mut running = lock(&self.running);
        let child = command.spawn()?;
        running.push(Pid::from_child(&child));
        if self.is_interrupted() {
            kill(&child);
        }
        Ok(child)
    }

    fn forget(&self, child: &Child) {
        let group = Pid::from_child(child);
        lock(&self.running).retain(|running| *running != group);
    }
}

impl Running {
    /// Prints what the suite came to, and all that helps if a test failed.
    fn finish(self, ended: &Ended, report: &mut Report) {
        let Self {
            suite,
            start,
            output,
            log,
        } = self;
        let output = lock(&output);
        println!("{}", suite_line(&suite.name, &output, start));
        for figure in &output.figures {
            println!("  {figure}");
        }
        report.add(&suite.name, &output);
        let mut problems = Vec::new();
        if ended.is_hung {
            problems.push(format!("did not end in {}", seconds(start.elapsed())));
        } else if !ended.status.success() && output.failed_count() == 0 {
            problems.push(format!("ended with {} before its tests did", ended.status));
        }
        if !ended.left.is_empty() {
            problems.push(format!("left running: {}", ended.left.join(", ")));
        }
        for problem in &problems {
            report.fail(format!("{} {problem}", suite.name));
        }
        if output.failed_count() > 0 || !problems.is_empty() {
            println!("{}{}", output.failures, last_lines(&log));
            for problem in problems {
                println!("{} {problem}", suite.name);
            }
            println!("all that it printed is in {}", log.display());
        }
    }
}

/// Waits until the clusters of suites that were killed are down: their guards see to that.
fn wait_for_clusters() {
    let end = Instant::now() + CLUSTER_GRACE;
    let is_up = || {
        CLUSTER_PROCESSES
            .iter()
            .any(|text| !processes_of(Path::new(text)).is_empty())
    };
    while is_up() && Instant::now() < end {
        thread::sleep(PAUSE);
    }
}

/// Which suites run, and how many of how many tests they have done.
fn shown(running: &[Option<Running>]) -> Vec<(String, usize, usize)> {
    let running = running.iter().flatten();
    running
        .map(|it| {
            let output = lock(&it.output);
            (it.suite.name.clone(), output.done, output.tests)
        })
        .collect()
}

fn kill(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// A process as a person recognizes it.
fn describe(process: u32) -> String {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    let arguments: String = arguments.trim().chars().take(SHOWN_CHARACTERS).collect();
    format!("{process} ({arguments})")
}

fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(SHOWN_LINES);
    let shown = lines.iter().skip(first).map(|line| format!("{line}\n"));
    shown.collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
