//! Container images for the node, from an OCI layout or an archive of one. There is no registry.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, Header};

use super::ClusterError;
use super::cluster_dir::{ClusterDir, attempt};
use super::namespaces::{NodeNamespaces, run};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Loads an image from a folder or an archive, under a name or under its own names. Returns the
/// names.
pub(super) fn load(
    dir: &ClusterDir,
    namespaces: &NodeNamespaces,
    image: &Path,
    reference: Option<&str>,
) -> Result<Vec<String>, ClusterError> {
    if image.is_dir() {
        let archive = dir.path("image.tar");
        attempt("read", image, |image| pack(image, &archive))?;
        let loaded = load(dir, namespaces, &archive, reference);
        attempt("remove", &archive, |path| fs::remove_file(path))?;
        return loaded;
    }
    // By its standard input, because the node does not see every folder of the host
    let archive = attempt("read", image, |path| File::open(path))?;
    let mut command = namespaces.command("ctr");
    command
        .args(["--namespace", "k8s.io", "images", "import"])
        .args(["--snapshotter", snapshotter(dir)]);
    if let Some(reference) = reference {
        command.args(["--index-name", reference]);
    }
    command.arg("-").stdin(Stdio::from(archive));
    let names = parse_names(&String::from_utf8_lossy(&run(&mut command)?.stdout));
    if names.is_empty() {
        return Err(ClusterError::Nameless(image.to_owned()));
    }
    Ok(names)
}

/// The names in lines such as `unpacking docker.io/local/pause:1 (sha256:…)...done`.
fn parse_names(output: &str) -> Vec<String> {
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("unpacking "));
    let names = lines.filter_map(|line| line.split_once(' ').map(|(name, _)| name.to_owned()));
    names.collect()
}

/// How the runtime keeps the files of images: as layers, or, where that can't be, as copies.
pub(super) fn snapshotter(dir: &ClusterDir) -> &'static str {
    if dir.takes_layers() {
        "overlayfs"
    } else {
        "native"
    }
}

/// An archive of a folder.
fn pack(folder: &Path, archive: &Path) -> io::Result<()> {
    let mut builder = Builder::new(File::create(archive)?);
    builder.append_dir_all(".", folder)?;
    builder.into_inner()?.flush()
}

/// Writes an image with one program, which runs as any user.
pub(super) fn write_program_image(
    dir: &ClusterDir,
    name: &str,
    program: &Path,
) -> Result<std::path::PathBuf, ClusterError> {
    let path = dir.path(&format!("{name}.tar"));
    let content = attempt("read", program, |path| fs::read(path))?;
    let archive = attempt("write", &path, |_| program_image(name, &content))?;
    attempt("write", &path, |path| fs::write(path, archive))?;
    Ok(path)
}

fn program_image(name: &str, program: &[u8]) -> io::Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    append(&mut layer, name, program, 0o755)?;
    let layer = layer.into_inner()?;
    let configuration = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": [format!("/{name}")], "User": "65532:65532" },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let configuration = configuration.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIGURATION, &configuration),
        "layers": [descriptor(LAYER, &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let index = json!({ "schemaVersion": 2, "manifests": [descriptor(MANIFEST, &manifest)] });
    let mut archive = Builder::new(Vec::new());
    append(
        &mut archive,
        "oci-layout",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
        0o644,
    )?;
    append(
        &mut archive,
        "index.json",
        index.to_string().as_bytes(),
        0o644,
    )?;
    for blob in [layer, configuration, manifest] {
        let path = format!("blobs/{}", digest(&blob).replace(':', "/"));
        append(&mut archive, &path, &blob, 0o644)?;
    }
    archive.into_inner()
}

fn append(archive: &mut Builder<Vec<u8>>, path: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_size(u64::try_from(content.len()).map_err(io::Error::other)?);
    header.set_mode(mode);
    header.set_mtime(0);
    archive.append_data(&mut header, path, content)
}

fn descriptor(kind: &str, content: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": digest(content), "size": content.len() })
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

/// The OCI name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Fails while containerd is not ready.
pub(super) fn check_ready(namespaces: &NodeNamespaces) -> Result<(), ClusterError> {
    let mut command: Command = namespaces.command("ctr");
    run(command.arg("version")).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn image_names_are_parsed_from_ctr_output() {
        let output = "unpacking docker.io/local/a:1 (sha256:12)...done\nunpacking docker.io/local/b:1 (sha256:34)...done\n";
        assert_eq!(
            parse_names(output),
            ["docker.io/local/a:1", "docker.io/local/b:1"]
        );
        assert!(parse_names("").is_empty());
    }

    #[test]
    fn program_image_is_an_oci_layout_archive() {
        let archive = program_image("pause", b"program").unwrap();
        let mut names = Vec::new();
        for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some(expected) = name.strip_prefix("blobs/sha256/") {
                assert_eq!(digest(&content), format!("sha256:{expected}"));
            }
            names.push(name);
        }
        assert_eq!(names.len(), 5, "{names:?}");
        assert_eq!(names[..2], ["oci-layout", "index.json"]);
    }
}
