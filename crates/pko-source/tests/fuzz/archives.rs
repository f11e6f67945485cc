//! Archives, valid and corrupted.

use pko_testkit::fuzz_timed;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

/// A valid archive.
fn packed(names: &[(String, u8, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, content) in names {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::new(*kind));
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if builder
            .append_data(&mut header, name, &content[..])
            .is_err()
        {
            return Vec::new();
        }
    }
    builder.into_inner().unwrap()
}

/// Fixes the header's checksum, so that the reader gets past it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    for block in bytes.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    bytes
}

#[test]
fn archives() {
    let kind = prop_oneof![6 => Just(b'0'), 2 => Just(b'5'), 1 => Just(b'x'), 1 => any::<u8>()];
    let name = prop_oneof!["[a-c/.]{1,8}", "[a-c]/[a-z]{120,200}", any::<String>()];
    let content = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..8),
        "[0-9]{1,2} (path|size|mtime)=[a-z0-9./]{0,6}\n".prop_map(String::into_bytes),
    ];
    let entry = (name, kind, content);
    let archive = proptest::collection::vec(entry, 0..6).prop_map(|entries| packed(&entries));
    // Changes some bytes.
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let damaged = (archive, changes, any::<bool>());
    let damaged = damaged.prop_map(|(mut bytes, changes, seal)| {
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if seal { sealed(bytes) } else { bytes }
    });
    let any_bytes = proptest::collection::vec(any::<u8>(), 0..2000);
    let bytes = prop_oneof![8 => damaged, 1 => any_bytes];
    fuzz_timed(&bytes, |bytes| pko_source::fuzz::archive(&bytes));
}
