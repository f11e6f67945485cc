//! Measures the cost of Stacks for the manager, the API server and a git server, and their speed.
//! The manager is a release build on a control plane of its own, and `pulumi` is a stand-in that
//! takes no time.
//!
//! - Requests come from the API server's audit log, and processes from the stand-ins. Both counts
//!   are exact.
//! - Memory and requests are measured with pod workspaces on a pretend node, whose containers are
//!   real agents.
//! - Times are measured with process workspaces, so that they do not include the node.
//!
//! Upstream's figures are those of its 2.x, measured the same way. Counts compare exactly, times
//! and memory roughly.

mod counts;
mod environment;
mod git_polling;
mod ready_times;
mod speed;
mod stack_group;
mod unresponsive;

use std::path::PathBuf;

use crate::report::Figure;
use environment::BenchPrograms;

#[derive(clap::Args)]
pub(super) struct StacksArguments {
    /// A folder with manager, agent and pulumi-stand-in; by default they are built in release mode
    #[arg(long)]
    programs: Option<PathBuf>,
    /// The parts to measure; all by default
    #[arg(long, value_enum)]
    part: Vec<BenchPart>,
    /// The number of Stacks for memory, throughput and slow runs
    #[arg(long, default_value_t = 200)]
    stacks: usize,
    /// The number of Stacks whose requests are counted
    #[arg(long, default_value_t = 20)]
    counted: usize,
    /// The number of Stacks to create one after the other
    #[arg(long, default_value_t = 30)]
    creations: usize,
    /// Seconds of a slow run
    #[arg(long, default_value_t = 30)]
    slow: u64,
    /// The number of Stacks that hang
    #[arg(long, default_value_t = 50)]
    hanging: usize,
    /// The number of Stacks that follow one branch
    #[arg(long, default_value_t = 100)]
    following: usize,
    /// The number of polling intervals to observe
    #[arg(long, default_value_t = 3)]
    intervals: u32,
    /// Seconds to wait before the manager's memory is measured
    #[arg(long, default_value_t = 60)]
    settle: u64,
    /// A thousand Stacks instead of two hundred; takes half an hour
    #[arg(long)]
    full: bool,
    /// Also write the figures as JSON
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BenchPart {
    /// Requests, `pulumi` processes, and memory: P2, P5, P6, P7 and P16
    Counts,
    /// Throughput, slow runs, and single Stacks: P10, P11 and P21
    Speed,
    /// A good Stack among those that hang: P12
    Hung,
    /// Requests to a git server: P9
    Git,
}

impl StacksArguments {
    fn stacks(&self) -> usize {
        if self.full { 1_000 } else { self.stacks }
    }

    fn includes(&self, part: BenchPart) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

pub(super) async fn measure(arguments: &StacksArguments) -> anyhow::Result<Vec<Figure>> {
    let programs = BenchPrograms::find(arguments.programs.as_deref())?;
    let mut figures = Vec::new();
    if arguments.includes(BenchPart::Counts) {
        figures.extend(Box::pin(counts::measure(&programs, arguments)).await?);
    }
    if arguments.includes(BenchPart::Speed) {
        figures.extend(Box::pin(speed::measure(&programs, arguments)).await?);
    }
    if arguments.includes(BenchPart::Hung) {
        figures.extend(Box::pin(unresponsive::measure(&programs, arguments)).await?);
    }
    if arguments.includes(BenchPart::Git) {
        figures.extend(Box::pin(git_polling::measure(&programs, arguments)).await?);
    }
    Ok(figures)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(Vec::new()).to_bits(), 0.0_f64.to_bits());
    }
}
