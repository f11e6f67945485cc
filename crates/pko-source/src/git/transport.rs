//! A connection to a git server as the protocol sees it: an advertisement, then requests and
//! responses.
//!
//! Over HTTP each is a request of its own. Over SSH all share one stream.

use std::io::{self, BufReader, Read, Write};

use super::{Address, GitError};

pub(crate) trait Connection {
    fn address(&self) -> &Address;

    /// The server's first message. May be called once.
    fn advertisement(&mut self) -> Result<Box<dyn Read + '_>, GitError>;

    /// Sends a request and returns the response.
    fn exchange(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>, GitError>;

    /// Removes secrets from a server's message.
    fn redact_secrets(&self, words: &str) -> String {
        words.to_owned()
    }
}

/// Both ends of `git-upload-pack`, for instance behind SSH.
pub struct DuplexStream {
    pub reader: Box<dyn Read + Send>,
    pub writer: Box<dyn Write + Send>,
}

pub(crate) struct StreamConnection {
    address: Address,
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
}

impl StreamConnection {
    pub(crate) fn new(address: &Address, duplex: DuplexStream) -> Self {
        Self {
            address: address.clone(),
            reader: BufReader::new(duplex.reader),
            writer: duplex.writer,
        }
    }
}

impl Connection for StreamConnection {
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
            .map_err(|error: io::Error| GitError::from_read(&self.address, error))?;
        Ok(Box::new(&mut self.reader))
    }
}

impl Drop for StreamConnection {
    fn drop(&mut self) {
        // A flush instead of a request ends the session. The result does not matter any more.
        let _ = self
            .writer
            .write_all(b"0000")
            .and_then(|()| self.writer.flush());
    }
}
