//! What a server says first: what it can do and, before version 2 of the protocol, all of its references.
//!
//! References go one by one to whoever asked, so that a million of them take no memory here.

use std::io::Read;

use gix_hash::ObjectId;

use super::{
    capabilities::{Capabilities, Version},
    packets::{Packet, PacketError, Packets},
};

/// A reference as a server shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Advertised<'a> {
    pub(super) name: &'a str,
    pub(super) id: ObjectId,
    /// What an annotated tag is of
    pub(super) peeled: Option<ObjectId>,
    /// What `HEAD` stands for
    pub(super) symbolic: Option<&'a str>,
}

/// What can be wrong with a server's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum WordsError {
    #[error(transparent)]
    Packet(#[from] PacketError),
    #[error("{0}")]
    Problem(&'static str),
    #[error("the server refused")]
    Refused(Vec<u8>),
    #[error(transparent)]
    Limit(#[from] super::error::LimitExceeded),
}

/// Takes a reference, or has enough.
pub(super) type Visit<'a> = dyn FnMut(&Advertised<'_>) -> Result<(), WordsError> + 'a;

/// Reads what a server says first. Before version 2 that includes its references, which are visited.
pub(super) fn read(reader: impl Read, visit: &mut Visit<'_>) -> Result<Capabilities, WordsError> {
    let mut packets = Packets::new(reader);
    let mut first = text(&mut packets)?;
    if first
        .as_deref()
        .is_some_and(|line| line.starts_with(b"# service="))
    {
        skip_to_flush(&mut packets)?;
        first = text(&mut packets)?;
    }
    match first.as_deref() {
        None => Ok(Capabilities::default()),
        Some(b"version 2") => read_capabilities(&mut packets),
        Some(b"version 1") => {
            let first = text(&mut packets)?.unwrap_or_default();
            read_references(&first, &mut packets, visit)
        }
        Some(line) => read_references(line, &mut packets, visit),
    }
}

/// The next line's text; nothing at the end of the message.
fn text<R: Read>(packets: &mut Packets<R>) -> Result<Option<Vec<u8>>, WordsError> {
    let line = packets
        .next()?
        .ok_or(WordsError::Problem("it says nothing"))?;
    match line.text() {
        Some(line) => Ok(Some(accepted(line)?.to_vec())),
        None => Ok(None),
    }
}

/// A line, unless it is one that refuses.
pub(super) fn accepted(line: &[u8]) -> Result<&[u8], WordsError> {
    match line.strip_prefix(b"ERR ") {
        Some(words) => Err(WordsError::Refused(words.to_vec())),
        None => Ok(line),
    }
}

fn skip_to_flush<R: Read>(packets: &mut Packets<R>) -> Result<(), WordsError> {
    while let Some(line) = packets.next()? {
        if line == Packet::Flush {
            return Ok(());
        }
    }
    Err(WordsError::Problem("it breaks off"))
}

fn read_capabilities<R: Read>(packets: &mut Packets<R>) -> Result<Capabilities, WordsError> {
    let mut capabilities = Capabilities::new(Version::Two);
    while let Some(line) = text(packets)? {
        capabilities.add(&line)?;
    }
    Ok(capabilities)
}

fn read_references<R: Read>(
    first: &[u8],
    packets: &mut Packets<R>,
    visit: &mut Visit<'_>,
) -> Result<Capabilities, WordsError> {
    let mut capabilities = Capabilities::new(Version::One);
    let mut parts = first.splitn(2, |byte| *byte == 0);
    let first = parts.next().unwrap_or_default();
    for word in parts.next().unwrap_or_default().split(|byte| *byte == b' ') {
        capabilities.add(word)?;
    }
    let head = capabilities.symbolic_head();
    let mut pending = Pending::default();
    pending.take(first, head.as_deref(), visit)?;
    while let Some(line) = packets.next()? {
        let Some(line) = line.text() else {
            pending.finish(head.as_deref(), visit)?;
            return Ok(capabilities);
        };
        pending.take(accepted(line)?, head.as_deref(), visit)?;
    }
    Err(WordsError::Problem("it breaks off"))
}

/// The last reference, which may be a tag whose commit is in the next line.
#[derive(Default)]
struct Pending {
    name: String,
    id: Option<ObjectId>,
    peeled: Option<ObjectId>,
}

impl Pending {
    fn take(
        &mut self,
        line: &[u8],
        head: Option<&str>,
        visit: &mut Visit<'_>,
    ) -> Result<(), WordsError> {
        if line.starts_with(b"shallow ") {
            return Ok(());
        }
        let (id, name) = id_and_rest(line)?;
        if id.is_null() {
            // an empty repository has a line for its capabilities alone
            return Ok(());
        }
        if let Some(tag) = name.strip_suffix(b"^{}") {
            if tag == self.name.as_bytes() {
                self.peeled = Some(id);
            }
            return Ok(());
        }
        self.finish(head, visit)?;
        if let Some(name) = valid_name(name) {
            self.name.push_str(name);
            self.id = Some(id);
        }
        Ok(())
    }

    fn finish(&mut self, head: Option<&str>, visit: &mut Visit<'_>) -> Result<(), WordsError> {
        if let Some(id) = self.id.take() {
            visit(&Advertised {
                name: &self.name,
                id,
                peeled: self.peeled.take(),
                symbolic: head.filter(|_| self.name == "HEAD"),
            })?;
        }
        self.name.clear();
        self.peeled = None;
        Ok(())
    }
}

/// Reads one line of an answer to `ls-refs`, and visits it.
pub(super) fn read_listed(line: &[u8], visit: &mut Visit<'_>) -> Result<(), WordsError> {
    if line.starts_with(b"unborn ") {
        return Ok(());
    }
    let (id, rest) = id_and_rest(line)?;
    let mut words = rest.split(|byte| *byte == b' ');
    let Some(name) = words.next().and_then(valid_name) else {
        return Ok(());
    };
    let mut advertised = Advertised {
        name,
        id,
        peeled: None,
        symbolic: None,
    };
    for word in words {
        if let Some(hash) = word.strip_prefix(b"peeled:") {
            advertised.peeled = Some(object_id(hash)?);
        } else if let Some(target) = word.strip_prefix(b"symref-target:") {
            advertised.symbolic = valid_name(target);
        }
    }
    visit(&advertised)
}

fn id_and_rest(line: &[u8]) -> Result<(ObjectId, &[u8]), WordsError> {
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let id = object_id(parts.next().unwrap_or_default())?;
    let rest = parts
        .next()
        .ok_or(WordsError::Problem("a reference has no name"))?;
    Ok((id, rest))
}

pub(super) fn object_id(hash: &[u8]) -> Result<ObjectId, WordsError> {
    ObjectId::from_hex(hash).map_err(|_| WordsError::Problem("a reference has no hash"))
}

/// A name that a reference may have; others are left out, as git does.
fn valid_name(name: &[u8]) -> Option<&str> {
    gix_validate::reference::name(name.into()).ok()?;
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
#[path = "advertisement_tests.rs"]
mod tests;
