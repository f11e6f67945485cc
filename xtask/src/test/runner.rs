//! Runs suites concurrently.
//!
//! Each suite has its own `TMPDIR`. All processes that it starts have a path below it in their
//! arguments, so leftover processes are found by that path, ended and reported as a failure.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
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
use pko_testkit::{checkout::target_folder, progress::seconds};

/// Concurrent suites. Unit tests compute, the others mostly wait.
const CONCURRENT_SUITES: usize = 3;
/// A suite that takes longer is killed.
pub(super) const SUITE_TIMEOUT: Duration = Duration::from_mins(25);
/// The time for processes of a suite to end after it.
const GRACE: Duration = Duration::from_secs(10);
/// The time to take down a cluster.
const CLUSTER_GRACE: Duration = Duration::from_mins(2);
/// Parts of the command lines of e2e clusters and of the guards of test clusters.
const CLUSTER_PROCESSES: [&str; 2] = ["cluster/e2e", "pko-cluster-guard"];
const TICK: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(50);
const SHOWN_LINES: usize = 200;
const SHOWN_CHARACTERS: usize = 200;

pub(super) struct Runner {
    variables: Vec<(&'static str, PathBuf)>,
    timeout: Option<Duration>,
    logs: PathBuf,
    folder: TempDir,
    groups: ProcessGroups,
}

/// The process groups of the suites that run.
#[derive(Clone, Default)]
struct ProcessGroups {
    running: Arc<Mutex<Vec<Pid>>>,
    is_interrupted: Arc<AtomicBool>,
}

struct RunningSuite {
    suite: Suite,
    start: Instant,
    output: Arc<Mutex<Output>>,
    log: PathBuf,
}

struct FinishedSuite {
    index: usize,
    status: ExitStatus,
    is_hung: bool,
    /// Leftover processes.
    left: Vec<String>,
}

impl Runner {
    /// Also handles SIGINT and SIGTERM: suites are in process groups of their own and end first.
    pub(super) fn new(
        variables: Vec<(&'static str, PathBuf)>,
        timeout: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let logs = target_folder()?.join("test-logs");
        fs::create_dir_all(&logs)
            .with_context(|| format!("failed to create {}", logs.display()))?;
        // Short, because the path of a Unix socket has at most about 100 characters.
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("pko-t").rand_bytes(4).tempdir();
        let groups = ProcessGroups::default();
        groups.watch_signals()?;
        Ok(Self {
            variables,
            timeout,
            logs,
            folder: folder.context("failed to create a temporary folder")?,
            groups,
        })
    }

    /// Runs suites and adds them to the report.
    pub(super) fn run(&self, suites: Vec<Suite>, report: &mut Report) -> anyhow::Result<()> {
        let mut waiting: VecDeque<Suite> = suites.into();
        let mut running: Vec<Option<RunningSuite>> = Vec::new();
        let (sender, ended) = mpsc::channel();
        let line = StatusLine::new();
        loop {
            let active = running.iter().flatten().count();
            if active < CONCURRENT_SUITES
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
            line.show(&suite_progress(&running), waiting.len());
            if let Ok(ended) = ended.recv_timeout(TICK)
                && let Some(suite) = running.get_mut(ended.index).and_then(Option::take)
            {
                line.clear();
                suite.finish(&ended, report);
            }
        }
        if self.groups.is_interrupted() {
            wait_for_clusters();
            bail!("interrupted: all suites and their processes were ended");
        }
        Ok(())
    }

    fn start(
        &self,
        suite: Suite,
        index: usize,
        sender: mpsc::Sender<FinishedSuite>,
    ) -> anyhow::Result<RunningSuite> {
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
        let monitor = SuiteMonitor {
            index,
            folder,
            timeout: self.timeout,
            groups: self.groups.clone(),
        };
        let read = Arc::clone(&output);
        thread::spawn(move || {
            let _ = sender.send(monitor.supervise(child, &read, file));
        });
        Ok(RunningSuite {
            suite,
            start: Instant::now(),
            output,
            log,
        })
    }
}

/// Supervises one suite on a thread of its own.
struct SuiteMonitor {
    index: usize,
    folder: PathBuf,
    timeout: Option<Duration>,
    groups: ProcessGroups,
}

impl SuiteMonitor {
    /// Reads the output, waits for the end, and ends leftover processes.
    fn supervise(
        &self,
        mut child: Child,
        output: &Arc<Mutex<Output>>,
        mut log: File,
    ) -> FinishedSuite {
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
                output.lock().read(&line);
            }
            let _ = sender.send(());
        });
        let (status, is_hung) = self.wait(&mut child);
        self.groups.forget(&child);
        // A leftover process may still hold standard output open.
        let _ = is_read.recv_timeout(GRACE);
        let left = self.leftover_processes();
        end_processes_of(&self.folder, GRACE);
        let _ = fs::remove_dir_all(&self.folder);
        FinishedSuite {
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
                    .timeout
                    .is_some_and(|timeout| start.elapsed() > timeout)
            {
                is_hung = true;
                kill(child);
            }
            thread::sleep(PAUSE);
        }
    }

    /// The processes that are still running after a grace period.
    fn leftover_processes(&self) -> Vec<String> {
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

impl ProcessGroups {
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

    /// Kills all suites. Their monitors end leftover processes.
    fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        for group in self.running.lock().iter() {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // The lock is held during the start, so that a concurrent interrupt also kills this suite.
        let mut running = self.running.lock();
        let child = command.spawn()?;
        running.push(Pid::from_child(&child));
        if self.is_interrupted() {
            kill(&child);
        }
        Ok(child)
    }

    fn forget(&self, child: &Child) {
        let group = Pid::from_child(child);
        self.running.lock().retain(|running| *running != group);
    }
}

impl RunningSuite {
    /// Prints the result, and details of failures.
    fn finish(self, ended: &FinishedSuite, report: &mut Report) {
        let Self {
            suite,
            start,
            output,
            log,
        } = self;
        let output = output.lock();
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
            println!("the whole output is in {}", log.display());
        }
    }
}

/// Waits until the guards have taken down the clusters of killed suites.
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

/// The running suites with finished and total tests.
fn suite_progress(running: &[Option<RunningSuite>]) -> Vec<(String, usize, usize)> {
    let running = running.iter().flatten();
    running
        .map(|it| {
            let output = it.output.lock();
            (it.suite.name.clone(), output.done, output.tests)
        })
        .collect()
}

fn kill(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// The process id and the command line.
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
