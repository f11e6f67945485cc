//! What the process itself uses, read from the kernel at each scrape, under the names that all programs use.

use std::fs;

use prometheus::{
    Counter, Gauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// What the process uses.
pub(super) struct Process {
    described: Vec<Desc>,
}

impl Process {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let series = Series::new()?;
        let described = series.each().into_iter().flat_map(Collector::desc);
        let described = described.cloned().collect();
        Ok(Self { described })
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.described.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(series) = Series::new() else {
            return Vec::new();
        };
        series.read();
        series
            .each()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

struct Series {
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    open_files: Gauge,
    most_files: Gauge,
    start: Gauge,
}

impl Series {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
            resident: Gauge::new(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
            )?,
            virtual_memory: Gauge::new(
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
            )?,
            open_files: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            most_files: Gauge::new(
                "process_max_fds",
                "Maximum number of open file descriptors.",
            )?,
            start: Gauge::new(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
        })
    }

    fn each(&self) -> [&dyn Collector; 6] {
        [
            &self.cpu,
            &self.resident,
            &self.virtual_memory,
            &self.open_files,
            &self.most_files,
            &self.start,
        ]
    }

    fn read(&self) {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        if let Some(stat) = Stat::parse(&text("/proc/self/stat")) {
            // A second has this many ticks wherever Linux shows them.
            let ticks = 100.0;
            self.cpu.inc_by(stat.cpu_ticks / ticks);
            self.virtual_memory.set(stat.virtual_bytes);
            let booted = booted(&text("/proc/stat")).unwrap_or_default();
            self.start.set(booted + stat.start_ticks / ticks);
        }
        if let Some(kibibytes) = resident(&text("/proc/self/status")) {
            self.resident.set(kibibytes * 1024.0);
        }
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.open_files
            .set(f64::from(u32::try_from(files).unwrap_or_default()));
        if let Some(most) = most_files(&text("/proc/self/limits")) {
            self.most_files.set(most);
        }
    }
}

/// What is used of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: f64,
    start_ticks: f64,
    virtual_bytes: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The program's name is in parentheses and may have anything in it.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<f64> = rest
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        Some(Self {
            cpu_ticks: fields.get(11)? + fields.get(12)?,
            start_ticks: *fields.get(19)?,
            virtual_bytes: *fields.get(20)?,
        })
    }
}

fn booted(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn resident(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn most_files(limits: &str) -> Option<f64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 4 0 1000 4096 9 1";
        let expected = Stat {
            cpu_ticks: 200.0,
            start_ticks: 1000.0,
            virtual_bytes: 4096.0,
        };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse("nonsense"), None);
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
        assert_eq!(resident("VmPeak: 9 kB\nVmRSS:\t  1234 kB\n"), Some(1234.0));
        let limits = "Limit Soft Hard Units\nMax open files            1024   4096   files\n";
        assert_eq!(most_files(limits), Some(1024.0));
        assert_eq!(most_files("Max open files unlimited unlimited files"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let series = Series::new().unwrap();
        series.read();
        assert!(series.resident.get() > 0.0);
        assert!(series.open_files.get() > 0.0);
        assert!(series.start.get() > 1_000_000_000.0);
        let collector = Process::new().unwrap();
        assert_eq!(collector.collect().len(), collector.desc().len());
    }
}
