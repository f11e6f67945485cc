//! Faults of a git server.

use std::{io, time::Duration};

use super::{
    GitServerState, Wire,
    http::{HttpRequest, respond},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It takes a request and never answers.
    Hang,
    /// It answers a byte at a time, for ever.
    Drip,
    /// It answers with a status, and these headers.
    Status(u16, Vec<(String, String)>),
    /// It redirects to the same path and query at another server.
    RedirectTo(String),
    /// It redirects to exactly this URL.
    RedirectExactly(String),
    /// It answers an opening request as git does, with these bytes.
    Advertise(Vec<u8>),
    /// It responds with git's error line, which contains the received credentials.
    EchoCredentials,
    /// It is right until a request for objects comes; then it sends zeros for ever.
    EndlessPack,
}

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";

impl Fault {
    /// Applies the fault. Returns false if the real server should handle the request.
    pub(super) fn apply(
        &self,
        state: &GitServerState,
        request: &HttpRequest,
        wire: &mut dyn Wire,
    ) -> io::Result<bool> {
        match self {
            Self::Hang => {
                state.wait(Duration::from_hours(1));
            }
            Self::Drip => drip(state, wire)?,
            Self::Status(status, headers) => {
                let headers: Vec<_> = headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                respond(wire, &format!("{status} Fault"), &headers, b"fault")?;
            }
            Self::RedirectTo(origin) => redirect(wire, &format!("{origin}{}", request.target()))?,
            Self::RedirectExactly(place) => redirect(wire, place)?,
            Self::Advertise(bytes) => {
                respond(wire, "200 OK", &[("Content-Type", ADVERTISEMENT)], bytes)?;
            }
            Self::EchoCredentials => {
                let text = format!(
                    "ERR denied for {}",
                    request.header("authorization").unwrap_or("nobody")
                );
                let line = format!("{:04x}{text}", text.len() + 4);
                respond(
                    wire,
                    "200 OK",
                    &[("Content-Type", ADVERTISEMENT)],
                    line.as_bytes(),
                )?;
            }
            Self::EndlessPack => {
                if request
                    .body
                    .windows(13)
                    .all(|window| window != b"command=fetch")
                {
                    return Ok(false);
                }
                endless_pack(state, wire)?;
            }
        }
        Ok(true)
    }
}

fn redirect(wire: &mut dyn Wire, place: &str) -> io::Result<()> {
    respond(wire, "301 Moved Permanently", &[("Location", place)], b"")
}

fn drip(state: &GitServerState, wire: &mut dyn Wire) -> io::Result<()> {
    write!(
        wire,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {ADVERTISEMENT}\r\n\r\n"
    )?;
    // One line of maximum length, which is invalid only at its end
    let mut bytes = b"fff0".iter().copied().chain(std::iter::repeat(b'x'));
    while !state.wait(Duration::from_millis(20)) {
        wire.write_all(&[bytes.next().unwrap_or_default()])?;
        wire.flush()?;
    }
    Ok(())
}

/// A blob that has no end.
fn endless_pack(state: &GitServerState, wire: &mut dyn Wire) -> io::Result<()> {
    wire.write_all(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n",
    )?;
    wire.write_all(b"000dpackfile\n")?;
    // a pack of one blob of 2^40 bytes, in stored blocks of zeros
    let mut start = b"\x01PACK\0\0\0\x02\0\0\0\x01\xb0\x80\x80\x80\x80\x80\x01\x78\x01".to_vec();
    let mut block = b"\x00\xff\xff\x00\x00".to_vec();
    block.resize(block.len() + 0xffff, 0);
    start.extend_from_slice(block.get(..1000).unwrap_or_default());
    write!(wire, "{:04x}", start.len() + 4)?;
    wire.write_all(&start)?;
    let mut rest: Vec<u8> = block.get(1000..).unwrap_or_default().to_vec();
    while !state.wait(Duration::ZERO) {
        for piece in rest.chunks(65_000) {
            write!(wire, "{:04x}\x01", piece.len() + 5)?;
            wire.write_all(piece)?;
        }
        rest.clone_from(&block);
    }
    Ok(())
}
