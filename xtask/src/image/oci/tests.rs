use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

fn image() -> Image {
    Image {
        reference: "docker.io/local/hello:v1".to_owned(),
        architecture: "arm64",
        config: json!({"User": "65532:65532", "Cmd": ["/hello"]}),
        // Not in order: those of an image are sorted.
        is_plain: false,
        entries: vec![
            ImageEntry::link("bin/hi", "hello"),
            ImageEntry::file("bin/hello", 0o755, b"a program".to_vec()),
            ImageEntry::folder("tmp", 0o1777, 1000),
            ImageEntry::folder("bin", 0o755, 0),
        ],
    }
}

fn json_of(packed: &PackedImage, path: &str) -> Value {
    serde_json::from_slice(&packed.files[path]).unwrap()
}

/// The blob of a descriptor, whose size and digest must be right.
fn blob_of<'a>(packed: &'a PackedImage, descriptor: &Value) -> &'a [u8] {
    let name = descriptor["digest"].as_str().unwrap();
    let bytes = &packed.files[&blob_path(name)];
    assert_eq!(descriptor["size"], bytes.len());
    assert_eq!(name, digest(bytes));
    bytes
}

#[test]
fn oci_index_leads_to_all_blobs_by_digest() {
    let packed = image().pack().unwrap();
    assert_eq!(
        json_of(&packed, "oci-layout")["imageLayoutVersion"],
        "1.0.0"
    );
    let index = json_of(&packed, "index.json");
    let found = &index["manifests"][0];
    assert_eq!(found["digest"], packed.digest);
    assert_eq!(
        found["platform"],
        json!({"os": "linux", "architecture": "arm64"})
    );
    let names = &found["annotations"];
    assert_eq!(
        names["io.containerd.image.name"],
        "docker.io/local/hello:v1"
    );
    assert_eq!(names["org.opencontainers.image.ref.name"], "v1");
    let manifest: Value = serde_json::from_slice(blob_of(&packed, found)).unwrap();
    let config: Value = serde_json::from_slice(blob_of(&packed, &manifest["config"])).unwrap();
    assert_eq!(config["architecture"], "arm64");
    assert_eq!(config["config"]["User"], "65532:65532");
    let layer = blob_of(&packed, &manifest["layers"][0]);
    assert_eq!(packed.compressed_size, layer.len() as u64);
    let mut archive = Vec::new();
    GzDecoder::new(layer).read_to_end(&mut archive).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], json!([digest(&archive)]));
    assert_eq!(packed.files.len(), 6, "and nothing else");
    assert_eq!(packed.unpacked_size, 9);
}

#[test]
fn oci_docker_manifest_matches_index() {
    let packed = image().pack().unwrap();
    let docker = json_of(&packed, "manifest.json");
    assert_eq!(docker[0]["RepoTags"], json!(["local/hello:v1"]));
    let index = json_of(&packed, "index.json");
    let manifest: Value = serde_json::from_slice(blob_of(&packed, &index["manifests"][0])).unwrap();
    let path = |descriptor: &Value| blob_path(descriptor["digest"].as_str().unwrap());
    assert_eq!(docker[0]["Config"], path(&manifest["config"]));
    assert_eq!(docker[0]["Layers"], json!([path(&manifest["layers"][0])]));
}

/// Each file of an archive: path, mode, user and group, time, kind.
type Line = (String, u32, u64, u64, u64, EntryType);

fn listed(archive: &[u8]) -> Vec<Line> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let header = entry.header();
        (
            entry.path().unwrap().display().to_string(),
            header.mode().unwrap(),
            header.uid().unwrap(),
            header.gid().unwrap(),
            header.mtime().unwrap(),
            header.entry_type(),
        )
    });
    entries.collect()
}

#[test]
fn oci_layer_has_files_in_order() {
    let mut image = image();
    image
        .entries
        .sort_by(|one, other| one.path.cmp(&other.path));
    let lines = listed(&archive(&image.entries).unwrap());
    let wanted: Vec<Line> = vec![
        ("bin/".into(), 0o755, 0, 0, 0, EntryType::Directory),
        ("bin/hello".into(), 0o755, 0, 0, 0, EntryType::Regular),
        ("bin/hi".into(), 0o777, 0, 0, 0, EntryType::Symlink),
        ("tmp/".into(), 0o1777, 1000, 1000, 0, EntryType::Directory),
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn oci_image_is_reproducible() {
    let (one, other) = (image().pack().unwrap(), image().pack().unwrap());
    assert_eq!(one.digest, other.digest);
    assert_eq!(one.archive().unwrap(), other.archive().unwrap());
}

#[test]
fn oci_archive_contains_the_layout() {
    let packed = image().pack().unwrap();
    let archive = packed.archive().unwrap();
    let files = listed(&archive).into_iter();
    let files: Vec<String> = files
        .filter(|line| line.5 == EntryType::Regular)
        .map(|line| line.0)
        .collect();
    let wanted: Vec<String> = packed.files.keys().cloned().collect();
    assert_eq!(files, wanted);
}
