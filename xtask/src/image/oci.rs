//! An image in OCI's layout, byte for byte the same for the same contents. Pure: what is written where is up to
//! [`super`].
//!
//! ```text
//!   entries ──tar, gzip──▶ layer ┐
//!                        config ─┴▶ manifest ──▶ index.json    (manifest.json says the same to an older `docker load`)
//! ```

use std::{
    collections::BTreeMap,
    fmt::Write as _,
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

/// When everything in an image was made, so that the same contents are the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// An image, before it is packed.
pub(crate) struct Image {
    /// Its full name with its tag, such as `docker.io/library/hello:v1`.
    pub(crate) reference: String,
    /// In Go's words, as OCI wants it: `amd64`, `arm64`.
    pub(crate) architecture: &'static str,
    /// How it is run: the `config` of OCI's image configuration.
    pub(crate) config: Value,
    /// Its files.
    pub(crate) entries: Vec<Entry>,
    /// Its layer is not compressed: larger, and soon made.
    pub(crate) is_plain: bool,
}

/// A file of an image.
pub(crate) struct Entry {
    /// From the root, without a slash at either end.
    pub(crate) path: String,
    /// Its permissions.
    pub(crate) mode: u32,
    /// The number of its user and of its group.
    pub(crate) owner: u32,
    /// What it is.
    pub(crate) content: Content,
}

/// What a file of an image is.
pub(crate) enum Content {
    /// A folder.
    Folder,
    /// A file with these bytes.
    File(Vec<u8>),
    /// A link to there.
    Link(String),
}

/// An image as files: those of OCI's layout, and one for `docker load`.
pub(crate) struct Packed {
    /// By path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The bytes of its layer, as they are sent and kept.
    pub(crate) compressed_size: u64,
    /// The bytes of its files.
    pub(crate) unpacked_size: u64,
    /// The digest of its manifest.
    pub(crate) digest: String,
}

impl Image {
    /// The same, to be packed in no time.
    pub(crate) fn plain(self) -> Self {
        Self {
            is_plain: true,
            ..self
        }
    }

    /// Packs it.
    pub(crate) fn pack(mut self) -> io::Result<Packed> {
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
        self.name(&mut manifest);
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        files.insert("index.json".to_owned(), serde_json::to_vec(&index)?);
        files.insert("manifest.json".to_owned(), serde_json::to_vec(&docker)?);
        let layout = json!({"imageLayoutVersion": "1.0.0"});
        files.insert("oci-layout".to_owned(), serde_json::to_vec(&layout)?);
        Ok(Packed {
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

    /// What `docker load` reads where it knows nothing of OCI's layout.
    fn docker_manifest(&self, config: &Value, layer: &Value) -> Value {
        let familiar = self.reference.trim_start_matches("docker.io/");
        json!([{
            "Config": blob_path(&text(config, "digest")),
            "RepoTags": [familiar],
            "Layers": [blob_path(&text(layer, "digest"))],
        }])
    }

    /// Says which image this is: to containerd by its full name, to others by its tag.
    fn name(&self, manifest: &mut Value) {
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
            Content::File(bytes) => bytes.len() as u64,
            Content::Folder | Content::Link(_) => 0,
        });
        sizes.sum()
    }
}

impl Packed {
    /// All of it in one archive, as `ctr images import`, `docker load` and `skopeo` take it.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for folder in ["blobs", "blobs/sha256"] {
            let entry = Entry::folder(folder, 0o755, 0);
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

impl Entry {
    /// A folder.
    pub(crate) fn folder(path: &str, mode: u32, owner: u32) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            owner,
            content: Content::Folder,
        }
    }

    /// A file of root's.
    pub(crate) fn file(path: &str, mode: u32, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            owner: 0,
            content: Content::File(bytes),
        }
    }

    /// A link of root's.
    pub(crate) fn link(path: &str, target: &str) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o777,
            owner: 0,
            content: Content::Link(target.to_owned()),
        }
    }
}

fn archive(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        append(&mut builder, entry)?;
    }
    builder.into_inner()
}

fn append(builder: &mut tar::Builder<Vec<u8>>, entry: &Entry) -> io::Result<()> {
    let of = |kind| header(kind, entry.mode, entry.owner);
    match &entry.content {
        Content::Folder => {
            let mut header = of(EntryType::Directory);
            let path = format!("{}/", entry.path);
            builder.append_data(&mut header, path, io::empty())
        }
        Content::File(bytes) => {
            let mut header = of(EntryType::Regular);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, &entry.path, bytes.as_slice())
        }
        Content::Link(target) => {
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

/// Without a name and a time, which would be another layer at each build.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Keeps a blob; its descriptor.
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
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn text(object: &Value, field: &str) -> String {
    let value = object.get(field).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
