//! The project's front door: everything that one does with a checkout is a command here.
#![expect(clippy::print_stdout, reason = "a command line talks to a person")]

mod generate;
mod progress;
mod quickstart;
mod test;

use std::path::{Path, PathBuf};

use clap::Parser;

/// What one does with a checkout of the operator
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Show the whole system on this machine, with one Stack
    Quickstart(quickstart::Arguments),
    /// Run the tests and print `N passed, M failed`
    Test(test::Arguments),
    /// Write the files that are made from the source: the CRDs, and the types of Kubernetes in them
    Generate(generate::Arguments),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Quickstart(arguments) => quickstart::run(&arguments).await,
        Command::Test(arguments) => test::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments).await,
    }
}

/// The checkout that this binary was built from.
fn checkout() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}
