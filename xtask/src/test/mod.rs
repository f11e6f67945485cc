//! `cargo xtask test`: every test there is, with a line for each suite and one for all.
//!
//! ```text
//!  prerequisites.rs  installs and builds what the tests run
//!  suites.rs         finds the suites (test programs) that cargo has built
//!  runner.rs         runs suites side by side, each in a folder of its own
//!  output.rs         reads what a suite prints; pure
//!  report.rs         progress while it runs, and what it came to
//! ```

mod output;
mod prerequisites;
mod report;
mod runner;
mod suites;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::ValueEnum;
use pko_testkit::Cluster;

use crate::{fuzz, image::trial, progress::Step, target_folder};
use report::Report;
use runner::Runner;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these tests
    layer: Option<Layer>,
    /// Also what takes minutes: the whole number of repetitions, and a coverage-guided fuzzer
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    /// What needs nothing but the code
    Unit,
    /// What needs a control plane
    It,
    /// What needs a cluster with a node, and images
    E2e,
}

/// How long each fuzz test tries values.
const FUZZ_SECONDS: &str = "PKO_FUZZ_SECONDS";
/// Cargo's profile for the programs in the images of e2e.
const E2E_PROFILE: &str = "trial";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let start = Step::quiet();
    let layer = arguments.layer;
    if layer != Some(Layer::Unit) {
        prerequisites::install(layer)?;
        prerequisites::build(layer)?;
    }
    let suites = suites::build(layer)?;
    let images = match layer {
        None | Some(Layer::E2e) => build_images()?,
        Some(Layer::Unit | Layer::It) => None,
    };
    let longest = (!arguments.full).then_some(runner::LONGEST);
    let runner = Runner::new(variables(arguments.full, images.as_deref())?, longest)?;
    let mut report = Report::default();
    runner.run(suites, &mut report)?;
    report.print(&start.elapsed());
    if report.failed() > 0 {
        bail!("not all tests passed");
    }
    if arguments.full {
        fuzz::run()?;
    }
    Ok(())
}

/// What every suite finds in its environment.
fn variables(full: bool, images: Option<&Path>) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = vec![("PKO_BIN_DIR", crate::programs_folder()?)];
    if full {
        variables.push(("PKO_FULL", "1".into()));
    } else if env::var_os(FUZZ_SECONDS).is_none() {
        variables.push((FUZZ_SECONDS, "2".into()));
    }
    if let Some(images) = images {
        variables.push(("PKO_IMAGES", images.to_owned()));
    }
    Ok(variables)
}

/// The images for e2e; none where there can be no cluster: those tests say so.
fn build_images() -> anyhow::Result<Option<PathBuf>> {
    if Cluster::obstacle().is_some() {
        return Ok(None);
    }
    let images = target_folder()?.join("e2e-images");
    let profile = env::var("PKO_E2E_PROFILE");
    trial::run(profile.as_deref().unwrap_or(E2E_PROFILE), &images)?;
    Ok(Some(images))
}
