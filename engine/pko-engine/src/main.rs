//! `pulumi-engine`: the embedded engine's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    pko_engine::run(std::env::args().skip(1).collect())
}
