//! What a git server is, seen from the protocol: it opens with an advertisement and answers requests. Over HTTP
//! each is a request of its own; a stream of bytes (SSH) is one conversation.

use std::io::{self, BufReader, Read, Write};

use super::{Address, GitError};

/// A way to a repository on a server.
pub(crate) trait Connection {
    /// Where it leads, for errors.
    fn address(&self) -> &Address;

    /// What the server says first. Once.
    fn advertisement(&mut self) -> Result<Box<dyn Read + '_>, GitError>;

    /// What the server answers to a request.
    fn exchange(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>, GitError>;

    /// Takes what is secret out of a server's words.
    fn without_secrets(&self, words: &str) -> String {
        words.to_owned()
    }
}

/// Both ends of a program that speaks git's protocol, such as `git-upload-pack` behind SSH.
pub struct Duplex {
    /// What the server says
    pub reader: Box<dyn Read + Send>,
    /// What we say
    pub writer: Box<dyn Write + Send>,
}

/// A conversation through a stream of bytes.
pub(crate) struct Stream {
    address: Address,
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
}

impl Stream {
    pub(crate) fn new(address: &Address, duplex: Duplex) -> Self {
        Self {
            address: address.clone(),
            reader: BufReader::new(duplex.reader),
            writer: duplex.writer,
        }
    }
}

impl Connection for Stream {
    fn address(&self) -> &Address {
        &self.address
    }

    fn advertisement(&mut self) -> Result<Box<dyn Read + '_>, GitError> {
        Ok(Box::new(&mut self.reader))
    }

    fn exchange(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>, GitError> {
        self.writer
            .write_all(request)
            .and_then(|()| self.writer.flush())
            .map_err(|error: io::Error| GitError::of_read(&self.address, error))?;
        Ok(Box::new(&mut self.reader))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // a flush where a request could stand says that there is none; nobody waits for what comes of it
        let _ = self
            .writer
            .write_all(b"0000")
            .and_then(|()| self.writer.flush());
    }
}
