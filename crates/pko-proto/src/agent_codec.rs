//! A codec for callers of agents that they don't trust: it looks at an encoded message before it
//! decodes it, and decodes no more than is needed.

use std::marker::PhantomData;

use prost::{Message, bytes::Buf as _, bytes::Bytes};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::{
    agent,
    run::{Run, RunState},
    wire_scan::{count_fields, for_each_field},
};

/// An honest result has a field for each output and each note.
pub const MAX_RESULT_FIELDS: usize = 100_000;
/// A workspace executes one run at a time.
pub const MAX_ACTIVE_RUNS: usize = 32;
/// The longest id that an agent takes.
const MAX_ID_BYTES: usize = 128;

/// A message of an agent, decoded with care.
pub trait FromAgent: Send + Sync + Sized + 'static {
    /// Fails if decoding would take too much.
    fn from_agent(message: Bytes) -> Result<Self, Status>;
}

/// Encodes requests as usual, and decodes responses with [`FromAgent`].
pub struct AgentCodec<Request, Reply>(PhantomData<fn() -> (Request, Reply)>);

/// The decoder of an [`AgentCodec`].
pub struct AgentDecoder<Reply>(PhantomData<fn() -> Reply>);

impl<Request, Reply> Default for AgentCodec<Request, Reply> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Request: Message + 'static, Reply: FromAgent> Codec for AgentCodec<Request, Reply> {
    type Encode = Request;
    type Decode = Reply;
    type Encoder = ProstEncoder<Request>;
    type Decoder = AgentDecoder<Reply>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Request, ()>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        AgentDecoder(PhantomData)
    }
}

impl<Reply: FromAgent> Decoder for AgentDecoder<Reply> {
    type Item = Reply;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Reply>, Status> {
        let message = source.copy_to_bytes(source.remaining());
        Reply::from_agent(message).map(Some)
    }
}

/// Any message, of which only the arrival matters.
#[derive(Debug)]
pub struct Ignored;

impl FromAgent for Ignored {
    fn from_agent(_: Bytes) -> Result<Self, Status> {
        Ok(Self)
    }
}

impl FromAgent for Run {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        const RESULT: u32 = 9;
        decode_bounded(message, &[RESULT])
    }
}

/// The ids of the runs in a `ListRunsResponse` that have not ended, at most [`MAX_ACTIVE_RUNS`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ActiveRuns {
    /// In the order of the list.
    pub ids: Vec<String>,
    /// The agent lists more.
    pub is_cut: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RunHead {
    #[prost(string, tag = "1")]
    run_id: String,
    #[prost(enumeration = "RunState", tag = "2")]
    state: i32,
}

impl FromAgent for ActiveRuns {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        const RUNS: u32 = 1;
        let mut active = Self::default();
        let read = for_each_field(&message, |tag, run| {
            let Some(run) = run.filter(|_| tag == RUNS) else {
                return Some(true);
            };
            let run = RunHead::decode(run).ok()?;
            let is_active = matches!(run.state(), RunState::Queued | RunState::Running);
            if is_active && is_run_id(&run.run_id) {
                active.is_cut = active.ids.len() == MAX_ACTIVE_RUNS;
                if !active.is_cut {
                    active.ids.push(run.run_id);
                }
            }
            Some(!active.is_cut)
        });
        read.map(|()| active).ok_or_else(malformed)
    }
}

fn is_run_id(id: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_legal)
}

/// The messages of the four operations have either an event or the result. Events are not needed.
fn decode_unless_event<Reply: Message + Default>(message: Bytes) -> Result<Reply, Status> {
    const RESULT: u32 = 2;
    let mut tags = Vec::new();
    let read = for_each_field(&message, |tag, _| {
        tags.push(tag);
        (tags.len() <= 1).then_some(true)
    });
    read.ok_or_else(malformed)?;
    if tags == [RESULT] {
        return decode_bounded(message, &[RESULT]);
    }
    Ok(Reply::default())
}

impl FromAgent for agent::PreviewStream {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        decode_unless_event(message)
    }
}

impl FromAgent for agent::UpStream {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        decode_unless_event(message)
    }
}

impl FromAgent for agent::RefreshStream {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        decode_unless_event(message)
    }
}

impl FromAgent for agent::DestroyStream {
    fn from_agent(message: Bytes) -> Result<Self, Status> {
        decode_unless_event(message)
    }
}

fn decode_bounded<Reply: Message + Default>(message: Bytes, path: &[u32]) -> Result<Reply, Status> {
    let fields = count_fields(&message, path).ok_or_else(malformed)?;
    if fields > MAX_RESULT_FIELDS {
        return Err(Status::out_of_range(format!(
            "the message has {fields} fields, and the limit is {MAX_RESULT_FIELDS}"
        )));
    }
    Reply::decode(message).map_err(|_| malformed())
}

fn malformed() -> Status {
    Status::internal("the agent sent a malformed message")
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::{
        agent::{OutputValue, UpResult, UpStream, up_stream},
        run::{ListRunsResponse, RunResult},
    };

    fn encoded(message: &impl Message) -> Bytes {
        message.encode_to_vec().into()
    }

    fn active(runs: Vec<Run>) -> ActiveRuns {
        ActiveRuns::from_agent(encoded(&ListRunsResponse { runs })).unwrap()
    }

    fn run(id: &str, state: RunState) -> Run {
        Run {
            run_id: id.to_owned(),
            state: state.into(),
            ..Run::default()
        }
    }

    #[test]
    fn active_runs_are_few_and_have_valid_ids() {
        let listed = vec![
            run("a", RunState::Running),
            run("b", RunState::Succeeded),
            run("../c", RunState::Queued),
            run("d", RunState::Queued),
        ];
        let expected = ActiveRuns {
            ids: vec!["a".to_owned(), "d".to_owned()],
            is_cut: false,
        };
        assert_eq!(active(listed), expected);
        let many = (0..100_000).map(|number| run(&number.to_string(), RunState::Running));
        let many = active(many.collect());
        assert_eq!((many.ids.len(), many.is_cut), (MAX_ACTIVE_RUNS, true));
        let exactly = (0..32).map(|number| run(&number.to_string(), RunState::Running));
        assert!(!active(exactly.collect()).is_cut);
    }

    #[test]
    fn result_of_too_many_fields_is_not_decoded() {
        let result = |notes: usize| Run {
            result: Some(RunResult {
                notes: vec![String::new(); notes],
                ..RunResult::default()
            }),
            ..Run::default()
        };
        let fine = result(MAX_RESULT_FIELDS - 1);
        assert_eq!(Run::from_agent(encoded(&fine)).unwrap(), fine);
        let status = Run::from_agent(encoded(&result(4_000_000))).unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange);
        assert!(status.message().contains("the limit is 100000"));
    }

    #[test]
    fn operation_events_are_skipped() {
        let event = UpStream {
            response: Some(up_stream::Response::Event(prost_types::Struct::default())),
        };
        let skipped = UpStream::from_agent(encoded(&event)).unwrap();
        assert_eq!(skipped.response, None);
        let result = UpResult {
            outputs: [("size".to_owned(), OutputValue::default())].into(),
            ..UpResult::default()
        };
        let result = UpStream {
            response: Some(up_stream::Response::Result(result)),
        };
        assert_eq!(UpStream::from_agent(encoded(&result)).unwrap(), result);
        let both = [encoded(&event), encoded(&result)].concat();
        assert!(UpStream::from_agent(both.into()).is_err());
    }

    #[test]
    fn malformed_message_is_an_error() {
        let garbage = || Bytes::from_static(&[0x0a, 200, 1]);
        assert!(Run::from_agent(garbage()).is_err());
        assert!(ActiveRuns::from_agent(garbage()).is_err());
        assert!(UpStream::from_agent(garbage()).is_err());
    }
}
