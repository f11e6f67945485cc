//! Metrics of the process itself, under the names that all Prometheus clients use.
//!
//! The feature `process` of `prometheus` is not used because it counts whole CPU seconds: a manager
//! that uses one percent of a CPU would show a step every hundred seconds.

use procfs::{ProcResult, process::LimitValue, process::Process};
use prometheus::{
    Counter, Gauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};

pub(super) struct ProcessMetrics {
    descriptions: Vec<Desc>,
}

impl ProcessMetrics {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let series = ProcessSeries::new()?;
        let descriptions = series.each().into_iter().flat_map(Collector::desc);
        let descriptions = descriptions.cloned().collect();
        Ok(Self { descriptions })
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(series) = ProcessSeries::new() else {
            return Vec::new();
        };
        if let Err(error) = series.read() {
            tracing::debug!(%error, "Failed to read the metrics of the process");
        }
        series
            .each()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

struct ProcessSeries {
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    start: Gauge,
}

impl ProcessSeries {
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
            max_files: Gauge::new(
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
            &self.max_files,
            &self.start,
        ]
    }

    fn read(&self) -> ProcResult<()> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| float(ticks) / float(procfs::ticks_per_second());
        self.cpu.inc_by(seconds(stat.utime + stat.stime));
        self.resident.set(float(stat.rss * procfs::page_size()));
        self.virtual_memory.set(float(stat.vsize));
        self.start
            .set(float(procfs::boot_time_secs()?) + seconds(stat.starttime));
        self.open_files.set(float(
            u64::try_from(process.fd_count()?).unwrap_or(u64::MAX),
        ));
        if let LimitValue::Value(max) = process.limits()?.max_open_files.soft_limit {
            self.max_files.set(float(max));
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes and ticks are far below 2^53"
)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_of_this_process_are_read() {
        let series = ProcessSeries::new().unwrap();
        series.read().unwrap();
        assert!(series.resident.get() > 0.0);
        assert!(series.virtual_memory.get() > series.resident.get());
        assert!(series.open_files.get() > 0.0);
        assert!(series.max_files.get() >= series.open_files.get());
        assert!(series.start.get() > 1_000_000_000.0);
        let collector = ProcessMetrics::new().unwrap();
        assert_eq!(collector.collect().len(), collector.desc().len());
    }

    #[test]
    fn process_metrics_have_their_usual_names() {
        let metrics = ProcessMetrics::new().unwrap().collect();
        let names: Vec<&str> = metrics.iter().map(MetricFamily::name).collect();
        assert_eq!(
            names,
            [
                "process_cpu_seconds_total",
                "process_resident_memory_bytes",
                "process_virtual_memory_bytes",
                "process_open_fds",
                "process_max_fds",
                "process_start_time_seconds",
            ]
        );
    }
}
