//! What Stacks cost a manager, the API server and a git server, and how fast they are: ours, as it is shipped, on a
//! control plane of its own, with a stand-in for `pulumi` that takes no time of its own.
//!
//! Requests are counted from the API server's audit log and processes by the stand-ins; both are exact. What costs
//! memory and requests is measured with workspaces in pods of a pretend node, whose containers are processes of the
//! real agent. Times are measured with process workspaces, so that they are the manager's and not a pretend node's.
//! Upstream's figures are those of its 2.x, measured in the same way on such a machine: times and memory compare only
//! roughly, counts do.

mod counts;
mod git;
mod group;
mod hung;
mod moments;
mod place;
mod speed;

use std::path::PathBuf;

use super::report::Figure;
use place::Programs;

#[derive(clap::Args)]
pub(super) struct StacksArguments {
    /// A folder with manager, agent and pulumi-stand-in; without it, they are built as they are shipped
    #[arg(long)]
    programs: Option<PathBuf>,
    /// What is measured; all of it, if nothing is named
    #[arg(long, value_enum)]
    part: Vec<Part>,
    /// How many Stacks there are when memory, throughput and slow runs are measured
    #[arg(long, default_value_t = 200)]
    stacks: usize,
    /// How many Stacks are counted
    #[arg(long, default_value_t = 20)]
    counted: usize,
    /// How many Stacks are made one after the other
    #[arg(long, default_value_t = 30)]
    creations: usize,
    /// How many seconds a slow run takes
    #[arg(long, default_value_t = 30)]
    slow: u64,
    /// How many Stacks hang
    #[arg(long, default_value_t = 50)]
    hanging: usize,
    /// How many Stacks follow one branch
    #[arg(long, default_value_t = 100)]
    following: usize,
    /// For how many of its intervals the polling of a repository is watched
    #[arg(long, default_value_t = 3)]
    intervals: u32,
    /// How many seconds the manager gets to settle before its memory is measured
    #[arg(long, default_value_t = 60)]
    settle: u64,
    /// A thousand Stacks instead of two hundred; takes half an hour
    #[arg(long)]
    full: bool,
    /// Also write the figures as JSON
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
}

/// A part of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
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

    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// All figures.
pub(super) async fn measure(arguments: &StacksArguments) -> anyhow::Result<Vec<Figure>> {
    let programs = Programs::find(arguments.programs.as_deref())?;
    let mut figures = Vec::new();
    if arguments.wants(Part::Counts) {
        figures.extend(Box::pin(counts::measure(&programs, arguments)).await?);
    }
    if arguments.wants(Part::Speed) {
        figures.extend(Box::pin(speed::measure(&programs, arguments)).await?);
    }
    if arguments.wants(Part::Hung) {
        figures.extend(Box::pin(hung::measure(&programs, arguments)).await?);
    }
    if arguments.wants(Part::Git) {
        figures.extend(Box::pin(git::measure(&programs, arguments)).await?);
    }
    Ok(figures)
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(Vec::new()).to_bits(), 0.0_f64.to_bits());
    }
}
