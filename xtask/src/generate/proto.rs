//! Generates Rust from the `.proto` files, without `protoc`.

use std::path::Path;

use anyhow::Context;

use super::GeneratedFile;
use pko_testkit::checkout::checkout;

const SOURCE: &str = "crates/pko-proto/proto";
const TARGET: &str = "crates/pko-proto/src/gen";
const FILES: [&str; 3] = ["agent.proto", "run.proto", "events.proto"];

/// Messages that may contain secrets. `pko-proto` implements `Debug` for them.
const WITHOUT_DEBUG: [&str; 3] = [
    ".agent.OutputValue",
    ".agent.ConfigItem",
    ".pko.agent.v1.RunResult",
];

pub(super) fn rust_files() -> anyhow::Result<Vec<GeneratedFile>> {
    let source = checkout().join(SOURCE);
    let descriptors = protox::compile(FILES, [&source]).context("failed to read the protos")?;
    let folder = tempfile::tempdir()?;
    let mut config = tonic_prost_build::Config::new();
    config
        .out_dir(folder.path())
        .btree_map(["."])
        .skip_debug(WITHOUT_DEBUG);
    tonic_prost_build::configure()
        .out_dir(folder.path())
        .build_transport(false)
        .compile_fds_with_config(descriptors, config)
        .context("failed to generate Rust from the protos")?;
    ["agent.rs", "pko.agent.v1.rs", "pulumirpc.rs"]
        .into_iter()
        .map(|name| generated(folder.path(), name))
        .collect()
}

fn generated(folder: &Path, name: &str) -> anyhow::Result<GeneratedFile> {
    let text = std::fs::read_to_string(folder.join(name))
        .with_context(|| format!("{name} was not generated"))?;
    // Files are named after the `.proto`, not after its package.
    let file = name
        .replace("pko.agent.v1", "run")
        .replace("pulumirpc", "events");
    Ok(GeneratedFile {
        path: Path::new(TARGET).join(file),
        text,
    })
}
