//! Entry points for fuzzing of git's texts and wire formats.
//!
//! No input may panic, and the assertions hold for every input.

use std::{collections::HashMap, time::Duration};

use super::{
    Address, GitLimits, Revision,
    advertisement::{self, AdvertisedReference, read_ls_refs_line},
    checkout::leads_out,
    gitmodules,
    pack::{PackDestination, PackObjects},
    pkt_line::PacketReader,
};
use crate::Deadline;

/// Parses an address. An accepted address can be parsed again as printed, without credentials
/// unless it is SSH.
pub fn address(text: &str) {
    let Ok(address) = Address::parse(text) else {
        return;
    };
    let printed = address.to_string();
    assert!(
        !address.host().is_empty() && !address.host().starts_with('-'),
        "{text:?}"
    );
    assert!(!address.path().starts_with('-'), "{text:?}");
    assert!(!printed.chars().any(char::is_control), "{text:?}");
    let again = Address::parse(&printed);
    let again =
        again.unwrap_or_else(|error| unreachable!("{text:?} is printed as {printed:?}: {error}"));
    assert_eq!(again.password(), None, "{text:?}");
    assert_eq!(again.to_string(), printed, "{text:?}");
    assert!(again.same_server(&address), "{text:?}");
    for location in ["/x/info/refs", text] {
        if let Some(moved) = address.redirected(location, "/info/refs") {
            assert!(
                moved.same_server(&address) || moved.user().is_none(),
                "{text:?}"
            );
        }
    }
}

/// Parses a revision. An accepted revision is a valid reference name.
pub fn revision(text: &str) {
    let Ok(revision) = Revision::parse(text) else {
        return;
    };
    for name in revision.candidates() {
        assert!(name == "HEAD" || name.starts_with("refs/"), "{text:?}");
        assert!(
            !name.chars().any(|each| each.is_control() || each == ' '),
            "{text:?}"
        );
        assert!(
            gix_validate::reference::name(name.as_str().into()).is_ok(),
            "{text:?}"
        );
    }
    assert_eq!(
        Revision::parse(&revision.to_string()),
        Ok(revision),
        "{text:?}"
    );
}

/// Parses an advertisement and the lines of a list. Only valid names are visited.
pub fn advertisement(bytes: &[u8]) {
    let mut visit = |each: &AdvertisedReference<'_>| {
        assert!(gix_validate::reference::name(each.name.into()).is_ok());
        Ok(())
    };
    let _ = advertisement::read(bytes, &mut visit);
    let mut packets = PacketReader::new(bytes);
    while let Ok(Some(packet)) = packets.next() {
        if let Some(line) = packet.text() {
            let _ = read_ls_refs_line(line, &mut visit);
        }
    }
}

pub fn gitmodules(text: &str) {
    let _ = gitmodules::addresses(text);
}

/// An object of a pack, not necessarily a valid one.
#[derive(Debug, Clone)]
pub struct PackedObject {
    /// 1 to 4 for whole objects, 6 and 7 for deltas.
    pub kind: u8,
    /// The declared size.
    pub size: u16,
    /// The offset of a delta's base.
    pub back: u8,
    pub data: Vec<u8>,
}

/// Reads a pack. Either it is rejected, or every object can be read.
pub fn pack(objects: &[PackedObject]) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let place = PackDestination {
        folder: folder.path(),
        address: "fuzz",
        hash: gix_hash::Kind::Sha1,
        limits: GitLimits {
            object_bytes: 64 << 10,
            ..GitLimits::default()
        },
        deadline: Deadline::after(Duration::from_mins(1)),
    };
    let bytes = packed(objects);
    if let Ok(Some(mut objects)) = PackObjects::receive(&mut bytes.as_slice(), &place) {
        for id in objects.ids() {
            assert!(
                matches!(objects.find(&id), Ok(Some(_))),
                "{id} can't be read"
            );
        }
    }
}

fn packed(objects: &[PackedObject]) -> Vec<u8> {
    let count = u32::try_from(objects.len()).unwrap_or_default();
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend(count.to_be_bytes());
    for PackedObject {
        kind,
        size,
        back,
        data,
    } in objects
    {
        let [high, low] = size.to_be_bytes();
        // Four bits of the size, then seven, then seven.
        bytes.push(0x80 | (kind & 7) << 4 | low & 15);
        bytes.push(0x80 | (low >> 4) | (high & 7) << 4);
        bytes.push(high >> 3);
        match kind & 7 {
            6 => bytes.push(back & 0x7f),
            7 => bytes.extend([*back; 20]),
            _ => {}
        }
        bytes.extend(stored(data));
    }
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(&bytes);
    if let Ok(checksum) = hasher.try_finalize() {
        bytes.extend_from_slice(checksum.as_bytes());
    }
    bytes
}

/// Zlib's stored block.
fn stored(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap_or_default();
    let mut bytes = vec![0x78, 0x01, 0x01];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend_from_slice(data);
    let (low, high) = data.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    bytes.extend((high << 16 | low).to_be_bytes());
    bytes
}

/// Checks links, given as `(path, target)`. The kernel agrees about each link that is accepted.
pub fn links(links: &[(String, String)]) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let Ok(folder) = folder.path().canonicalize().map(|path| (folder, path)) else {
        return;
    };
    let root = folder.1.join("root");
    let mut made: HashMap<&[u8], &[u8]> = HashMap::new();
    for (path, target) in links {
        let place = root.join(path);
        let parent = place.parent().unwrap_or(&root);
        // A tree has no entries below a link.
        let is_made = std::fs::create_dir_all(parent).is_ok()
            && parent.canonicalize().is_ok_and(|found| found == parent)
            && std::os::unix::fs::symlink(target, &place).is_ok();
        if is_made {
            made.insert(path.as_bytes(), target.as_bytes());
        }
    }
    for path in made.keys().filter(|path| !leads_out(path, &made)) {
        let place = root.join(String::from_utf8_lossy(path).as_ref());
        if let Ok(found) = place.canonicalize() {
            assert!(found.starts_with(&root), "{links:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_pack_builder_creates_valid_packs() {
        let folder = tempfile::tempdir().unwrap();
        let place = PackDestination {
            folder: folder.path(),
            address: "test",
            hash: gix_hash::Kind::Sha1,
            limits: GitLimits::default(),
            deadline: Deadline::after(Duration::from_mins(1)),
        };
        let object = |kind, back, data: &[u8]| PackedObject {
            kind,
            size: u16::try_from(data.len()).unwrap(),
            back,
            data: data.to_vec(),
        };
        // The second is the first with an exclamation mark appended.
        let bytes = packed(&[
            object(3, 0, b"hello"),
            object(6, 19, b"\x05\x06\x90\x05\x01!"),
        ]);
        let mut objects = PackObjects::receive(&mut bytes.as_slice(), &place)
            .unwrap()
            .unwrap();
        let mut contents: Vec<_> = objects
            .ids()
            .iter()
            .map(|id| objects.find(id).unwrap().unwrap().1.to_vec())
            .collect();
        contents.sort();
        assert_eq!(contents, [&b"hello"[..], b"hello!"]);
    }
}
