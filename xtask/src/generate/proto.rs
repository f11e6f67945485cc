//! Rust for the `.proto` files, made without `protoc`.

use std::path::Path;

use anyhow::Context;

use super::Generated;
use crate::checkout;

const SOURCE: &str = "crates/pko-proto/proto";
const TARGET: &str = "crates/pko-proto/src/gen";
const FILES: [&str; 3] = ["agent.proto", "run.proto", "events.proto"];

/// Messages that may hold a secret; `pko-proto` says itself what of them may be printed.
const NOT_PRINTED: [&str; 3] = [
    ".agent.OutputValue",
    ".agent.ConfigItem",
    ".pko.agent.v1.RunResult",
];

pub(super) fn rust_files() -> anyhow::Result<Vec<Generated>> {
    let source = checkout().join(SOURCE);
    let descriptors = protox::compile(FILES, [&source]).context("failed to read the protos")?;
    let folder = tempfile::tempdir()?;
    let mut config = tonic_prost_build::Config::new();
    config
        .out_dir(folder.path())
        .btree_map(["."])
        .skip_debug(NOT_PRINTED);
    tonic_prost_build::configure()
        .out_dir(folder.path())
        .build_transport(false)
        .compile_fds_with_config(descriptors, config)
        .context("failed to make Rust of the protos")?;
    ["agent.rs", "pko.agent.v1.rs", "pulumirpc.rs"]
        .into_iter()
        .map(|name| generated(folder.path(), name))
        .collect()
}

fn generated(folder: &Path, name: &str) -> anyhow::Result<Generated> {
    let text = std::fs::read_to_string(folder.join(name))
        .with_context(|| format!("no {name} was made"))?;
    // Files are named after the `.proto`, not after its package.
    let file = name
        .replace("pko.agent.v1", "run")
        .replace("pulumirpc", "events");
    Ok(Generated {
        path: Path::new(TARGET).join(file),
        text,
    })
}
