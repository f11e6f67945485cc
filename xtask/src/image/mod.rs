//! `cargo xtask image`: builds OCI images without Docker.

mod build;
pub(crate) mod contents;
pub(crate) mod e2e_images;
pub(crate) mod oci;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use build::Architecture;
use oci::{Image, PackedImage};
use pko_testkit::checkout::target_folder;

/// The maximum unpacked size of a shipped image.
const MAX_UNPACKED_BYTES: u64 = 40_000_000;

const RELEASE_PROFILE: &str = "release";

/// The tag of the images: the version.
pub(crate) const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

#[derive(clap::Args)]
pub(crate) struct ImageArguments {
    /// The architecture of the images; by default that of this machine
    #[arg(long, value_enum)]
    arch: Option<Architecture>,
    /// Cargo's profile: `release` takes some minutes; `trial` and `dev` build faster and are larger
    #[arg(long, default_value = RELEASE_PROFILE)]
    profile: String,
    /// A folder with `manager`, `agent` and `pulumi-engine` that are already built
    #[arg(long, conflicts_with = "profile")]
    programs: Option<PathBuf>,
    /// The tag of both images
    #[arg(long, default_value = TAG)]
    tag: String,
    /// The output folder; by default `images` in cargo's target folder
    #[arg(long)]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ImageArguments) -> anyhow::Result<()> {
    let Some(architecture) = arguments.arch.or_else(Architecture::of_this_machine) else {
        bail!("this architecture is not supported; choose one with --arch");
    };
    let programs = match &arguments.programs {
        Some(folder) => build::read_programs(folder)?,
        None => build::build_programs(architecture, &arguments.profile)?,
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
    // Other profiles are for tests.
    let limit = (arguments.profile == RELEASE_PROFILE).then_some(MAX_UNPACKED_BYTES);
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

/// Writes an image as a folder and as an archive.
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
            bail!("{reference} has {large}; the limit is {}", megabytes(limit))
        }
        _ => Ok(()),
    }
}

/// Replaces the folder, so that no blobs of an earlier image stay.
fn write(packed: &PackedImage, folder: &Path) -> std::io::Result<()> {
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
    // Renamed, so that a concurrent reader gets the old archive.
    let partial = archive.with_extension("partial");
    fs::write(&partial, packed.archive()?)?;
    fs::rename(partial, archive)
}

#[expect(clippy::cast_precision_loss, reason = "for a person")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
