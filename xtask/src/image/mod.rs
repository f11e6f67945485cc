//! `cargo xtask image`: OCI images without Docker. Does I/O: builds, and writes the images.

mod build;
pub(crate) mod contents;
pub(crate) mod oci;
pub(crate) mod trial;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::target_folder;
use build::Architecture;
use oci::{Image, Packed};

/// What an image may come to when it is unpacked.
const LIMIT: u64 = 40_000_000;

/// Cargo's profile for what users get.
const SHIPPED: &str = "release";

/// The tag of images, and so the version of what is in them.
pub(crate) const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The machines that the images are for; without it, such as this one
    #[arg(long, value_enum)]
    arch: Option<Architecture>,
    /// Cargo's profile: `release`, which takes some minutes; `trial` and `dev` are quicker, and large
    #[arg(long, default_value = SHIPPED)]
    profile: String,
    /// A folder with `manager`, `agent` and `pulumi-engine` that were built already
    #[arg(long, conflicts_with = "profile")]
    programs: Option<PathBuf>,
    /// The tag of both images
    #[arg(long, default_value = TAG)]
    tag: String,
    /// The folder to write to; without it, `images` in cargo's target folder
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Some(architecture) = arguments.arch.or_else(Architecture::of_this_machine) else {
        bail!("there is no image for such a machine: choose one by --arch");
    };
    let programs = match &arguments.programs {
        Some(folder) => build::read(folder)?,
        None => build::programs(architecture, &arguments.profile)?,
    };
    let output = match &arguments.output {
        Some(folder) => folder.clone(),
        None => target_folder()?.join("images"),
    };
    let (name, tag) = (architecture.name(), &arguments.tag);
    let images = [
        ("operator", contents::operator(&programs, name, tag)),
        ("workspace", contents::workspace(&programs, name, tag)),
    ];
    // Programs of other profiles are for tests alone.
    let limit = (arguments.profile == SHIPPED).then_some(LIMIT);
    for (kind, image) in images {
        save(image, &output.join(format!("{kind}-{name}")), limit)?;
    }
    println!("\nthey are in {}; to use them:", output.display());
    println!(
        "  ctr -n k8s.io images import FILE.tar    # on each node; or docker load -i, skopeo copy oci-archive:"
    );
    println!("  kubectl apply -f deploy/quickstart/install.yaml");
    Ok(())
}

/// Writes an image, as a folder and as one file beside it.
fn save(image: Image, folder: &Path, limit: Option<u64>) -> anyhow::Result<()> {
    let reference = image.reference.clone();
    let packed = image
        .pack()
        .with_context(|| format!("failed to pack {reference}"))?;
    write(&packed, folder).with_context(|| format!("failed to write {}", folder.display()))?;
    println!("{reference}");
    println!("  {}.tar, {}", folder.display(), packed.digest);
    let (small, large) = (
        megabytes(packed.compressed_size),
        megabytes(packed.unpacked_size),
    );
    println!("  {small} packed, {large} unpacked");
    match limit {
        Some(limit) if packed.unpacked_size > limit => {
            bail!(
                "{reference} has {large}: no more than {} is allowed",
                megabytes(limit)
            )
        }
        _ => Ok(()),
    }
}

/// The layout is made anew: blobs of an earlier image are not left in it.
fn write(packed: &Packed, folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (path, bytes) in &packed.files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, bytes)?;
    }
    let archive = folder.with_file_name(format!(
        "{}.tar",
        folder.file_name().unwrap_or_default().display()
    ));
    // In one step: whoever reads it meanwhile has the old one.
    let partial = archive.with_extension("partial");
    fs::write(&partial, packed.archive()?)?;
    fs::rename(partial, archive)
}

#[expect(clippy::cast_precision_loss, reason = "for a person")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
