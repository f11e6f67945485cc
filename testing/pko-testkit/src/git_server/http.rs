//! A minimal HTTP/1.1 server.

use std::io::{self, Read};

use super::Wire;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub method: String,
    /// Path and query
    pub target: String,
    pub authorization: Option<String>,
    pub host: Option<String>,
    /// Which connection it came by
    pub connection: u64,
}

pub(crate) struct HttpRequest {
    pub(super) method: String,
    pub(crate) path: String,
    pub(super) query: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    /// The next request; nothing if the client has no other.
    pub(crate) fn read(wire: &mut dyn Wire) -> io::Result<Option<Self>> {
        let Some(head) = read_head(wire)? else {
            return Ok(None);
        };
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut request = Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Vec::new(),
        };
        let length = request
            .header("content-length")
            .and_then(|length| length.parse().ok());
        wire.take(length.unwrap_or(0))
            .read_to_end(&mut request.body)?;
        Ok(Some(request))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(each, _)| each == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn target(&self) -> String {
        match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }

    pub(super) fn to_record(&self, connection: u64) -> RecordedRequest {
        RecordedRequest {
            method: self.method.clone(),
            target: self.target(),
            authorization: self.header("authorization").map(str::to_owned),
            host: self.header("host").map(str::to_owned),
            connection,
        }
    }
}

fn read_head(wire: &mut dyn Wire) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 64 << 10 || wire.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).map(Some).map_err(io::Error::other)
}

pub(crate) fn respond(
    wire: &mut dyn Wire,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    write!(
        wire,
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    )?;
    for (name, value) in headers {
        write!(wire, "{name}: {value}\r\n")?;
    }
    wire.write_all(b"\r\n")?;
    wire.write_all(body)?;
    wire.flush()
}

/// Sends a long answer in pieces.
pub(super) fn respond_in_pieces(
    wire: &mut dyn Wire,
    status: &str,
    headers: &[String],
    body: &mut dyn Read,
) -> io::Result<()> {
    write!(wire, "HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n")?;
    for header in headers {
        write!(wire, "{header}\r\n")?;
    }
    wire.write_all(b"\r\n")?;
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = body.read(&mut piece)?;
        write!(wire, "{count:x}\r\n")?;
        wire.write_all(piece.get(..count).unwrap_or_default())?;
        wire.write_all(b"\r\n")?;
        if count == 0 {
            return wire.flush();
        }
    }
}
