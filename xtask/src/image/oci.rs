//! Writes OCI images (layout 1.0.0, one layer), reproducibly. Does no I/O.
//!
//! Hand-written, 280 lines: the image has one layer, so all that is needed is `tar`, gzip, SHA-256
//! and four JSON documents. Crates such as `oci-spec` provide the types of the documents, but not
//! the layout, the archive for `docker load` or reproducible layers.
//!
//! ```text
//!   entries ──tar, gzip──▶ layer ┐
//!                        config ─┴▶ manifest ──▶ index.json    (manifest.json is for an older `docker load`)
//! ```

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const PLAIN_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The creation time, which is constant for reproducible images.
const CREATED: &str = "1970-01-01T00:00:00Z";

pub(crate) struct Image {
    /// Full name and tag, such as `docker.io/library/hello:v1`.
    pub(crate) reference: String,
    /// Go's name: `amd64`, `arm64`.
    pub(crate) architecture: &'static str,
    /// The `config` of OCI's image configuration.
    pub(crate) config: Value,
    pub(crate) entries: Vec<ImageEntry>,
    /// Does not compress the layer, which is faster.
    pub(crate) is_plain: bool,
}

pub(crate) struct ImageEntry {
    /// Without a leading or trailing slash.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// Both user and group id.
    pub(crate) owner: u32,
    pub(crate) content: EntryContent,
}

pub(crate) enum EntryContent {
    Folder,
    File(Vec<u8>),
    Link(String),
}

/// The files of an OCI layout, and `manifest.json` for `docker load`.
pub(crate) struct PackedImage {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Bytes of the layer.
    pub(crate) compressed_size: u64,
    /// Bytes of all files.
    pub(crate) unpacked_size: u64,
    /// The manifest's digest.
    pub(crate) digest: String,
}

impl Image {
    /// Disables compression.
    pub(crate) fn plain(self) -> Self {
        Self {
            is_plain: true,
            ..self
        }
    }

    pub(crate) fn pack(mut self) -> io::Result<PackedImage> {
        self.entries.sort_by(|one, other| one.path.cmp(&other.path));
        let mut files = BTreeMap::new();
        let archive = archive(&self.entries)?;
        let layer = if self.is_plain {
            blob(&mut files, PLAIN_LAYER, archive.clone())
        } else {
            blob(&mut files, LAYER, gzip(&archive)?)
        };
        let config = self.configuration(&digest(&archive))?;
        let config = blob(&mut files, CONFIG, config);
        let docker = self.docker_manifest(&config, &layer);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let mut manifest = blob(&mut files, MANIFEST, serde_json::to_vec(&manifest)?);
        let digest = text(&manifest, "digest");
        self.annotate(&mut manifest);
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        files.insert("index.json".to_owned(), serde_json::to_vec(&index)?);
        files.insert("manifest.json".to_owned(), serde_json::to_vec(&docker)?);
        let layout = json!({"imageLayoutVersion": "1.0.0"});
        files.insert("oci-layout".to_owned(), serde_json::to_vec(&layout)?);
        Ok(PackedImage {
            files,
            compressed_size: layer
                .get("size")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
            unpacked_size: self.unpacked_size(),
            digest,
        })
    }

    fn configuration(&self, layer: &str) -> io::Result<Vec<u8>> {
        let configuration = json!({
            "created": CREATED,
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [layer]},
            "history": [{"created": CREATED, "created_by": "cargo xtask image"}],
        });
        Ok(serde_json::to_vec(&configuration)?)
    }

    /// For versions of `docker load` that do not read OCI layouts.
    fn docker_manifest(&self, config: &Value, layer: &Value) -> Value {
        let familiar = self.reference.trim_start_matches("docker.io/");
        json!([{
            "Config": blob_path(&text(config, "digest")),
            "RepoTags": [familiar],
            "Layers": [blob_path(&text(layer, "digest"))],
        }])
    }

    /// Annotates the full name for containerd and the tag for other tools.
    fn annotate(&self, manifest: &mut Value) {
        let tag = self.reference.rsplit(':').next().unwrap_or_default();
        let Value::Object(fields) = manifest else {
            return;
        };
        let platform = json!({"architecture": self.architecture, "os": "linux"});
        fields.insert("platform".to_owned(), platform);
        let names = json!({
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": tag,
        });
        fields.insert("annotations".to_owned(), names);
    }

    fn unpacked_size(&self) -> u64 {
        let sizes = self.entries.iter().map(|entry| match &entry.content {
            EntryContent::File(bytes) => bytes.len() as u64,
            EntryContent::Folder | EntryContent::Link(_) => 0,
        });
        sizes.sum()
    }
}

impl PackedImage {
    /// One archive, for `ctr images import`, `docker load` and `skopeo`.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for folder in ["blobs", "blobs/sha256"] {
            let entry = ImageEntry::folder(folder, 0o755, 0);
            append(&mut builder, &entry)?;
        }
        for (path, bytes) in &self.files {
            let mut header = header(EntryType::Regular, 0o644, 0);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, bytes.as_slice())?;
        }
        builder.into_inner()
    }
}

impl ImageEntry {
    pub(crate) fn folder(path: &str, mode: u32, owner: u32) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            owner,
            content: EntryContent::Folder,
        }
    }

    /// Owned by root.
    pub(crate) fn file(path: &str, mode: u32, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            owner: 0,
            content: EntryContent::File(bytes),
        }
    }

    /// Owned by root.
    pub(crate) fn link(path: &str, target: &str) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o777,
            owner: 0,
            content: EntryContent::Link(target.to_owned()),
        }
    }
}

fn archive(entries: &[ImageEntry]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        append(&mut builder, entry)?;
    }
    builder.into_inner()
}

fn append(builder: &mut tar::Builder<Vec<u8>>, entry: &ImageEntry) -> io::Result<()> {
    let of = |kind| header(kind, entry.mode, entry.owner);
    match &entry.content {
        EntryContent::Folder => {
            let mut header = of(EntryType::Directory);
            let path = format!("{}/", entry.path);
            builder.append_data(&mut header, path, io::empty())
        }
        EntryContent::File(bytes) => {
            let mut header = of(EntryType::Regular);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, &entry.path, bytes.as_slice())
        }
        EntryContent::Link(target) => {
            let mut header = of(EntryType::Symlink);
            builder.append_link(&mut header, &entry.path, target)
        }
    }
}

fn header(kind: EntryType, mode: u32, owner: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(u64::from(owner));
    header.set_gid(u64::from(owner));
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// Without name and time, so that the layer is reproducible.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Adds a blob and returns its descriptor.
fn blob(files: &mut BTreeMap<String, Vec<u8>>, kind: &str, bytes: Vec<u8>) -> Value {
    let digest = digest(&bytes);
    let descriptor = json!({"mediaType": kind, "digest": digest, "size": bytes.len()});
    files.insert(blob_path(&digest), bytes);
    descriptor
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn text(object: &Value, field: &str) -> String {
    let value = object.get(field).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
