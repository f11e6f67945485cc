//! The lines that git's protocol is made of: four digits with the length, then so many bytes.

use std::io::{self, Read};

/// The longest line there is.
const LONGEST: usize = 65_520;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// Some bytes
    Data(&'a [u8]),
    /// The end of a message
    Flush,
    /// The end of a part of a message
    Delimiter,
    /// The end of an answer
    ResponseEnd,
}

impl<'a> Packet<'a> {
    /// The text of a line, without its end.
    pub(super) fn text(&self) -> Option<&'a [u8]> {
        match self {
            Self::Data(data) => Some(data.strip_suffix(b"\n").unwrap_or(data)),
            _ => None,
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub(super) enum PacketError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("a line does not start with its length")]
    Length,
}

/// Reads line after line, each into the place of the one before.
pub(super) struct Packets<R> {
    reader: R,
    buffer: Vec<u8>,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
        }
    }

    /// The next line; nothing if the other side has no more to say.
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
    (length <= LONGEST).then_some(length)
}

/// Adds a line to a request.
pub(super) fn push_line(request: &mut Vec<u8>, text: &str) {
    let length = text.len() + 5;
    request.extend_from_slice(format!("{length:04x}{text}\n").as_bytes());
}

/// Ends a message.
pub(super) fn push_flush(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0000");
}

/// Ends a part of a message.
pub(super) fn push_delimiter(request: &mut Vec<u8>) {
    request.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_there_and_back() {
        let mut request = Vec::new();
        push_line(&mut request, "command=ls-refs");
        push_delimiter(&mut request);
        push_flush(&mut request);
        assert_eq!(request, b"0014command=ls-refs\n00010000");
        let mut packets = Packets::new(&request[..]);
        let first = packets.next().unwrap().unwrap();
        assert_eq!(first.text(), Some(&b"command=ls-refs"[..]));
        assert_eq!(packets.next().unwrap(), Some(Packet::Delimiter));
        assert_eq!(packets.next().unwrap(), Some(Packet::Flush));
        assert_eq!(packets.next().unwrap(), None);
    }

    #[test]
    fn what_is_no_line() {
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
            assert!(Packets::new(text.as_bytes()).next().is_err(), "{text}");
        }
    }
}
