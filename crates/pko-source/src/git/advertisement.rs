//! The server's first message: its capabilities and, before protocol version 2, all references.
//!
//! References are passed to a visitor one by one. A server may have millions, which must not be
//! kept in memory.

use std::io::Read;

use gix_hash::ObjectId;

use super::{
    capabilities::{Capabilities, Version},
    pkt_line::{Packet, PacketError, PacketReader},
};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct AdvertisedReference<'a> {
    pub(super) name: &'a str,
    pub(super) id: ObjectId,
    /// The commit of an annotated tag.
    pub(super) peeled: Option<ObjectId>,
    pub(super) symbolic: Option<&'a str>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProtocolError {
    #[error(transparent)]
    Packet(#[from] PacketError),
    #[error("{0}")]
    Problem(&'static str),
    #[error("the server refused")]
    Refused(Vec<u8>),
    #[error(transparent)]
    Limit(#[from] super::error::LimitExceeded),
}

/// Called for each reference. An error ends the listing.
pub(super) type ReferenceVisitor<'a> =
    dyn FnMut(&AdvertisedReference<'_>) -> Result<(), ProtocolError> + 'a;

/// Reads the advertisement. Before version 2, visits the references in it.
pub(super) fn read(
    reader: impl Read,
    visit: &mut ReferenceVisitor<'_>,
) -> Result<Capabilities, ProtocolError> {
    let mut packets = PacketReader::new(reader);
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

/// Returns `None` at the end of the message.
fn text<R: Read>(packets: &mut PacketReader<R>) -> Result<Option<Vec<u8>>, ProtocolError> {
    let line = packets
        .next()?
        .ok_or(ProtocolError::Problem("the response is empty"))?;
    match line.text() {
        Some(line) => Ok(Some(reject_error_line(line)?.to_vec())),
        None => Ok(None),
    }
}

/// Turns an `ERR` line into an error.
pub(super) fn reject_error_line(line: &[u8]) -> Result<&[u8], ProtocolError> {
    match line.strip_prefix(b"ERR ") {
        Some(words) => Err(ProtocolError::Refused(words.to_vec())),
        None => Ok(line),
    }
}

fn skip_to_flush<R: Read>(packets: &mut PacketReader<R>) -> Result<(), ProtocolError> {
    while let Some(line) = packets.next()? {
        if line == Packet::Flush {
            return Ok(());
        }
    }
    Err(ProtocolError::Problem("the response is truncated"))
}

fn read_capabilities<R: Read>(
    packets: &mut PacketReader<R>,
) -> Result<Capabilities, ProtocolError> {
    let mut capabilities = Capabilities::new(Version::V2);
    while let Some(line) = text(packets)? {
        capabilities.add(&line)?;
    }
    Ok(capabilities)
}

fn read_references<R: Read>(
    first: &[u8],
    packets: &mut PacketReader<R>,
    visit: &mut ReferenceVisitor<'_>,
) -> Result<Capabilities, ProtocolError> {
    let mut capabilities = Capabilities::new(Version::V0OrV1);
    let mut parts = first.splitn(2, |byte| *byte == 0);
    let first = parts.next().unwrap_or_default();
    for word in parts.next().unwrap_or_default().split(|byte| *byte == b' ') {
        capabilities.add(word)?;
    }
    let head = capabilities.symbolic_head();
    let mut pending = PendingReference::default();
    pending.take(first, head.as_deref(), visit)?;
    while let Some(line) = packets.next()? {
        let Some(line) = line.text() else {
            pending.finish(head.as_deref(), visit)?;
            return Ok(capabilities);
        };
        pending.take(reject_error_line(line)?, head.as_deref(), visit)?;
    }
    Err(ProtocolError::Problem("the response is truncated"))
}

/// The last reference. If it is a tag, the next line may contain its commit.
#[derive(Default)]
struct PendingReference {
    name: String,
    id: Option<ObjectId>,
    peeled: Option<ObjectId>,
}

impl PendingReference {
    fn take(
        &mut self,
        line: &[u8],
        head: Option<&str>,
        visit: &mut ReferenceVisitor<'_>,
    ) -> Result<(), ProtocolError> {
        if line.starts_with(b"shallow ") {
            return Ok(());
        }
        let (id, name) = id_and_rest(line)?;
        if id.is_null() {
            // An empty repository has a line for its capabilities alone.
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

    fn finish(
        &mut self,
        head: Option<&str>,
        visit: &mut ReferenceVisitor<'_>,
    ) -> Result<(), ProtocolError> {
        if let Some(id) = self.id.take() {
            visit(&AdvertisedReference {
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

/// Reads one line of an `ls-refs` response.
pub(super) fn read_ls_refs_line(
    line: &[u8],
    visit: &mut ReferenceVisitor<'_>,
) -> Result<(), ProtocolError> {
    if line.starts_with(b"unborn ") {
        return Ok(());
    }
    let (id, rest) = id_and_rest(line)?;
    let mut words = rest.split(|byte| *byte == b' ');
    let Some(name) = words.next().and_then(valid_name) else {
        return Ok(());
    };
    let mut advertised = AdvertisedReference {
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

fn id_and_rest(line: &[u8]) -> Result<(ObjectId, &[u8]), ProtocolError> {
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let id = object_id(parts.next().unwrap_or_default())?;
    let rest = parts
        .next()
        .ok_or(ProtocolError::Problem("a reference has no name"))?;
    Ok((id, rest))
}

pub(super) fn object_id(hash: &[u8]) -> Result<ObjectId, ProtocolError> {
    ObjectId::from_hex(hash)
        .map_err(|_| ProtocolError::Problem("a reference has an invalid object id"))
}

/// Invalid names are skipped, as git does.
fn valid_name(name: &[u8]) -> Option<&str> {
    gix_validate::reference::name(name.into()).ok()?;
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests;
