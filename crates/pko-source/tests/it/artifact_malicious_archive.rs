//! Malicious archives: each is rejected or harmless.

use std::{fs, os::unix::fs::PermissionsExt};

use pko_source::artifact::{ArtifactLimits, UnpackError, UnpackSummary};

use crate::artifact_harness::{Block, Node, UnpackDirectory, gzip, octal, tar, tree};

fn unpacked(blocks: &[Block]) -> (UnpackDirectory, Result<UnpackSummary, UnpackError>) {
    let directory = UnpackDirectory::new();
    let outcome = directory.unpack(&gzip(&tar(blocks)), &ArtifactLimits::default());
    (directory, outcome)
}

/// The names of the unpacked files.
fn names(blocks: &[Block]) -> Vec<String> {
    let (directory, outcome) = unpacked(blocks);
    outcome.unwrap();
    let names = tree(&directory.target()).into_keys();
    names
        .map(|name| String::from_utf8_lossy(&name).into_owned())
        .collect()
}

#[test]
fn archive_conflicting_sizes_are_rejected() {
    // A reader that trusts the record takes the second header for data of the first file. One that
    // trusts the header takes it for a file.
    let hidden = Block::file("hidden", "").bytes();
    let visible = |size: &[u8]| {
        vec![
            Block::records(&[("size", size)]),
            Block::file("visible", &hidden).with_size(&octal(0)),
        ]
    };
    let (_, outcome) = unpacked(&visible(b"512"));
    assert!(
        matches!(outcome, Err(UnpackError::Malformed(_))),
        "{outcome:?}"
    );
    // The last of two records counts. Here all agree.
    assert_eq!(names(&visible(b"0")), ["hidden", "visible"]);
    let twice = [
        Block::records(&[("size", b"512"), ("size", b"3")]),
        Block::file("a", "abc"),
    ];
    assert_eq!(names(&twice), ["a"]);
}

#[test]
fn archive_data_of_folders_and_links_is_rejected() {
    let hidden = Block::file("hidden", "").bytes();
    for kind in *b"52" {
        let (_, outcome) = unpacked(&[Block::new(kind, "a", &hidden)]);
        assert!(
            matches!(outcome, Err(UnpackError::Malformed(_))),
            "{outcome:?}"
        );
    }
    let (_, outcome) = unpacked(&[Block::file("folder/", &hidden)]);
    assert!(
        matches!(outcome, Err(UnpackError::Malformed(_))),
        "{outcome:?}"
    );
}

#[test]
fn archive_ambiguous_numbers_are_rejected() {
    let table: [&[u8]; 5] = [
        b"+0000000003\0",
        b"\0\x30\x30\x33\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\x01\0\0\0\0\0\0\0\x03",
        b"3 5 7",
    ];
    for size in table {
        let (_, outcome) = unpacked(&[Block::file("a", "abc").with_size(size)]);
        let refused = matches!(
            outcome,
            Err(UnpackError::Malformed(_) | UnpackError::Read(_))
        );
        assert!(refused, "{size:?}: {outcome:?}");
    }
    let binary = b"\x80\0\0\0\0\0\0\0\0\0\0\x03";
    assert_eq!(names(&[Block::file("a", "abc").with_size(binary)]), ["a"]);
}

#[test]
fn archive_names_stay_inside_target() {
    let outward: [&[u8]; 9] = [
        b"../evil",
        b"/evil",
        b"a/../../evil",
        b"a/..",
        b"a\\..\\evil",
        b".",
        b"./",
        b"./.",
        b"a/.",
    ];
    for name in outward {
        let plain = vec![Block::file(name, "x")];
        let record = vec![Block::records(&[("path", name)]), Block::file("a", "x")];
        let long = vec![Block::long_name(name), Block::file("a", "x")];
        for blocks in [plain, record, long] {
            let (_, outcome) = unpacked(&blocks);
            let refused = matches!(
                outcome,
                // A file whose name ends with a slash is a folder, and has data.
                Err(UnpackError::BadName(_) | UnpackError::Malformed(_))
            );
            assert!(refused, "{}: {outcome:?}", String::from_utf8_lossy(name));
        }
    }
    let mut parts = Block::file("evil", "x");
    parts.prefix = b"..".to_vec();
    let (_, outcome) = unpacked(&[parts]);
    assert!(
        matches!(outcome, Err(UnpackError::BadName(_))),
        "{outcome:?}"
    );
    assert_eq!(
        names(&[Block::file("./a//b/./c", "x")]),
        ["a", "a/b", "a/b/c"]
    );
}

#[test]
fn archive_names_need_not_be_utf8() {
    let (directory, outcome) = unpacked(&[Block::file(b"caf\xe9\n", "x")]);
    outcome.unwrap();
    let names: Vec<Vec<u8>> = tree(&directory.target()).into_keys().collect();
    assert_eq!(names, [b"caf\xe9\n"]);
    let lines = [
        Block::records(&[("path", b"two\nlines")]),
        Block::file("a", "x"),
    ];
    assert_eq!(self::names(&lines), ["two\nlines"]);
    let cut = [
        Block::records(&[("path", b"good\0evil")]),
        Block::file("a", "x"),
    ];
    assert!(unpacked(&cut).1.is_err());
}

#[test]
fn archive_long_names_are_limited() {
    let deep = "d/".repeat(200) + "file";
    let (directory, outcome) = unpacked(&[Block::long_name(&deep), Block::file("a", "x")]);
    outcome.unwrap();
    assert!(directory.target().join(&deep).is_file());
    for name in ["d/".repeat(300) + "file", "x".repeat(3000)] {
        let (_, outcome) = unpacked(&[Block::long_name(&name), Block::file("a", "x")]);
        let error = outcome.unwrap_err();
        assert!(matches!(error, UnpackError::LongName(_)), "{error}");
        assert!(error.to_string().len() < 400, "{error}");
    }
    // Two megabytes of zeros after a name.
    let block = Block::long_name(vec![0; 2 << 20]);
    let (_, outcome) = unpacked(&[block, Block::file("a", "x")]);
    assert!(matches!(outcome, Err(UnpackError::LongDescription)));
}

#[test]
fn archive_misplaced_extended_headers_are_rejected() {
    let path = |name: &'static [u8]| Block::records(&[("path", name)]);
    let bad = [
        vec![path(b"a")],
        vec![Block::long_name("a")],
        vec![path(b"a"), path(b"b"), Block::file("c", "")],
        vec![
            Block::long_name("a"),
            Block::long_name("b"),
            Block::file("c", ""),
        ],
        vec![path(b"a"), Block::long_name("b"), Block::file("c", "")],
        vec![Block::new(b'L', "L", "name"), Block::file("c", "")],
        vec![Block::new(b'g', "g", b"10 path=a\n"), Block::file("c", "")],
        // Readers disagree about whether the first time still counts.
        vec![
            Block::new(b'g', "g", b"13 mtime=1.5\n"),
            Block::new(b'g', "g", b""),
            Block::file("c", ""),
        ],
        vec![Block::new(b'x', "x", b"99 path=a\n"), Block::file("c", "")],
        vec![
            Block::records(&[("GNU.sparse.major", b"1")]),
            Block::file("c", ""),
        ],
    ];
    for blocks in bad {
        let (_, outcome) = unpacked(&blocks);
        let refused = matches!(
            outcome,
            Err(UnpackError::Malformed(_) | UnpackError::BadKind(_))
        );
        assert!(refused, "{blocks:?}: {outcome:?}");
    }
    // As `git archive` writes it.
    let comment = Block::new(b'g', "pax_global_header", b"13 comment=x\n");
    assert_eq!(names(&[comment, Block::file("c", "")]), ["c"]);
}

#[test]
fn archive_links_and_devices_are_rejected_or_skipped() {
    for kind in *b"1346SVMNDXAz\x7f" {
        let mut block = Block::new(kind, "name", "");
        block.link = b"/etc/passwd".to_vec();
        let (_, outcome) = unpacked(&[Block::file("a", "x"), block]);
        let refused = matches!(&outcome, Err(UnpackError::BadKind(name)) if name == "name");
        assert!(refused, "{kind}: {outcome:?}");
    }
    let mut link = Block::new(b'2', "link", "");
    link.link = b"/etc".to_vec();
    let (directory, outcome) = unpacked(&[link, Block::file("link", "x")]);
    assert_eq!(outcome.unwrap().links, 1);
    assert!(!directory.target().join("link").is_symlink());
    assert_eq!(fs::read(directory.target().join("link")).unwrap(), b"x");
}

#[test]
fn archive_modes_are_restricted() {
    let (directory, outcome) = unpacked(&[
        Block::file("setuid", "x").with_mode(0o6755),
        Block::folder("sticky").with_mode(0o1777),
        Block::folder("closed").with_mode(0o000),
        Block::file("closed/inner", "x").with_mode(0o000),
    ]);
    outcome.unwrap();
    let mode = |name: &str| {
        let data = directory.target().join(name).metadata().unwrap();
        data.permissions().mode() & 0o7777
    };
    assert_eq!(mode("setuid"), 0o755);
    assert_eq!(mode("sticky"), 0o777);
    assert_eq!(mode("closed"), 0o750);
    assert_eq!(mode("closed/inner"), 0o000);
}

#[test]
fn archive_last_duplicate_wins() {
    let (directory, outcome) = unpacked(&[
        Block::file("a", "first").with_mode(0o000),
        Block::file("./a", "second"),
        Block::folder("b"),
        Block::folder("b/"),
    ]);
    outcome.unwrap();
    let found = tree(&directory.target());
    assert!(matches!(&found[b"a".as_slice()], Node::File { content, .. } if content == b"second"));
    let both = [
        [Block::file("a", "x"), Block::folder("a")],
        [Block::folder("a"), Block::file("a", "x")],
        [Block::file("a", "x"), Block::file("a/b", "x")],
        [Block::file("a", "x"), Block::folder("a/b/c")],
        [Block::file("a/b", "x"), Block::file("a", "x")],
    ];
    for blocks in both {
        let (_, outcome) = unpacked(&blocks);
        assert!(
            matches!(outcome, Err(UnpackError::Both(_))),
            "{blocks:?}: {outcome:?}"
        );
    }
}

#[test]
fn archive_truncated_is_rejected() {
    let whole = tar(&[Block::file("a", "x".repeat(3000)), Block::file("b", "y")]);
    for length in [100, 512, 600, 3000, 4000] {
        let directory = UnpackDirectory::new();
        let outcome = directory.unpack(&gzip(&whole[..length]), &ArtifactLimits::default());
        assert!(
            matches!(outcome, Err(UnpackError::Read(_))),
            "{length}: {outcome:?}"
        );
    }
    let packed = gzip(&whole);
    for length in [0, 5, 20, packed.len() / 2] {
        let directory = UnpackDirectory::new();
        let outcome = directory.unpack(&packed[..length], &ArtifactLimits::default());
        assert!(
            matches!(outcome, Err(UnpackError::Read(_))),
            "{length}: {outcome:?}"
        );
    }
    // GNU tar accepts a missing end marker.
    let directory = UnpackDirectory::new();
    let outcome = directory.unpack(
        &gzip(&whole[..whole.len() - 1024]),
        &ArtifactLimits::default(),
    );
    assert_eq!(outcome.unwrap().entries, 2);
}

#[test]
fn archive_gzip_streams_are_joined_until_the_end() {
    let whole = tar(&[Block::file("a", "x".repeat(3000)), Block::file("b", "y")]);
    let (start, end) = whole.split_at(1000);
    let joined = [gzip(start), gzip(end), b"garbage".to_vec()].concat();
    let directory = UnpackDirectory::new();
    let outcome = directory.unpack(&joined, &ArtifactLimits::default());
    assert_eq!(outcome.unwrap().entries, 2);
    let more = [whole, tar(&[Block::file("c", "z")])].concat();
    let directory = UnpackDirectory::new();
    let outcome = directory.unpack(&gzip(&more), &ArtifactLimits::default());
    assert_eq!(outcome.unwrap().entries, 2);
}

#[test]
fn archive_limits_are_checked_before_writing() {
    let limits = ArtifactLimits {
        entries: 3,
        ..ArtifactLimits::for_unpacked(Some(10))
    };
    let directory = UnpackDirectory::new();
    // Only the header declares this size.
    let huge = Block::file("huge", "").with_size(b"777777777777");
    let outcome = directory.unpack(&gzip(&tar(&[huge])), &limits);
    assert!(matches!(outcome, Err(UnpackError::TooBig(10))));
    assert!(!directory.target().join("huge").exists());

    let directory = UnpackDirectory::new();
    let many: Vec<Block> = (0..4).map(|n| Block::folder(format!("{n}"))).collect();
    let outcome = directory.unpack(&gzip(&tar(&many)), &limits);
    assert!(matches!(outcome, Err(UnpackError::TooMany(3))));
    assert!(!directory.target().join("3").exists());

    let zero = ArtifactLimits::for_unpacked(Some(0));
    let outcome = UnpackDirectory::new().unpack(&gzip(&tar(&[Block::file("a", "")])), &zero);
    assert_eq!(outcome.unwrap().bytes, 0);
    let outcome = UnpackDirectory::new().unpack(&gzip(&tar(&[Block::file("a", "x")])), &zero);
    assert!(matches!(outcome, Err(UnpackError::TooBig(0))));
}
