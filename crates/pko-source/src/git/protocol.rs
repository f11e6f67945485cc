//! The client side of git's wire protocol, as far as a clone needs it: `ls-refs` and `fetch`
//! without negotiation.
//!
//! Requests version 2 and also understands versions 0 and 1.

use std::io::{self, Read};

use gix_hash::ObjectId;

use super::{
    GitError, GitLimits,
    advertisement::{
        self, AdvertisedReference, ProtocolError, object_id, read_ls_refs_line, reject_error_line,
    },
    capabilities::{Capabilities, Version},
    error::LimitExceeded,
    limited_reader::{LimitedReader, exceeded_limit},
    pkt_line::{Packet, PacketError, PacketReader, push_delimiter, push_flush, push_line},
    transport::Connection,
};
use crate::Deadline;

pub(super) const AGENT: &str = concat!("pko/", env!("CARGO_PKG_VERSION"));

/// A server whose advertisement has been read.
pub(super) struct UploadPackSession<'a> {
    connection: &'a mut dyn Connection,
    capabilities: Capabilities,
    deadline: Deadline,
    limits: GitLimits,
}

pub(super) struct FetchRequest<'a> {
    pub(super) ids: &'a [ObjectId],
    pub(super) shallow: bool,
}

impl<'a> UploadPackSession<'a> {
    /// Reads the advertisement, then visits the references whose names start with one of the
    /// prefixes.
    pub(super) fn open(
        connection: &'a mut dyn Connection,
        prefixes: &[String],
        deadline: Deadline,
        limits: GitLimits,
        visit: &mut advertisement::ReferenceVisitor<'_>,
    ) -> Result<Self, GitError> {
        let visit = &mut |each: &AdvertisedReference<'_>| {
            if prefixes.iter().any(|prefix| each.name.starts_with(prefix)) {
                visit(each)?;
            }
            Ok(())
        };
        let read = connection
            .advertisement()
            .map(|reader| advertisement::read(limit_references(reader, limits, deadline), visit))?;
        let capabilities = read.map_err(|error| git_error(connection, error))?;
        let mut session = Self {
            connection,
            capabilities,
            deadline,
            limits,
        };
        if session.capabilities.version() == Version::V2 && !prefixes.is_empty() {
            session.list(prefixes, visit)?;
        }
        Ok(session)
    }

    pub(super) fn hash(&self) -> Result<gix_hash::Kind, GitError> {
        self.capabilities
            .hash()
            .map_err(|error| git_error(self.connection, error))
    }

    fn list(
        &mut self,
        prefixes: &[String],
        visit: &mut advertisement::ReferenceVisitor<'_>,
    ) -> Result<(), GitError> {
        let mut request = self.command("ls-refs");
        push_line(&mut request, "peel");
        push_line(&mut request, "symrefs");
        for prefix in prefixes {
            push_line(&mut request, &format!("ref-prefix {prefix}"));
        }
        push_flush(&mut request);
        let (deadline, limits) = (self.deadline, self.limits);
        let read = self
            .connection
            .exchange(&request)
            .map(|reader| read_list(limit_references(reader, limits, deadline), visit))?;
        read.map_err(|error| git_error(self.connection, error))
    }

    /// The start of a version 2 request.
    fn command(&self, name: &str) -> Vec<u8> {
        let mut request = Vec::new();
        push_line(&mut request, &format!("command={name}"));
        if self.capabilities.has("agent") {
            push_line(&mut request, &format!("agent={AGENT}"));
        }
        if let Some(format) = self.capabilities.value("object-format") {
            push_line(&mut request, &format!("object-format={format}"));
        }
        push_delimiter(&mut request);
        request
    }

    /// Requests objects and passes the pack to `read_pack`. Returns the commits at which a shallow
    /// history ends and the result of `read_pack`.
    pub(super) fn fetch<T>(
        self,
        request: &FetchRequest<'_>,
        read_pack: impl FnOnce(&mut dyn Read) -> Result<T, GitError>,
    ) -> Result<(Vec<ObjectId>, T), GitError> {
        let body = self.encode_fetch(request)?;
        let version = self.capabilities.version();
        let limit = LimitExceeded::PackBytes(self.limits.pack_bytes);
        let read = self.connection.exchange(&body).map(|reader| {
            let limited = LimitedReader::new(reader, self.limits.pack_bytes, limit, self.deadline);
            let mut packets = PacketReader::new(limited);
            let shallow = match version {
                Version::V2 => read_until_pack(&mut packets),
                Version::V0OrV1 => read_until_acknowledged(&mut packets, request.shallow),
            };
            shallow.map(|shallow| {
                let mut pack = SideBand::new(packets);
                let outcome = read_pack(&mut pack);
                if outcome.is_ok() {
                    pack.finish();
                }
                (shallow, pack.failure, outcome)
            })
        })?;
        let (shallow, failure, outcome) =
            read.map_err(|error| git_error(self.connection, error))?;
        match failure {
            Some(failure) => Err(git_error(self.connection, failure)),
            None => outcome.map(|outcome| (shallow, outcome)),
        }
    }

    fn encode_fetch(&self, request: &FetchRequest<'_>) -> Result<Vec<u8>, GitError> {
        match self.capabilities.version() {
            Version::V2 => Ok(self.encode_fetch_v2(request)),
            Version::V0OrV1 => self
                .encode_fetch_v1(request)
                .map_err(|error| git_error(self.connection, error)),
        }
    }

    fn encode_fetch_v2(&self, request: &FetchRequest<'_>) -> Vec<u8> {
        let mut body = self.command("fetch");
        push_line(&mut body, "no-progress");
        push_line(&mut body, "ofs-delta");
        if request.shallow && self.capabilities.has_word("fetch", "shallow") {
            push_line(&mut body, "deepen 1");
        }
        for id in request.ids {
            push_line(&mut body, &format!("want {id}"));
        }
        push_line(&mut body, "done");
        push_flush(&mut body);
        body
    }

    fn encode_fetch_v1(&self, request: &FetchRequest<'_>) -> Result<Vec<u8>, ProtocolError> {
        let side_band = ["side-band-64k", "side-band"]
            .into_iter()
            .find(|name| self.capabilities.has(name))
            .ok_or(ProtocolError::Problem(
                "the server does not support side-band",
            ))?;
        // Azure DevOps requires `multi_ack_detailed`, although there is nothing to acknowledge.
        let chosen = ["multi_ack_detailed", "ofs-delta", "no-progress"]
            .into_iter()
            .filter(|name| self.capabilities.has(name));
        let mut words: Vec<String> = [side_band]
            .into_iter()
            .chain(chosen)
            .map(str::to_owned)
            .collect();
        if let Some(format) = self.capabilities.value("object-format") {
            words.push(format!("object-format={format}"));
        }
        if self.capabilities.has("agent") {
            words.push(format!("agent={AGENT}"));
        }
        let mut body = Vec::new();
        let mut words = format!(" {}", words.join(" "));
        for id in request.ids {
            push_line(&mut body, &format!("want {id}{words}"));
            words.clear();
        }
        if request.shallow {
            if !self.capabilities.has("shallow") {
                return Err(ProtocolError::Problem(
                    "the server does not support shallow clones; disable `shallow`",
                ));
            }
            push_line(&mut body, "deepen 1");
        }
        push_flush(&mut body);
        push_line(&mut body, "done");
        Ok(body)
    }
}

fn limit_references<R: Read>(reader: R, limits: GitLimits, deadline: Deadline) -> LimitedReader<R> {
    let most = limits.reference_bytes;
    LimitedReader::new(reader, most, LimitExceeded::ReferenceBytes(most), deadline)
}

fn read_list(
    reader: impl Read,
    visit: &mut advertisement::ReferenceVisitor<'_>,
) -> Result<(), ProtocolError> {
    let mut packets = PacketReader::new(reader);
    while let Some(packet) = packets.next()? {
        match packet.text() {
            Some(line) => read_ls_refs_line(reject_error_line(line)?, visit)?,
            None => return Ok(()),
        }
    }
    Err(ProtocolError::Problem(
        "the list of references is truncated",
    ))
}

/// Version 2: sections, of which the pack is the last.
fn read_until_pack<R: Read>(packets: &mut PacketReader<R>) -> Result<Vec<ObjectId>, ProtocolError> {
    let mut shallow = Vec::new();
    while let Some(packet) = packets.next()? {
        let Some(line) = packet.text() else { continue };
        if reject_error_line(line)? == b"packfile" {
            return Ok(shallow);
        }
        if let Some(hash) = line.strip_prefix(b"shallow ") {
            shallow.push(object_id(hash)?);
        }
    }
    Err(ProtocolError::Problem("the response contains no pack"))
}

/// Versions 0 and 1: shallow commits if requested, an acknowledgment, the pack.
fn read_until_acknowledged<R: Read>(
    packets: &mut PacketReader<R>,
    mut expects_shallow: bool,
) -> Result<Vec<ObjectId>, ProtocolError> {
    let mut shallow = Vec::new();
    while let Some(packet) = packets.next()? {
        let Some(line) = packet.text() else {
            expects_shallow = false;
            continue;
        };
        let line = reject_error_line(line)?;
        if let Some(hash) = line.strip_prefix(b"shallow ") {
            shallow.push(object_id(hash)?);
        } else if !expects_shallow && line == b"NAK" {
            return Ok(shallow);
        }
    }
    Err(ProtocolError::Problem("the response contains no pack"))
}

/// Extracts the pack from the side-band, which also carries progress and errors.
struct SideBand<R> {
    packets: PacketReader<R>,
    /// The unread part of the last line.
    rest: io::Cursor<Vec<u8>>,
    finished: bool,
    failure: Option<ProtocolError>,
}

impl<R: Read> SideBand<R> {
    fn new(packets: PacketReader<R>) -> Self {
        Self {
            packets,
            rest: io::Cursor::default(),
            finished: false,
            failure: None,
        }
    }

    /// Reads the rest of the response so that the connection ends cleanly. The pack is complete by
    /// then, so errors do not matter.
    fn finish(&mut self) {
        while !self.finished && self.next_line().is_ok() {}
    }

    fn next_line(&mut self) -> Result<(), ProtocolError> {
        let rest = self.rest.get_mut();
        rest.clear();
        match self.packets.next()? {
            Some(Packet::Data([1, data @ ..])) => rest.extend_from_slice(data),
            Some(Packet::Data([3, words @ ..])) => {
                return Err(ProtocolError::Refused(words.to_vec()));
            }
            // Progress and keep-alive lines.
            Some(Packet::Data([2, ..] | [])) => {}
            Some(Packet::Data(line)) => {
                reject_error_line(line)?;
                return Err(ProtocolError::Problem("the pack uses an unknown side-band"));
            }
            Some(Packet::Flush | Packet::ResponseEnd | Packet::Delimiter) => self.finished = true,
            None => return Err(ProtocolError::Problem("the pack is truncated")),
        }
        self.rest.set_position(0);
        Ok(())
    }
}

impl<R: Read> Read for SideBand<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.rest.read(buffer)?;
            if count > 0 || self.finished || buffer.is_empty() {
                return Ok(count);
            }
            if let Err(failure) = self.next_line() {
                // The pack reader cannot return our error type, so it is kept for later.
                let error = io::Error::other(failure.to_string());
                self.failure = Some(failure);
                self.finished = true;
                return Err(error);
            }
        }
    }
}

/// Adds the address, and redacts the server's message.
fn git_error(connection: &dyn Connection, error: ProtocolError) -> GitError {
    let address = connection.address().to_string();
    match error {
        ProtocolError::Problem(problem) => GitError::Protocol { address, problem },
        ProtocolError::Packet(PacketError::Length) => GitError::Protocol {
            address,
            problem: "a pkt-line has an invalid length",
        },
        ProtocolError::Packet(PacketError::Read(error)) => match exceeded_limit(&error) {
            Some(limit) => GitError::Limit { address, limit },
            None => GitError::from_read(connection.address(), error),
        },
        ProtocolError::Limit(limit) => GitError::Limit { address, limit },
        ProtocolError::Refused(words) => GitError::Refused {
            address,
            message: sanitize(&connection.redact_secrets(&String::from_utf8_lossy(&words))),
        },
    }
}

/// One line of limited length.
fn sanitize(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .chars()
        .filter(|each| !each.is_control())
        .take(300)
        .collect()
}
