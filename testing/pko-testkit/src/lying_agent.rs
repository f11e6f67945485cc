//! An agent that lies to its manager. It has the services of a real one, executes nothing, and
//! reports what no honest agent would.

mod automation;
mod run_service;

use std::pin::Pin;

use futures::Stream;
use pko_proto::{
    agent::{OutputValue, UpdateSummary, automation_service_server::AutomationServiceServer},
    run::{Run, RunResult, RunState, run_service_server::RunServiceServer},
};
use tonic::{Response, Status, service::Routes};

/// The environment variable of the program `lying-agent` that names its lie.
pub const LIE_VARIABLE: &str = "PKO_LIE";

/// What an agent lies about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The result of each run has 9 MiB of outputs.
    Oversized,
    /// The result of each run is small on the wire and large in memory.
    Expanding,
    /// 100,000 runs go on.
    ManyRuns,
    /// It answers for another agent's run.
    OtherRun,
    /// Times in the years 1970 and 9999, negative counts and an address that is none.
    Times,
    /// It is asked for a run and never answers.
    Silent,
    /// A run never ends, and its events never end either.
    EndlessEvents,
    /// A run goes on, and each watch of it ends at once.
    FalseEnds,
    /// Its failures have 200 KiB of headers.
    LongHeaders,
}

impl Lie {
    const ALL: [(&str, Self); 9] = [
        ("oversized", Self::Oversized),
        ("expanding", Self::Expanding),
        ("many-runs", Self::ManyRuns),
        ("other-run", Self::OtherRun),
        ("times", Self::Times),
        ("silent", Self::Silent),
        ("endless-events", Self::EndlessEvents),
        ("false-ends", Self::FalseEnds),
        ("long-headers", Self::LongHeaders),
    ];

    /// The lie of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|(other, _)| *other == name).map(|(_, lie)| *lie)
    }
}

/// The services of a lying agent.
#[must_use]
pub fn routes(lie: Lie) -> Routes {
    Routes::new(AutomationServiceServer::new(LyingAgent(lie)))
        .add_service(RunServiceServer::new(LyingAgent(lie)))
}

#[derive(Clone, Copy)]
struct LyingAgent(Lie);

type GrpcReply<T> = Result<Response<T>, Status>;
type Messages<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// A run of this id, as the agent reports it.
fn run(lie: Lie, id: &str) -> Run {
    let ended = |result: RunResult| Run {
        run_id: id.to_owned(),
        state: RunState::Succeeded.into(),
        result: Some(result),
        ..Run::default()
    };
    match lie {
        Lie::Oversized => ended(with_output(9 * 1024 * 1024)),
        Lie::Expanding => ended(RunResult {
            notes: vec![String::new(); 4_000_000],
            ..RunResult::default()
        }),
        Lie::Times => ended(impossible_result()),
        Lie::OtherRun => Run {
            run_id: "00000000-0000-0000-0000-000000000000".to_owned(),
            ..ended(RunResult::default())
        },
        _ => Run {
            run_id: id.to_owned(),
            state: RunState::Running.into(),
            ..Run::default()
        },
    }
}

/// A result with one output of so many bytes.
#[must_use]
pub fn with_output(bytes: usize) -> RunResult {
    let output = OutputValue {
        value: vec![b'1'; bytes],
        secret: false,
    };
    RunResult {
        outputs: [("big".to_owned(), output)].into(),
        ..RunResult::default()
    }
}

fn impossible_result() -> RunResult {
    let time = |seconds| pko_proto_timestamp(seconds);
    RunResult {
        summary: Some(UpdateSummary {
            start_time: time(0),
            end_time: time(253_402_207_200),
            result: "succeeded".to_owned(),
            message: "all fine".to_owned(),
        }),
        permalink: Some("javascript:alert(1)".to_owned()),
        resource_changes: [("create".to_owned(), -7), ("same".to_owned(), 1)].into(),
        ..RunResult::default()
    }
}

fn pko_proto_timestamp(seconds: i64) -> Option<pko_proto::Timestamp> {
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(pko_proto::convert::to_proto_timestamp(time))
}
