//! Git's pkt-lines: four hexadecimal digits with the length, then the data.

use std::io::{self, Read};

const MAX_LINE_BYTES: usize = 65_520;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Data(&'a [u8]),
    Flush,
    Delimiter,
    ResponseEnd,
}

impl<'a> Packet<'a> {
    /// The data without a trailing newline.
    pub(super) fn text(&self) -> Option<&'a [u8]> {
        match self {
            Self::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            _ => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PacketError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("a pkt-line has an invalid length")]
    Length,
}

/// Reuses one buffer for all lines.
pub(super) struct PacketReader<R> {
    reader: R,
    buffer: Vec<u8>,
}

impl<R: Read> PacketReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
        }
    }

    /// Returns `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Result<Option<Packet<'_>>, PacketError> {
        let Some(digits) = self.length_digits()? else {
            return Ok(None);
        };
        let length = length(digits).ok_or(PacketError::Length)?;
        let data = match length {
            0 => return Ok(Some(Packet::Flush)),
            1 => return Ok(Some(Packet::Delimiter)),
            2 => return Ok(Some(Packet::ResponseEnd)),
            3 => return Err(PacketError::Length),
            length => length - 4,
        };
        self.buffer.resize(data, 0);
        self.reader.read_exact(&mut self.buffer)?;
        Ok(Some(Packet::Data(&self.buffer)))
    }

    fn length_digits(&mut self) -> io::Result<Option<[u8; 4]>> {
        let mut digits = [0; 4];
        loop {
            return match self.reader.read(&mut digits) {
                Ok(0) => Ok(None),
                Ok(count) => {
                    let rest = digits.get_mut(count..).unwrap_or_default();
                    self.reader.read_exact(rest)?;
                    Ok(Some(digits))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }
}

fn length(digits: [u8; 4]) -> Option<usize> {
    let length = digits.iter().try_fold(0, |sum, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(sum * 16 + digit as usize)
    })?;
    (length <= MAX_LINE_BYTES).then_some(length)
}

pub(super) fn push_line(request: &mut Vec<u8>, text: &str) {
    let length = text.len() + 5;
    request.extend_from_slice(format!("{length:04x}{text}\n").as_bytes());
}

pub(super) fn push_flush(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0000");
}

pub(super) fn push_delimiter(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkt_line_round_trip() {
        let mut request = Vec::new();
        push_line(&mut request, "command=ls-refs");
        push_delimiter(&mut request);
        push_flush(&mut request);
        assert_eq!(request, b"0014command=ls-refs\n00010000");
        let mut packets = PacketReader::new(&request[..]);
        let first = packets.next().unwrap().unwrap();
        assert_eq!(first.text(), Some(&b"command=ls-refs"[..]));
        assert_eq!(packets.next().unwrap(), Some(Packet::Delimiter));
        assert_eq!(packets.next().unwrap(), Some(Packet::Flush));
        assert_eq!(packets.next().unwrap(), None);
    }

    #[test]
    fn pkt_line_invalid_length_is_an_error() {
        for text in [
            "00",
            "0003",
            "zzzz",
            "fff5",
            "ffff",
            "0010short",
            "-001",
            "+004",
        ] {
            assert!(PacketReader::new(text.as_bytes()).next().is_err(), "{text}");
        }
    }
}
