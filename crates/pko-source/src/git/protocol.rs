//! Git's protocol, as far as one needs it who has nothing yet: a list of references, and a pack.
//!
//! Version 2 is asked for; a server that knows only the versions before it is understood as well.

use std::io::{self, Read};

use gix_hash::ObjectId;

use super::{
    GitError, Limits,
    advertisement::{self, Advertised, WordsError, accepted, object_id, read_listed},
    bounded::{Bounded, limit_of},
    capabilities::{Capabilities, Version},
    error::LimitExceeded,
    packets::{Packet, PacketError, Packets, push_delimiter, push_flush, push_line},
    transport::Connection,
};
use crate::Deadline;

/// How we call ourselves.
pub(super) const AGENT: &str = concat!("pko/", env!("CARGO_PKG_VERSION"));

/// A server that has opened its mouth.
pub(super) struct Session<'a> {
    connection: &'a mut dyn Connection,
    capabilities: Capabilities,
    deadline: Deadline,
    limits: Limits,
}

/// What is wanted of a server.
pub(super) struct Wants<'a> {
    pub(super) ids: &'a [ObjectId],
    /// Nothing of what came before
    pub(super) shallow: bool,
}

impl<'a> Session<'a> {
    /// Hears what the server says first, then visits the references whose names start with one of the
    /// prefixes.
    pub(super) fn open(
        connection: &'a mut dyn Connection,
        prefixes: &[String],
        deadline: Deadline,
        limits: Limits,
        visit: &mut advertisement::Visit<'_>,
    ) -> Result<Self, GitError> {
        let visit = &mut |each: &Advertised<'_>| {
            if prefixes.iter().any(|prefix| each.name.starts_with(prefix)) {
                visit(each)?;
            }
            Ok(())
        };
        let read = connection
            .advertisement()
            .map(|reader| advertisement::read(bounded(reader, limits, deadline), visit))?;
        let capabilities = read.map_err(|error| explained(connection, error))?;
        let mut session = Self {
            connection,
            capabilities,
            deadline,
            limits,
        };
        if session.capabilities.version() == Version::Two && !prefixes.is_empty() {
            session.list(prefixes, visit)?;
        }
        Ok(session)
    }

    /// The hash that names objects.
    pub(super) fn hash(&self) -> Result<gix_hash::Kind, GitError> {
        self.capabilities
            .hash()
            .map_err(|error| explained(self.connection, error))
    }

    fn list(
        &mut self,
        prefixes: &[String],
        visit: &mut advertisement::Visit<'_>,
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
            .map(|reader| read_list(bounded(reader, limits, deadline), visit))?;
        read.map_err(|error| explained(self.connection, error))
    }

    /// The start of a request of version 2.
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

    /// Asks for objects, and has the pack read. What comes back is the commits at which a shallow history
    /// ends, and what the reader of the pack made of it.
    pub(super) fn fetch<T>(
        self,
        wants: &Wants<'_>,
        read_pack: impl FnOnce(&mut dyn Read) -> Result<T, GitError>,
    ) -> Result<(Vec<ObjectId>, T), GitError> {
        let request = self.fetch_request(wants)?;
        let version = self.capabilities.version();
        let limit = LimitExceeded::PackBytes(self.limits.pack_bytes);
        let read = self.connection.exchange(&request).map(|reader| {
            let bounded = Bounded::new(reader, self.limits.pack_bytes, limit, self.deadline);
            let mut packets = Packets::new(bounded);
            let shallow = match version {
                Version::Two => read_until_pack(&mut packets),
                Version::One => read_until_acknowledged(&mut packets, wants.shallow),
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
            read.map_err(|error| explained(self.connection, error))?;
        match failure {
            Some(failure) => Err(explained(self.connection, failure)),
            None => outcome.map(|outcome| (shallow, outcome)),
        }
    }

    fn fetch_request(&self, wants: &Wants<'_>) -> Result<Vec<u8>, GitError> {
        match self.capabilities.version() {
            Version::Two => Ok(self.fetch_request_two(wants)),
            Version::One => self
                .fetch_request_one(wants)
                .map_err(|error| explained(self.connection, error)),
        }
    }

    fn fetch_request_two(&self, wants: &Wants<'_>) -> Vec<u8> {
        let mut request = self.command("fetch");
        push_line(&mut request, "no-progress");
        push_line(&mut request, "ofs-delta");
        if wants.shallow && self.capabilities.has_word("fetch", "shallow") {
            push_line(&mut request, "deepen 1");
        }
        for id in wants.ids {
            push_line(&mut request, &format!("want {id}"));
        }
        push_line(&mut request, "done");
        push_flush(&mut request);
        request
    }

    fn fetch_request_one(&self, wants: &Wants<'_>) -> Result<Vec<u8>, WordsError> {
        let side_band = ["side-band-64k", "side-band"]
            .into_iter()
            .find(|name| self.capabilities.has(name))
            .ok_or(WordsError::Problem("it knows no side-band"))?;
        // Azure DevOps wants to hear multi_ack_detailed, though there is nothing to acknowledge
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
        let mut request = Vec::new();
        let mut words = format!(" {}", words.join(" "));
        for id in wants.ids {
            push_line(&mut request, &format!("want {id}{words}"));
            words.clear();
        }
        if wants.shallow {
            if !self.capabilities.has("shallow") {
                return Err(WordsError::Problem(
                    "it knows no shallow clones; ask for a full one",
                ));
            }
            push_line(&mut request, "deepen 1");
        }
        push_flush(&mut request);
        push_line(&mut request, "done");
        Ok(request)
    }
}

fn bounded<R: Read>(reader: R, limits: Limits, deadline: Deadline) -> Bounded<R> {
    let most = limits.reference_bytes;
    Bounded::new(reader, most, LimitExceeded::ReferenceBytes(most), deadline)
}

fn read_list(reader: impl Read, visit: &mut advertisement::Visit<'_>) -> Result<(), WordsError> {
    let mut packets = Packets::new(reader);
    while let Some(packet) = packets.next()? {
        match packet.text() {
            Some(line) => read_listed(accepted(line)?, visit)?,
            None => return Ok(()),
        }
    }
    Err(WordsError::Problem("its list of references breaks off"))
}

/// Version 2: sections, the last of which is the pack.
fn read_until_pack<R: Read>(packets: &mut Packets<R>) -> Result<Vec<ObjectId>, WordsError> {
    let mut shallow = Vec::new();
    while let Some(packet) = packets.next()? {
        let Some(line) = packet.text() else { continue };
        if accepted(line)? == b"packfile" {
            return Ok(shallow);
        }
        if let Some(hash) = line.strip_prefix(b"shallow ") {
            shallow.push(object_id(hash)?);
        }
    }
    Err(WordsError::Problem("it sends no pack"))
}

/// Versions 0 and 1: perhaps what is shallow, then an acknowledgment, then the pack.
fn read_until_acknowledged<R: Read>(
    packets: &mut Packets<R>,
    mut expects_shallow: bool,
) -> Result<Vec<ObjectId>, WordsError> {
    let mut shallow = Vec::new();
    while let Some(packet) = packets.next()? {
        let Some(line) = packet.text() else {
            expects_shallow = false;
            continue;
        };
        let line = accepted(line)?;
        if let Some(hash) = line.strip_prefix(b"shallow ") {
            shallow.push(object_id(hash)?);
        } else if !expects_shallow && line == b"NAK" {
            return Ok(shallow);
        }
    }
    Err(WordsError::Problem("it sends no pack"))
}

/// The pack's bytes among the other things that a server says meanwhile.
struct SideBand<R> {
    packets: Packets<R>,
    /// What is left of the last line
    rest: io::Cursor<Vec<u8>>,
    finished: bool,
    failure: Option<WordsError>,
}

impl<R: Read> SideBand<R> {
    fn new(packets: Packets<R>) -> Self {
        Self {
            packets,
            rest: io::Cursor::default(),
            finished: false,
            failure: None,
        }
    }

    /// Hears the other side out, so that it ends as it should. The pack is whole by then, whatever comes.
    fn finish(&mut self) {
        while !self.finished && self.next_line().is_ok() {}
    }

    fn next_line(&mut self) -> Result<(), WordsError> {
        let rest = self.rest.get_mut();
        rest.clear();
        match self.packets.next()? {
            Some(Packet::Data([1, data @ ..])) => rest.extend_from_slice(data),
            Some(Packet::Data([3, words @ ..])) => return Err(WordsError::Refused(words.to_vec())),
            // progress, and lines that keep a connection open
            Some(Packet::Data([2, ..] | [])) => {}
            Some(Packet::Data(line)) => {
                accepted(line)?;
                return Err(WordsError::Problem(
                    "a part of the pack is in an unknown band",
                ));
            }
            Some(Packet::Flush | Packet::ResponseEnd | Packet::Delimiter) => self.finished = true,
            None => return Err(WordsError::Problem("its pack breaks off")),
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
                // whoever reads a pack can't hand our errors on; they are asked for afterwards
                let error = io::Error::other(failure.to_string());
                self.failure = Some(failure);
                self.finished = true;
                return Err(error);
            }
        }
    }
}

/// An error with the address, and with a server's words made fit to be shown.
fn explained(connection: &dyn Connection, error: WordsError) -> GitError {
    let address = connection.address().to_string();
    match error {
        WordsError::Problem(problem) => GitError::Protocol { address, problem },
        WordsError::Packet(PacketError::Length) => GitError::Protocol {
            address,
            problem: "a line does not start with its length",
        },
        WordsError::Packet(PacketError::Read(error)) => match limit_of(&error) {
            Some(limit) => GitError::Limit { address, limit },
            None => GitError::of_read(connection.address(), error),
        },
        WordsError::Limit(limit) => GitError::Limit { address, limit },
        WordsError::Refused(words) => GitError::Refused {
            address,
            message: presentable(&connection.without_secrets(&String::from_utf8_lossy(&words))),
        },
    }
}

/// A server's words on one line, and not too many of them.
fn presentable(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .chars()
        .filter(|each| !each.is_control())
        .take(300)
        .collect()
}
