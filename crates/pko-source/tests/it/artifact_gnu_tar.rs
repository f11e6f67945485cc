//! Compares unpacking with GNU tar, for archives that it wrote and for odd ones.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    process::{Command, Output},
};

use pko_source::artifact::ArtifactLimits;
use pko_testkit::fuzz_cases;
use proptest::{collection::vec, prelude::*, sample::select};

use crate::artifact_harness::{Block, Magic, Node, UnpackDirectory, gzip, octal, pax, tar, tree};

const FORMATS: [&str; 5] = ["v7", "oldgnu", "gnu", "ustar", "pax"];

fn gnu_tar(arguments: &[&str], folder: &Path) -> Output {
    Command::new("tar")
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .output()
        .expect("GNU tar is needed for this test: apt-get install tar gzip")
}

fn many<S: Strategy>(strategy: &S, attempt: impl Fn(S::Value)) {
    let full = std::env::var_os("PKO_FULL").is_some();
    fuzz_cases(if full { 5000 } else { 300 }, strategy, attempt);
}

#[derive(Debug, Clone)]
enum ArchiveNode {
    File(Vec<u8>, u32),
    /// Data, a hole of this size, data.
    Holes(u64),
    Folder(u32),
    Link,
}

fn things() -> impl Strategy<Value = Vec<(String, ArchiveNode)>> {
    let part = prop_oneof![
        "[a-c]{1,2}",
        "[ -Z^-~]{1,12}".prop_map(|name| name.replace(['/', '.'], "_")),
        "[äß漢é]{1,20}",
        Just("long".repeat(30)),
        Just("line\nbreak".to_owned()),
    ];
    let name = vec(part, 1..4).prop_map(|parts| parts.join("/"));
    let content = prop_oneof![
        vec(any::<u8>(), 0..40),
        (500..530_usize).prop_map(|length| vec![b'x'; length]),
    ];
    let thing = prop_oneof![
        4 => (content, 0..=0o377_u32).prop_map(|(content, mode)| ArchiveNode::File(content, 0o400 | mode)),
        2 => (0..=0o77_u32).prop_map(|mode| ArchiveNode::Folder(0o700 | mode)),
        1 => Just(ArchiveNode::Link),
        1 => (1..600_000_u64).prop_map(ArchiveNode::Holes),
    ];
    vec((name, thing), 1..8)
}

/// Creates the nodes, except those whose names are taken.
fn make(folder: &Path, things: &[(String, ArchiveNode)]) {
    for (name, thing) in things {
        let path = folder.join(name);
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match thing {
            ArchiveNode::File(content, mode) => {
                fs::write(&path, content).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            ArchiveNode::Holes(hole) => {
                let file = File::create(&path).unwrap();
                file.write_at(b"start", 0).unwrap();
                file.write_at(b"end", 5 + hole).unwrap();
            }
            ArchiveNode::Folder(mode) => {
                fs::create_dir(&path).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
            }
            ArchiveNode::Link => symlink("/etc/hostname", &path).unwrap(),
        }
    }
}

/// Without links, which are skipped.
fn comparable(folder: &Path) -> BTreeMap<Vec<u8>, Node> {
    let mut nodes = tree(folder);
    nodes.retain(|_, node| *node != Node::Other);
    nodes
}

#[test]
fn gnu_tar_archives_unpack_like_gnu_tar() {
    let strategy = (things(), select(FORMATS.to_vec()), any::<bool>());
    many(&strategy, |(things, format, sparse)| {
        let directory = UnpackDirectory::new();
        let (source, gnu) = (directory.path("gnu-source"), directory.path("gnu"));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&gnu).unwrap();
        make(&source, &things);
        let format = format!("--format={format}");
        let mut pack = vec!["-czf", "../gnu.tar.gz", &format];
        // Other formats cannot represent it.
        let sparse =
            sparse && ["--format=oldgnu", "--format=gnu", "--format=pax"].contains(&&*format);
        pack.extend(sparse.then_some("--sparse"));
        pack.push(".");
        // Old formats skip files with long names and report an error.
        let packed = gnu_tar(&pack, &source);
        assert!(
            packed.status.code().is_some_and(|code| code <= 2),
            "{packed:?}"
        );
        let bytes = fs::read(directory.path("gnu.tar.gz")).unwrap();
        let outcome = directory.unpack(&bytes, &ArtifactLimits::default());
        let holes = things
            .iter()
            .any(|(_, thing)| matches!(thing, ArchiveNode::Holes(_)));
        let strange = things.iter().any(|(name, _)| name.contains('\\'));
        if outcome.is_err() && ((holes && sparse) || strange) {
            return;
        }
        outcome.unwrap();
        let unpacked = gnu_tar(&["-xpzf", "../gnu.tar.gz", "--no-same-owner"], &gnu);
        assert!(unpacked.status.success(), "{unpacked:?}");
        assert_eq!(comparable(&directory.target()), comparable(&gnu));
        for (name, node) in comparable(&gnu) {
            if node == Node::Folder {
                let name = String::from_utf8(name).unwrap();
                let mode = |folder: &Path| {
                    let data = folder.join(&name).metadata().unwrap();
                    data.permissions().mode() | 0o750
                };
                assert_eq!(mode(&directory.target()), mode(&gnu), "{name}");
            }
        }
    });
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[ab]{1,2}(/[ab]{1,2}){0,2}/?".prop_map(String::into_bytes),
        1 => "(\\./|/|//)?[ab.]{1,3}(//?[ab.]{1,3}){0,2}".prop_map(String::into_bytes),
        1 => vec(1..=255_u8, 1..5),
        1 => Just(b"n".repeat(120)),
        1 => Just(b"a\n6 a=b\n".to_vec()),
    ]
}

fn size_field(length: usize) -> impl Strategy<Value = Vec<u8>> {
    let binary = {
        let mut bytes = vec![0x80, 0, 0, 0];
        bytes.extend((length as u64).to_be_bytes());
        bytes
    };
    prop_oneof![
        8 => Just(octal(length)),
        1 => Just(format!("{length:>11o} ").into_bytes()),
        1 => Just(format!("{length:o}\0").into_bytes()),
        1 => Just(binary),
        1 => select(vec![octal(0), octal(512), octal(3)]),
        1 => vec(any::<u8>(), 12),
        1 => Just(format!("+{length:o}\0").into_bytes()),
    ]
}

fn records() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        name().prop_map(|name| ("path", name)),
        select(vec!["0", "3", "512", "01", "-1", ""]).prop_map(|size| ("size", size.into())),
        select(vec!["1.5", "1000000000", "-3"]).prop_map(|time| ("mtime", time.into())),
        Just(("comment", b"x\ny".to_vec())),
        Just(("linkpath", b"elsewhere".to_vec())),
    ];
    let whole = vec(value, 0..4).prop_map(|records| {
        let records: Vec<(&str, &[u8])> = records
            .iter()
            .map(|(key, value)| (*key, value.as_slice()))
            .collect();
        pax(&records)
    });
    prop_oneof![9 => whole, 1 => "[0-9]{1,2} [a-z]{1,4}=[a-z\n]{0,4}\n".prop_map(String::into_bytes)]
}

fn block() -> impl Strategy<Value = Block> {
    let kind = prop_oneof![
        6 => Just(b'0'),
        3 => Just(b'5'),
        1 => select(b"\x00127".to_vec()),
        2 => Just(b'x'),
        1 => Just(b'g'),
        2 => Just(b'L'),
        1 => any::<u8>(),
    ];
    let magic = select(vec![Magic::V7, Magic::Ustar, Magic::Gnu]);
    let prefix = prop_oneof![5 => Just(Vec::new()), 1 => Just(b"p".to_vec())];
    let data = prop_oneof![
        3 => Just(Vec::new()),
        3 => Just(b"abc".to_vec()),
        1 => Just(vec![b'x'; 512]),
        1 => Just(Block::file("inner", "").bytes()),
    ];
    (kind, name(), name(), records(), data, magic, prefix)
        .prop_flat_map(|(kind, name, long, records, data, magic, prefix)| {
            let data = match kind {
                b'x' | b'g' => records,
                b'L' => [&long[..], b"\0"].concat(),
                b'5' | b'2' if data.len() == 3 => Vec::new(),
                _ => data,
            };
            // Links are in a folder of their own: what is below one is not compared.
            let name = if matches!(kind, b'1' | b'2') {
                b"link".to_vec()
            } else {
                name
            };
            let size = size_field(data.len());
            (Just((kind, name, data, magic, prefix)), size, 0..=0o377_u32)
        })
        .prop_map(|((kind, name, data, magic, prefix), size, mode)| Block {
            name,
            kind,
            mode: 0o400 | mode | if kind == b'5' { 0o700 } else { 0 },
            size,
            magic,
            // GNU tar creates the parents of links that we skip.
            prefix: if magic == Magic::Gnu || matches!(kind, b'1' | b'2') {
                Vec::new()
            } else {
                prefix
            },
            link: b"/nowhere".to_vec(),
            data,
        })
}

#[test]
fn random_archives_unpack_like_gnu_tar() {
    let accepted = std::cell::Cell::new(0_u32);
    many(&vec(block(), 1..6), |blocks| {
        // GNU tar creates the parents of links with another name. Both are skipped.
        let has = |kinds: &[u8]| blocks.iter().any(|block| kinds.contains(&block.kind));
        if has(b"12") && has(b"xL") {
            return;
        }
        let directory = UnpackDirectory::new();
        let packed = gzip(&tar(&blocks));
        if directory
            .unpack(&packed, &ArtifactLimits::default())
            .is_err()
        {
            return;
        }
        accepted.set(accepted.get() + 1);
        let gnu = directory.path("gnu");
        fs::create_dir(&gnu).unwrap();
        let output = gnu_tar(&["-xpzf", "../archive", "--no-same-owner"], &gnu);
        // GNU tar complains about harmless things, but the result is the same.
        assert!(output.status.code().is_some(), "{output:?}");
        assert_eq!(comparable(&directory.target()), comparable(&gnu));
    });
    assert!(accepted.get() > 0, "none was accepted");
}
