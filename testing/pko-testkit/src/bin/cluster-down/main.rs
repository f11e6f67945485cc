//! `cluster-down NAME` takes a test cluster down, for an owner that was killed.
//!
//! [`pko_testkit::Cluster`] starts it through a shell that waits for the end of the owner.

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use pko_testkit::Cluster;

fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_default();
    match Cluster::take_down(&name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cluster-down: {error:?}");
            ExitCode::FAILURE
        }
    }
}
