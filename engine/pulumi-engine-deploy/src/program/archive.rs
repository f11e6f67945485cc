//! Assets and archives: files, strings and folders as values, identified by the hash of their
//! content.
//!
//! The hash of a folder or of a map of assets is that of a tar archive, byte for byte as Pulumi
//! writes it: Go's `archive/tar`, mode 0600, no times, no owners. Otherwise states of Pulumi would
//! differ from those of this engine.

use std::{collections::BTreeSet, io::Read as _};

use pulumi_engine_model::property::{ARCHIVE_SIGNATURE, ASSET_SIGNATURE, SIGNATURE_KEY};
use ring::digest::{Context, SHA256, digest};

use super::{files::Files, value::Value};

/// File extensions of archives.
const ENDINGS: [&str; 5] = [".tar", ".tgz", ".tar.gz", ".zip", ".jar"];
/// Size of a tar block.
const BLOCK: usize = 512;

/// An asset from a string.
#[must_use]
pub(super) fn text(text: &str) -> Value {
    let hash = hex::encode(digest(&SHA256, text.as_bytes()));
    signed_value(ASSET_SIGNATURE, hash, "text", text)
}

/// An asset from a file.
pub(super) fn file(path: &str, files: &dyn Files) -> Result<Value, String> {
    let hash = hex::encode(digest(&SHA256, &files.read(path)?));
    Ok(signed_value(ASSET_SIGNATURE, hash, "path", path))
}

/// An asset from a URL.
pub(super) fn remote(address: &str, files: &dyn Files) -> Result<Value, String> {
    let hash = hex::encode(digest(&SHA256, &fetch(address, files)?));
    Ok(signed_value(ASSET_SIGNATURE, hash, "uri", address))
}

/// An archive from a folder or an archive file.
pub(super) fn folder(path: &str, files: &dyn Files) -> Result<Value, String> {
    let hash = if is_archive(path) {
        hex::encode(digest(&SHA256, &files.read(path)?))
    } else {
        hash(folder_members(path, files)?)
    };
    Ok(signed_value(ARCHIVE_SIGNATURE, hash, "path", path))
}

/// An archive from a URL.
pub(super) fn remote_archive(address: &str, files: &dyn Files) -> Result<Value, String> {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    if !is_archive(path) {
        return Err(format!(
            "file at URL {address:?} is not a recognized archive format"
        ));
    }
    let hash = hex::encode(digest(&SHA256, &fetch(address, files)?));
    Ok(signed_value(ARCHIVE_SIGNATURE, hash, "uri", address))
}

/// An archive of named assets and archives.
pub(super) fn members(value: &Value, files: &dyn Files) -> Result<Value, String> {
    let Value::Object(entries) = value else {
        return Err("fn::assetArchive needs a map of assets and archives".to_owned());
    };
    let mut all = Vec::new();
    for (name, member) in entries {
        expand(name, member, files, &mut all)?;
    }
    let entry = |key: &str, value| (key.to_owned(), value);
    Ok(Value::Object(
        [
            entry(SIGNATURE_KEY, Value::String(ARCHIVE_SIGNATURE.to_owned())),
            entry("assets", value.clone()),
            entry("hash", Value::String(hash(all))),
        ]
        .into(),
    ))
}

/// The representation in states and events. As in Pulumi, empty fields are omitted.
fn signed_value(signature: &str, hash: String, place: &str, content: &str) -> Value {
    let mut entries = vec![
        (
            SIGNATURE_KEY.to_owned(),
            Value::String(signature.to_owned()),
        ),
        ("hash".to_owned(), Value::String(hash)),
    ];
    if !content.is_empty() {
        entries.push((place.to_owned(), Value::String(content.to_owned())));
    }
    Value::Object(entries.into_iter().collect())
}

fn is_archive(path: &str) -> bool {
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn fetch(address: &str, files: &dyn Files) -> Result<Vec<u8>, String> {
    match address.split_once("://") {
        Some(("http" | "https", _)) => files.download(address),
        Some(("file", path)) => files.read(path),
        _ => Err(format!(
            "unrecognized or unsupported URI scheme of {address:?}: there are http, https and file"
        )),
    }
}

type Member = (String, Vec<u8>);

fn folder_members(path: &str, files: &dyn Files) -> Result<Vec<Member>, String> {
    let names = files
        .list(path)?
        .ok_or_else(|| format!("{path:?} is neither a recognized archive type nor a directory"))?;
    names
        .into_iter()
        .map(|name| {
            let content = files.read(&format!("{}/{name}", path.trim_end_matches('/')))?;
            Ok((name, content))
        })
        .collect()
}

/// Adds a member under its name, or the members of an archive under its folder.
fn expand(
    name: &str,
    member: &Value,
    files: &dyn Files,
    all: &mut Vec<Member>,
) -> Result<(), String> {
    let Value::Object(entries) = member else {
        return Err(format!(
            "archive member {name:?} is no asset and no archive"
        ));
    };
    let field = |key: &str| match entries.get(key) {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let content = match (field("path"), field("uri")) {
        (Some(path), _) if !is_archive(path) && field(SIGNATURE_KEY) == Some(ARCHIVE_SIGNATURE) => {
            let below = folder_members(path, files)?;
            all.extend(
                below
                    .into_iter()
                    .map(|(inner, content)| (join(name, &inner), content)),
            );
            return Ok(());
        }
        (Some(path), _) => files.read(path)?,
        (None, Some(address)) => fetch(address, files)?,
        (None, None) => field("text").unwrap_or_default().as_bytes().to_vec(),
    };
    if field(SIGNATURE_KEY) == Some(ASSET_SIGNATURE) {
        all.push((name.to_owned(), content));
        return Ok(());
    }
    if let Some(Value::Object(inner)) = entries.get("assets") {
        for (inner, member) in inner {
            expand(&join(name, inner), member, files, all)?;
        }
        return Ok(());
    }
    let place = field("path").or(field("uri")).unwrap_or_default();
    for (inner, content) in unpacked(place, &content)? {
        all.push((join(name, &inner), content));
    }
    Ok(())
}

/// Joins names as Go's `path.Join` does: no empty parts, no dots.
fn join(outer: &str, inner: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in outer.split('/').chain(inner.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => _ = parts.pop(),
            other => parts.push(other),
        }
    }
    let root = if outer.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The files of an archive file inside of an archive.
fn unpacked(place: &str, content: &[u8]) -> Result<Vec<Member>, String> {
    let failed = |error: std::io::Error| format!("failed to read archive {place:?}: {error}");
    let path = place.split(['?', '#']).next().unwrap_or(place);
    let mut plain = Vec::new();
    let is = |ending: &&str| path.ends_with(*ending);
    if is(&".tar") {
        plain.extend_from_slice(content);
    } else if [".tgz", ".tar.gz"].iter().any(is) {
        flate2::read::MultiGzDecoder::new(content)
            .read_to_end(&mut plain)
            .map_err(failed)?;
    } else {
        return Err(format!(
            "ZIP archive {place:?} inside of fn::assetArchive is not supported by pulumi-engine; use an image with Pulumi's CLI"
        ));
    }
    let mut members = Vec::new();
    for entry in tar::Archive::new(plain.as_slice())
        .entries()
        .map_err(failed)?
    {
        let mut entry = entry.map_err(failed)?;
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(failed)?;
        members.push((join("", &name), content));
    }
    Ok(members)
}

/// The hash of a tar archive. Of files with the same name, it has the first.
fn hash(members: Vec<Member>) -> String {
    let mut tar = Context::new(&SHA256);
    let mut seen = BTreeSet::new();
    for (name, content) in members {
        if !seen.insert(name.clone()) {
            continue;
        }
        tar.update(&header(&name, content.len()));
        tar.update(&content);
        tar.update(&padding(content.len()));
    }
    tar.update(&[0; 2 * BLOCK]);
    hex::encode(tar.finish())
}

fn padding(length: usize) -> Vec<u8> {
    vec![0; length.next_multiple_of(BLOCK) - length]
}

/// The header of a file. A long or non-ASCII name is in a PAX record before it.
fn header(name: &str, size: usize) -> Vec<u8> {
    if let Some((prefix, rest)) = split_name(name).filter(|_| name.is_ascii()) {
        return block(prefix, rest, 0o600, size, b'0', true);
    }
    let record = record(name);
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let beside = truncated(&join(folder, &format!("PaxHeaders.0/{file}")));
    let mut bytes = block(
        "",
        beside.trim_end_matches('/'),
        0,
        record.len(),
        b'x',
        false,
    );
    bytes.extend_from_slice(record.as_bytes());
    bytes.extend(padding(record.len()));
    bytes.extend(block("", &truncated(name), 0o600, size, b'0', true));
    bytes
}

/// As much of a name as fits, in ASCII.
fn truncated(name: &str) -> String {
    name.chars().filter(char::is_ascii).take(100).collect()
}

/// `length path=name\n`, where the length counts its own digits.
fn record(name: &str) -> String {
    let rest = format!(" path={name}\n");
    let mut length = rest.len();
    loop {
        let whole = rest.len() + length.to_string().len();
        if whole == length {
            return format!("{length}{rest}");
        }
        length = whole;
    }
}

/// The prefix and name fields of ustar, if the name fits.
fn split_name(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let window = name.trim_end_matches('/').get(..name.len().min(156))?;
    let (prefix, _) = window.rsplit_once('/')?;
    let rest = name.get(prefix.len() + 1..)?;
    let fits = !prefix.is_empty() && prefix.len() <= 155 && !rest.is_empty() && rest.len() <= 100;
    fits.then_some((prefix, rest))
}

fn block(prefix: &str, name: &str, mode: u32, size: usize, kind: u8, devices: bool) -> Vec<u8> {
    let number = |value: usize, width: usize| format!("{value:0width$o}\0").into_bytes();
    let device = |set: bool| if set { number(0, 7) } else { vec![0; 8] };
    let text = |value: &str, width: usize| {
        let mut bytes = value.as_bytes().to_vec();
        bytes.resize(width, 0);
        bytes
    };
    let before = [
        text(name, 100),
        number(mode as usize, 7),
        number(0, 7),
        number(0, 7),
        number(size, 11),
        number(0, 11),
    ]
    .concat();
    let after = [
        vec![kind],
        text("", 100),
        b"ustar\x0000".to_vec(),
        text("", 64),
        device(devices),
        device(devices),
        text(prefix, 155),
        text("", 12),
    ]
    .concat();
    let sum: usize = before
        .iter()
        .chain(&after)
        .map(|byte| usize::from(*byte))
        .sum();
    let checksum = format!("{:06o}\0 ", sum + 8 * usize::from(b' ')).into_bytes();
    [before, checksum, after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::files::InMemory;
    use serde_json::{Value as Json, json};

    fn field(value: &Value, key: &str) -> Json {
        value.plain_json()[key].clone()
    }

    #[test]
    fn asset_hash_is_that_of_its_content() {
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let of = |place: &str, value: &str| json!({"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "hash": hash, place: value});
        let files = InMemory::from([("notes", "hello"), ("https://x/y", "hello")]);
        assert_eq!(text("hello").plain_json(), of("text", "hello"));
        assert_eq!(
            file("notes", &files).unwrap().plain_json(),
            of("path", "notes")
        );
        assert_eq!(
            remote("https://x/y", &files).unwrap().plain_json(),
            of("uri", "https://x/y")
        );
        assert!(file("nosuch", &files).is_err());
        assert!(remote("ftp://x", &files).is_err());
        assert_eq!(text("").plain_json().as_object().unwrap().len(), 2);
    }

    #[test]
    fn empty_archive_hash_matches_pulumi() {
        let none = members(&Value::Object([].into()), &InMemory::default()).unwrap();
        assert_eq!(
            field(&none, "hash"),
            json!("5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef")
        );
    }

    #[test]
    fn folder_and_asset_map_hash_alike() {
        let files = InMemory::from([("site/a.txt", "A"), ("site/sub/b.txt", "B")]);
        let whole = folder("site", &files).unwrap();
        let parts = Value::Object(
            [
                ("a.txt".to_owned(), text("A")),
                ("sub".to_owned(), folder("site/sub", &files).unwrap()),
            ]
            .into(),
        );
        let parts = members(&parts, &files).unwrap();
        assert_eq!(field(&whole, "hash"), field(&parts, "hash"));
        assert_eq!(field(&whole, "path"), json!("site"));
    }

    #[test]
    fn archive_hash_matches_go_tar() {
        let long = |letter: &str, count: usize| letter.repeat(count);
        for (members, expected) in [
            (
                vec![("a.txt".to_owned(), "A"), ("sub/b.txt".to_owned(), "B")],
                "8664d1e9c8eb97cd4f0844cbdbbadc9c1c40176fd2dc03c75e68741f6be70113",
            ),
            (
                vec![(format!("{}/{}", long("d", 90), long("f", 60)), "x")],
                "e45ab4c0dea66d44b4507801debd0f3590e180978e82743f6ee15e602856561c",
            ),
            (
                vec![(long("n", 120), "x")],
                "4edae971477175b68bfaae1bff7876eca066f070f2da55c367628310f36632bb",
            ),
            (
                vec![("größe/ä.txt".to_owned(), "x")],
                "b728f58bdd47a4415cd8459695c117d01040e2538f9501028177bec96b975b72",
            ),
            (
                vec![(
                    format!("dir/{}/{}", long("d", 200), long("f", 60)),
                    &"y".repeat(1000),
                )],
                "7740a4cd5826237de57c944c56df62a147c6c69c557bb6937340b477e571ebac",
            ),
        ] {
            let bytes = members
                .iter()
                .map(|(name, text)| (name.clone(), text.as_bytes().to_vec()));
            assert_eq!(hash(bytes.collect()), expected, "{members:?}");
        }
    }
}
