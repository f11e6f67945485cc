//! A program under measurement, seen through the kernel's eyes.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// Long enough for anything that starts at all.
const LONGEST_START: Duration = Duration::from_mins(1);

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

/// A port that nobody has now.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
