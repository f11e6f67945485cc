//! Memory use while unpacking.
//!
//! The tests run this test binary again, so that only unpacking is measured.

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
    artifact::{ArtifactLimits, unpack},
};

use crate::artifact_harness::{Block, gzip, octal};

/// For the whole process.
const LARGEST: u64 = 64 << 20;
/// The archive to unpack, for the child process.
const VARIABLE: &str = "PKO_TEST_UNPACK";

fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

/// Runs in the child process: unpacks, and prints the outcome and the memory used.
#[test]
fn unpack_and_measure() {
    let Some(folder) = std::env::var_os(VARIABLE) else {
        return;
    };
    let folder = Path::new(&folder);
    let entries = fs::read_to_string(folder.join("entries")).unwrap();
    let limits = ArtifactLimits {
        entries: entries.parse().unwrap(),
        ..ArtifactLimits::default()
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

/// The outcome in a child process, whose memory is checked. The written data is already compressed.
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
    let (peak, outcome_text) = result.split_once('\n').unwrap();
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < LARGEST, "{peak} bytes: {outcome_text}");
    outcome_text.to_owned()
}

/// A compressed header that declares this size.
fn head(mut block: Block, size: u64) -> Vec<u8> {
    block.size = octal(usize::try_from(size).unwrap());
    gzip(&block.bytes())
}

#[test]
fn unpack_bombs_memory_is_bounded() {
    const GIGABYTE: u64 = 1 << 30;
    // Compressed once and repeated: a file may have several gzip streams.
    let zeros = gzip(&vec![0; 1 << 20]);
    let bomb = |block: &Block| {
        outcome(10, |to| {
            to.write_all(&head(block.clone(), GIGABYTE))?;
            (0..1024).try_for_each(|_| to.write_all(&zeros))
        })
    };
    let outcome_text = bomb(&Block::file("a", ""));
    assert!(
        outcome_text.contains("bigger than max archive size"),
        "{outcome_text}"
    );
    // Not files: a long name, pax records for the next member and for all, a link, a folder.
    for kind in *b"LKxg25" {
        let outcome_text = bomb(&Block::new(kind, "a", ""));
        let refused = outcome_text.contains("extended header of the archive is too long")
            || outcome_text.contains("two sizes");
        assert!(refused, "{outcome_text}");
    }
    // Many extended headers, each of the maximum length.
    let outcome_text = outcome(1000, |to| {
        let mut name = b"folder".to_vec();
        name.resize((1 << 20) - 1, 0);
        let described = [Block::long_name(name).bytes(), Block::folder("a").bytes()];
        let described = gzip(&described.concat());
        (0..300).try_for_each(|_| to.write_all(&described))
    });
    assert!(
        outcome_text.contains("extended header of the archive is too long"),
        "{outcome_text}"
    );
}

#[test]
fn unpack_million_entries_memory_is_bounded() {
    let full = std::env::var_os("PKO_FULL").is_some();
    let limit: u64 = if full { 1_000_000 } else { 3000 };
    let write = |count: u64| {
        move |to: &mut dyn Write| {
            let mut to = GzEncoder::new(to, Compression::fast());
            for number in 0..count {
                // A thousand per folder.
                let name = format!("folder-{}/file-{number}", number / 1000);
                to.write_all(&Block::file(name, "").bytes())?;
            }
            to.finish().map(drop)
        }
    };
    assert_eq!(outcome(limit, write(limit)), format!("{limit} entries"));
    let outcome_text = outcome(limit, write(limit + 1));
    assert_eq!(
        outcome_text,
        format!("the archive has more than {limit} entries")
    );
}
