//! Where text and bytes from outside come in, for whoever tries strange ones: none may end the program, and some
//! things hold for all of them.

use std::collections::HashMap;

use super::{
    Address, Revision,
    advertisement::{self, Advertised, read_listed},
    checkout::leads_out,
    gitmodules,
    packets::Packets,
};

/// The address of a repository. One that is accepted can be read again as it is printed, and then has no user and no
/// password of its own unless it is for SSH.
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

/// The text of a field that says which commit is meant. What is accepted can be asked for.
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

/// What a server says first, and the lines of a list. Only names that a reference may have come out.
pub fn advertisement(bytes: &[u8]) {
    let mut visit = |each: &Advertised<'_>| {
        assert!(gix_validate::reference::name(each.name.into()).is_ok());
        Ok(())
    };
    let _ = advertisement::read(bytes, &mut visit);
    let mut packets = Packets::new(bytes);
    while let Ok(Some(packet)) = packets.next() {
        if let Some(line) = packet.text() {
            let _ = read_listed(line, &mut visit);
        }
    }
}

/// A file `.gitmodules`.
pub fn gitmodules(text: &str) {
    let _ = gitmodules::addresses(text);
}

/// Symbolic links in a folder: `(path, target)`. One that is said to stay inside does, as the system sees it.
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
        // a folder that is a link already is none of a tree's
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
