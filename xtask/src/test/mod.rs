//! `cargo xtask test`: runs all tests and prints a line per suite and a summary.
//!
//! ```text
//!  prerequisites.rs  installs and builds what the tests need
//!  suites.rs         builds and lists the suites (test executables)
//!  runner.rs         runs suites concurrently, each in a folder of its own
//!  output.rs         parses the output of a suite; does no I/O
//!  report.rs         progress and summary
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

use crate::{fuzz, image::e2e_images};
use pko_testkit::{checkout::target_folder, progress::Step};
use report::Report;
use runner::Runner;

#[derive(clap::Args)]
pub(crate) struct TestArguments {
    /// Run only these tests
    layer: Option<Layer>,
    /// Run all repetitions and a coverage-guided fuzzer, which takes long
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    /// Unit tests
    Unit,
    /// Integration tests, which need a control plane
    It,
    /// End-to-end tests, which need a cluster with a node and images
    E2e,
}

/// Seconds per fuzz test.
const FUZZ_SECONDS: &str = "PKO_FUZZ_SECONDS";
const E2E_PROFILE: &str = "trial";

pub(crate) fn run(arguments: &TestArguments) -> anyhow::Result<()> {
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
    let timeout = (!arguments.full).then_some(runner::SUITE_TIMEOUT);
    let runner = Runner::new(variables(arguments.full, images.as_deref())?, timeout)?;
    let mut report = Report::default();
    runner.run(suites, &mut report)?;
    report.print(&start.elapsed());
    if report.failed_count() > 0 {
        bail!("not all tests passed");
    }
    if arguments.full {
        fuzz::run()?;
    }
    Ok(())
}

/// Environment variables for all suites.
fn variables(full: bool, images: Option<&Path>) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = vec![("PKO_BIN_DIR", pko_testkit::checkout::programs_folder()?)];
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

/// Builds the images for e2e. Without support for a cluster there are none, and the tests skip
/// themselves.
fn build_images() -> anyhow::Result<Option<PathBuf>> {
    if Cluster::obstacle().is_some() {
        return Ok(None);
    }
    let images = target_folder()?.join("e2e-images");
    let profile = env::var("PKO_E2E_PROFILE");
    e2e_images::run(profile.as_deref().unwrap_or(E2E_PROFILE), &images)?;
    Ok(Some(images))
}
