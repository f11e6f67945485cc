//! Coverage-guided fuzzing, for `cargo xtask test --full`: a minute for each target in `fuzz/`.

use std::process::Stdio;

use anyhow::{Context, bail};

use pko_testkit::{checkout::checkout, progress::Step};

const SECONDS: u32 = 60;

/// Fuzzes each target. Without a fuzzer it prints how to install one.
pub(crate) fn run() -> anyhow::Result<()> {
    if !has_fuzzer() {
        println!(
            "skipped the fuzzer: it needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
        );
        return Ok(());
    }
    for target in targets()? {
        let step = Step::begin(&format!("fuzzing {target}"));
        let status = fuzz()
            .args(["run", &target, "--"])
            .arg(format!("-max_total_time={SECONDS}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("failed to run cargo fuzz")?;
        if !status.success() {
            bail!("{target} failed: the input is in fuzz/artifacts/{target}");
        }
        println!("  nothing found, {}", step.elapsed());
    }
    Ok(())
}

fn has_fuzzer() -> bool {
    let output = fuzz().arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

fn fuzz() -> std::process::Command {
    let mut command = std::process::Command::new("cargo");
    // `cargo run` selects the stable toolchain by these variables.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
    command.args(["+nightly", "fuzz"]).current_dir(checkout());
    command
}

/// The names of the files in `fuzz/fuzz_targets`.
fn targets() -> anyhow::Result<Vec<String>> {
    let folder = checkout().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).context("failed to find the targets")?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}
