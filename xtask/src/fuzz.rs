//! Coverage-guided fuzzing, for `cargo xtask test --full`: a minute for each target in `fuzz/`.

use std::process::Stdio;

use anyhow::{Context, bail};

use crate::{checkout, progress::Step};

const SECONDS: u32 = 60;

/// Tries each target; says so in one line if the machine has no fuzzer.
pub(crate) fn run() -> anyhow::Result<()> {
    if !has_fuzzer() {
        println!(
            "skipped the fuzzer: it needs `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
        );
        return Ok(());
    }
    for target in targets()? {
        let step = Step::begin(&format!("fuzzing {target}"));
        let tried = fuzz()
            .args(["run", &target, "--"])
            .arg(format!("-max_total_time={SECONDS}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("failed to run cargo fuzz")?;
        if !tried.success() {
            bail!("{target} failed: the input is in fuzz/artifacts/{target}");
        }
        println!("  nothing found, {}", step.elapsed());
    }
    Ok(())
}

fn has_fuzzer() -> bool {
    let asked = fuzz().arg("--version").output();
    asked.is_ok_and(|answer| answer.status.success())
}

fn fuzz() -> std::process::Command {
    let mut command = std::process::Command::new("cargo");
    // The toolchain that runs this program is not the one that is wanted.
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
