//! Questions and answers of the domain name system, as bytes; pure.
//!
//! Ours, because a server that looks up a few names needs a hundredth of what a library brings.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What a UDP answer may have if nobody has agreed on more.
const DATAGRAM: usize = 512;
const HEADER: usize = 12;
const LONGEST_LABEL: usize = 63;
/// An address may go to another pod in a moment.
const SECONDS_TO_LIVE: u32 = 1;
const INTERNET: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    A,
    Aaaa,
    Cname,
    Srv,
    /// Something that no name here has.
    Other(u16),
}

impl Kind {
    fn of(number: u16) -> Self {
        match number {
            1 => Self::A,
            5 => Self::Cname,
            28 => Self::Aaaa,
            33 => Self::Srv,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Cname => 5,
            Self::Aaaa => 28,
            Self::Srv => 33,
            Self::Other(number) => number,
        }
    }
}

/// A message with one question, which is all that anybody sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    id: [u8; 2],
    recursion_desired: bool,
    /// The question as it was asked; the answer repeats it to the letter.
    section: Vec<u8>,
    /// In lower case, without the last dot.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Srv { port: u16, target: String },
}

/// A name and something that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) data: Data,
}

/// The answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name exists, with all that it has of the kind, which may be nothing.
    Found(Vec<Record>),
    /// There is no such name.
    NoSuchName,
}

impl Question {
    /// Reads a message; one that is no question of the internet's is nobody's.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let header = message.get(..HEADER)?;
        let flags = *header.get(2)?;
        let (is_answer, operation) = (flags & 0x80 != 0, flags & 0x78);
        if is_answer || operation != 0 || header.get(4..6)? != [0, 1] {
            return None;
        }
        let (name, end) = read_name(message, HEADER)?;
        let [high, low, class_high, class_low] = *message.get(end..end + 4)?.as_array()?;
        if u16::from_be_bytes([class_high, class_low]) != INTERNET {
            return None;
        }
        Some(Self {
            id: *header.get(..2)?.as_array()?,
            recursion_desired: flags & 1 != 0,
            section: message.get(HEADER..end + 4)?.to_vec(),
            name,
            kind: Kind::of(u16::from_be_bytes([high, low])),
        })
    }

    /// The answer as a datagram; one that is too long says so, and is asked for again over TCP.
    pub(super) fn datagram(&self, answer: &Answer) -> Vec<u8> {
        let message = self.message(answer);
        if message.len() <= DATAGRAM {
            return message;
        }
        let mut short = self.message(&Answer::Found(Vec::new()));
        if let Some(flags) = short.get_mut(2) {
            *flags |= 2;
        }
        short
    }

    /// The whole answer.
    pub(super) fn message(&self, answer: &Answer) -> Vec<u8> {
        let (code, records) = match answer {
            Answer::Found(records) => (0, records.as_slice()),
            Answer::NoSuchName => (3, &[][..]),
        };
        let count = u16::try_from(records.len()).unwrap_or(u16::MAX);
        let mut message = self.id.to_vec();
        // An answer, by whoever knows best; it says that it would look further so that nobody complains
        message.push(0x84 | u8::from(self.recursion_desired));
        message.push(0x80 | code);
        message.extend([0, 1]);
        message.extend(count.to_be_bytes());
        message.extend([0; 4]);
        message.extend(&self.section);
        for record in records.iter().take(usize::from(count)) {
            write_record(&mut message, record);
        }
        message
    }
}

/// A name and where it ends. A question has nothing before it, so nothing to point back to.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut place = start;
    loop {
        let length = usize::from(*message.get(place)?);
        place += 1;
        if length == 0 {
            return Some((labels.join("."), place));
        }
        if length > LONGEST_LABEL {
            return None;
        }
        let label = message.get(place..place + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        place += length;
    }
}

fn write_name(message: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = label.as_bytes();
        let label = label.get(..LONGEST_LABEL).unwrap_or(label);
        message.push(u8::try_from(label.len()).unwrap_or_default());
        message.extend(label);
    }
    message.push(0);
}

fn write_record(message: &mut Vec<u8>, record: &Record) {
    let mut data = Vec::new();
    let kind = match &record.data {
        Data::A(address) => {
            data.extend(address.octets());
            Kind::A
        }
        Data::Aaaa(address) => {
            data.extend(address.octets());
            Kind::Aaaa
        }
        Data::Cname(target) => {
            write_name(&mut data, target);
            Kind::Cname
        }
        Data::Srv { port, target } => {
            let (priority, weight) = (0_u16, 100_u16);
            for number in [priority, weight, *port] {
                data.extend(number.to_be_bytes());
            }
            write_name(&mut data, target);
            Kind::Srv
        }
    };
    write_name(message, &record.name);
    message.extend(kind.number().to_be_bytes());
    message.extend(INTERNET.to_be_bytes());
    message.extend(SECONDS_TO_LIVE.to_be_bytes());
    message.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
    message.extend(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Web.shop` of kind A, with the number 0x1234, recursion desired.
    const ASKED: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03Web\x04shop\x00\x00\x01\x00\x01";

    #[test]
    fn a_question_is_read() {
        let question = Question::read(ASKED).unwrap();
        assert_eq!(question.name, "web.shop");
        assert_eq!(question.kind, Kind::A);
    }

    #[test]
    fn an_answer_repeats_the_question_and_has_the_records() {
        let question = Question::read(ASKED).unwrap();
        let record = Record {
            name: "web.shop".to_owned(),
            data: Data::A(Ipv4Addr::new(10, 96, 0, 7)),
        };
        let expected: &[u8] =
            b"\x12\x34\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03Web\x04shop\x00\x00\x01\x00\x01\
            \x03web\x04shop\x00\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x0a\x60\x00\x07";
        assert_eq!(question.datagram(&Answer::Found(vec![record])), expected);
        let unknown = question.datagram(&Answer::NoSuchName);
        assert_eq!(unknown.get(2..8).unwrap(), [0x85, 0x83, 0, 1, 0, 0]);
    }

    #[test]
    fn a_long_answer_asks_for_tcp() {
        let question = Question::read(ASKED).unwrap();
        let record = Record {
            name: "web.shop".to_owned(),
            data: Data::A(Ipv4Addr::LOCALHOST),
        };
        let answer = Answer::Found(vec![record; 40]);
        let short = question.datagram(&answer);
        assert_eq!(short.get(2..8).unwrap(), [0x87, 0x80, 0, 1, 0, 0]);
        assert!(question.message(&answer).len() > DATAGRAM);
    }

    #[test]
    fn no_bytes_are_too_strange() {
        for end in 0..ASKED.len() {
            assert_eq!(Question::read(&ASKED[..end]), None);
        }
        let any = proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600);
        crate::try_some(500, &any, |bytes| drop(Question::read(&bytes)));
    }
}
