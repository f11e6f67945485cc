//! Looks at an encoded message before it is decoded. Decoded messages can be a hundred times as
//! large as encoded ones: an empty element of a list takes two bytes on the wire.

use prost::{
    bytes::Buf as _,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

/// The number of fields of a message, elements of lists and maps included, and those of the
/// embedded messages that `path` leads to, by field numbers from the outside to the inside. None
/// for what is no message.
#[must_use]
pub fn count_fields(message: &[u8], path: &[u32]) -> Option<usize> {
    let mut count = 0;
    for_each_field(message, |tag, content| {
        count += 1;
        if let (Some((first, rest)), Some(content)) = (path.split_first(), content)
            && *first == tag
        {
            count += count_fields(content, rest)?;
        }
        Some(true)
    })?;
    Some(count)
}

/// Calls `visit` with the number of each field, and with its content if it is a text, bytes or an
/// embedded message, until that returns false. Returns None for what is no message, or if `visit`
/// does.
pub fn for_each_field<'message>(
    mut message: &'message [u8],
    mut visit: impl FnMut(u32, Option<&'message [u8]>) -> Option<bool>,
) -> Option<()> {
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).ok()?;
        let content = if wire_type == WireType::LengthDelimited {
            Some(take_content(&mut message)?)
        } else {
            skip_field(wire_type, tag, &mut message, DecodeContext::default()).ok()?;
            None
        };
        if !visit(tag, content)? {
            break;
        }
    }
    Some(())
}

fn take_content<'message>(message: &mut &'message [u8]) -> Option<&'message [u8]> {
    let length = usize::try_from(decode_varint(message).ok()?).ok()?;
    let (content, _) = message.split_at_checked(length)?;
    message.advance(length);
    Some(content)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::run::{ListRunsResponse, Run, RunResult};

    #[test]
    fn fields_of_a_result_are_counted() {
        let result = RunResult {
            stdout: "out".to_owned(),
            notes: vec![String::new(); 7],
            resource_changes: [("create".to_owned(), 1), ("same".to_owned(), 2)].into(),
            ..RunResult::default()
        };
        let run = Run {
            run_id: "a".to_owned(),
            last_sequence: 5,
            result: Some(result),
            ..Run::default()
        };
        let bytes = run.encode_to_vec();
        assert_eq!(count_fields(&bytes, &[]).unwrap(), 3);
        assert_eq!(count_fields(&bytes, &[9]).unwrap(), 3 + 10);
        assert_eq!(count_fields(&bytes, &[9, 8]).unwrap(), 3 + 10 + 4);
    }

    #[test]
    fn empty_elements_are_counted() {
        let runs = ListRunsResponse {
            runs: vec![Run::default(); 1000],
        };
        let bytes = runs.encode_to_vec();
        assert_eq!(bytes.len(), 2000);
        assert_eq!(count_fields(&bytes, &[1]).unwrap(), 1000);
        let mut seen = 0;
        let visit = |_, _| {
            seen += 1;
            Some(seen < 3)
        };
        for_each_field(&bytes, visit).unwrap();
        assert_eq!(seen, 3);
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for bytes in [
            &[0x0a, 5, 1][..],
            &[0x0a],
            &[0],
            &[0xff; 12],
            &[0x0a, 0xff, 0xff],
        ] {
            assert!(count_fields(bytes, &[1]).is_none(), "{bytes:?}");
        }
    }
}
