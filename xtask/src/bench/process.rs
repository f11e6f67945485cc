//! A program under measurement, seen through the kernel's eyes.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough for anything that starts at all.
const LONGEST_START: Duration = Duration::from_mins(1);

/// The clock ticks of a second, as Linux counts them for programs on every processor that we ship for.
const TICKS: f64 = 100.0;

/// A server that is killed when this is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    /// From its start until it took a connection.
    pub(super) start: Duration,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(mut command: Command, address: SocketAddr) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut child = command.spawn().context("failed to start the program")?;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("the program ended before it listened: {status}");
            }
            if began.elapsed() > LONGEST_START {
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

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kibibytes that it has in memory now.
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// Kibibytes that it has had at most.
    pub(super) fn peak(&self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    /// Files that it has open.
    pub(super) fn open_files(&self) -> anyhow::Result<usize> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id()))?;
        Ok(files.count())
    }

    /// Seconds of processor time that it has used, in itself and in the kernel.
    pub(super) fn processor_time(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        processor_time(&stat).context("the kernel does not say how much processor time was used")
    }

    /// Tells it to end, and waits until it has.
    pub(super) fn terminate(mut self) -> anyhow::Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = process.context("the program has no process")?;
        kill_process(process, Signal::TERM).context("failed to tell the program to end")?;
        self.child.wait()?;
        Ok(())
    }

    fn status(&self, field: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        let number = number.with_context(|| format!("the kernel does not say {field}"))?;
        Ok(number.parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The 14th and 15th field of a process's `stat`, added. The second is a name in brackets, which may have spaces.
fn processor_time(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// A port that nobody has now.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 900 0 3 0 150 25 0 0 20 0 3 0 100 1 2";
        assert_eq!(processor_time(stat), Some(1.75));
        assert_eq!(processor_time("42 (manager) S 1"), None);
    }
}
