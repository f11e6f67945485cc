//! What an archive costs in memory, whatever is in it. The test runs itself again as a process of its own,
//! so that only what is unpacked counts.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    process::Command,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use pko_source::{
    Deadline,
    artifact::{Limits, unpack},
};

use crate::artifact_archive::{Block, gzip, octal};

/// What a process may need in all; the program itself is a part of it.
const LARGEST: u64 = 64 << 20;
/// Tells the process what to unpack.
const VARIABLE: &str = "PKO_TEST_UNPACK";

/// The most memory that the process had at any time.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

/// Only of use with the variable: unpacks, and prints how that went and what it cost.
#[test]
fn unpack_and_measure() {
    let Some(folder) = std::env::var_os(VARIABLE) else {
        return;
    };
    let folder = Path::new(&folder);
    let entries = fs::read_to_string(folder.join("entries")).unwrap();
    let limits = Limits {
        entries: entries.parse().unwrap(),
        ..Limits::default()
    };
    let deadline = Deadline::after(Duration::from_mins(10));
    let outcome = unpack(
        &folder.join("archive"),
        &folder.join("target"),
        &limits,
        deadline,
    );
    let outcome = match outcome {
        Ok(unpacked) => format!("{} entries", unpacked.entries),
        Err(error) => error.to_string(),
    };
    fs::write(
        folder.join("result"),
        format!("{}\n{outcome}", peak_memory()),
    )
    .unwrap();
}

/// How it went in a process of its own, whose memory is bounded. What is written is packed already.
fn outcome(entries: u64, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut file = BufWriter::new(File::create(folder.path().join("archive")).unwrap());
    write(&mut file).unwrap();
    file.flush().unwrap();
    fs::write(folder.path().join("entries"), entries.to_string()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "artifact_memory::unpack_and_measure"])
        .env(VARIABLE, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let result = fs::read_to_string(folder.path().join("result")).unwrap();
    let (peak, said) = result.split_once('\n').unwrap();
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < LARGEST, "{peak} bytes: {said}");
    said.to_owned()
}

/// A header that says it has so many bytes, packed.
fn head(mut block: Block, size: u64) -> Vec<u8> {
    block.size = octal(usize::try_from(size).unwrap());
    gzip(&block.bytes())
}

#[test]
fn bombs() {
    const GIGABYTE: u64 = 1 << 30;
    // Packed once, and then there again and again: a file may have several packed parts.
    let zeros = gzip(&vec![0; 1 << 20]);
    let bomb = |block: &Block| {
        outcome(10, |to| {
            to.write_all(&head(block.clone(), GIGABYTE))?;
            (0..1024).try_for_each(|_| to.write_all(&zeros))
        })
    };
    let said = bomb(&Block::file("a", ""));
    assert!(said.contains("bigger than max archive size"), "{said}");
    // What is no file: a name, a description of the next entry, one of all, a link, a folder.
    for kind in *b"LKxg25" {
        let said = bomb(&Block::new(kind, "a", ""));
        let refused = said.contains("too long a description") || said.contains("two sizes");
        assert!(refused, "{said}");
    }
    // Many descriptions, each of them as long as it may be.
    let said = outcome(1000, |to| {
        let mut name = b"folder".to_vec();
        name.resize((1 << 20) - 1, 0);
        let described = [Block::long_name(name).bytes(), Block::folder("a").bytes()];
        let described = gzip(&described.concat());
        (0..300).try_for_each(|_| to.write_all(&described))
    });
    assert!(said.contains("too long a description"), "{said}");
}

#[test]
fn a_million_entries() {
    let full = std::env::var_os("PKO_FULL").is_some();
    let limit: u64 = if full { 1_000_000 } else { 3000 };
    let write = |count: u64| {
        move |to: &mut dyn Write| {
            let mut to = GzEncoder::new(to, Compression::fast());
            for number in 0..count {
                // A thousand to a folder, each with a name of its own.
                let name = format!("folder-{}/file-{number}", number / 1000);
                to.write_all(&Block::file(name, "").bytes())?;
            }
            to.finish().map(drop)
        }
    };
    assert_eq!(outcome(limit, write(limit)), format!("{limit} entries"));
    let said = outcome(limit, write(limit + 1));
    assert_eq!(said, format!("the archive has more than {limit} entries"));
}
