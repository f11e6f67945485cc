//! A server process and its resource usage from `/proc`.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

const START_TIMEOUT: Duration = Duration::from_mins(1);

/// `USER_HZ`, which is 100 on all platforms that we ship for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Killed on drop.
pub(super) struct ServerProcess {
    child: Child,
    pub(super) address: SocketAddr,
    /// The time from spawn to the first accepted connection.
    pub(super) start: Duration,
}

impl ServerProcess {
    /// Starts the process and waits until it listens.
    pub(super) fn start(mut command: Command, address: SocketAddr) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut child = command.spawn().context("failed to start the program")?;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("the program ended before it listened: {status}");
            }
            if began.elapsed() > START_TIMEOUT {
                bail!("the program does not listen on {address}");
            }
            thread::sleep(Duration::from_micros(200));
        }
        let start = began.elapsed();
        Ok(Self {
            child,
            address,
            start,
        })
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in KiB.
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// Peak resident memory in KiB.
    pub(super) fn peak(&self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    pub(super) fn open_files(&self) -> anyhow::Result<usize> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id()))?;
        Ok(files.count())
    }

    /// User and system time in seconds.
    pub(super) fn processor_time(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        processor_time(&stat).context("/proc has no processor time")
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) fn terminate(mut self) -> anyhow::Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = process.context("the program has no process")?;
        kill_process(process, Signal::TERM).context("failed to send SIGTERM")?;
        self.child.wait()?;
        Ok(())
    }

    fn status(&self, field: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        let number = number.with_context(|| format!("/proc has no {field}"))?;
        Ok(number.parse()?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of fields 14 and 15 of `stat`. Field 2 is a name in parentheses, which may contain
/// spaces.
fn processor_time(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// An unused port.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_parsed_after_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 900 0 3 0 150 25 0 0 20 0 3 0 100 1 2";
        assert_eq!(processor_time(stat), Some(1.75));
        assert_eq!(processor_time("42 (manager) S 1"), None);
    }
}
