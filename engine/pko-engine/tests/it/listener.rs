//! Events to a listener: the service that the agent gives, and what becomes of a run whose listener
//! is not there.

use std::{
    net::SocketAddr,
    sync::mpsc::{Receiver, Sender, channel},
};

use pko_proto::events::{
    EventRequest,
    events_server::{Events, EventsServer},
};
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

use crate::stage::{Done, Stage};

const PROGRAM: &str = "name: demo\nruntime: yaml\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: {fn::secret: hush-hush}}}\n  b: {type: 'pulumi:index:Stash', properties: {input: '${a.output}'}}\noutputs:\n  b: ${b.output}\n";

/// Takes events, up to some number; then it breaks off.
struct Ear {
    heard: Sender<String>,
    patience: usize,
}

#[tonic::async_trait]
impl Events for Ear {
    async fn stream_events(
        &self,
        request: Request<Streaming<EventRequest>>,
    ) -> Result<Response<()>, Status> {
        let mut events = request.into_inner();
        let mut left = self.patience;
        while let Some(event) = events.message().await? {
            self.heard.send(event.event).unwrap();
            left -= 1;
            if left == 0 {
                return Err(Status::aborted("enough"));
            }
        }
        Ok(Response::new(()))
    }
}

fn listen(runtime: &Runtime, patience: usize) -> (SocketAddr, Receiver<String>) {
    let (heard, events) = channel();
    let _guard = runtime.enter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let ear = EventsServer::new(Ear { heard, patience });
    runtime.spawn(
        Server::builder()
            .add_service(ear)
            .serve_with_incoming(incoming),
    );
    (address, events)
}

fn stage() -> Stage {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    stage
}

/// A run whose events go to a listener.
fn up(stage: &Stage, address: SocketAddr) -> Done {
    up_with_events_to(stage, &format!("tcp://{address}"))
}

fn up_with_events_to(stage: &Stage, place: &str) -> Done {
    let words = [
        "up",
        "--yes",
        "--skip-preview",
        "--parallel=1",
        "--stack",
        "dev",
        "--event-log",
        place,
    ];
    stage.run(&words)
}

/// What an event is, without what differs from run to run.
fn essence(event: &Value) -> String {
    let kind = event.as_object().unwrap().keys();
    let kind = kind.filter(|key| !["sequence", "timestamp"].contains(&key.as_str()));
    let kind = kind.cloned().collect::<Vec<_>>().join(",");
    let metadata = &event[&kind]["metadata"];
    format!(
        "{} {kind} {} {}",
        event["sequence"], metadata["op"], metadata["urn"]
    )
}

#[test]
fn event_listener_receives_events_in_order() {
    let runtime = Runtime::new().unwrap();
    let (address, events) = listen(&runtime, usize::MAX);
    let stage = stage();
    let done = up(&stage, address);
    assert_eq!(done.code, Some(0), "{done:?}");
    // the run waits for the answer, so all has arrived
    let heard: Vec<Value> = events
        .try_iter()
        .map(|event| serde_json::from_str(&event).unwrap())
        .collect();
    let heard_essence: Vec<_> = heard.iter().map(essence).collect();

    let other = self::stage();
    let log = other.path("events.jsonl");
    let done = up_with_events_to(&other, log.to_str().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    let filed: Vec<_> = other.events().iter().map(essence).collect();
    assert_eq!(heard_essence, filed);
    assert!(heard.len() > 8, "{heard_essence:?}");
    assert!(heard.last().unwrap().get("cancelEvent").is_some());
    let text = Value::Array(heard).to_string();
    assert!(!text.contains("hush-hush"), "{text}");
}

#[test]
fn disconnected_event_listener_does_not_fail_run() {
    let runtime = Runtime::new().unwrap();
    let (address, events) = listen(&runtime, 2);
    let stage = stage();
    let done = up(&stage, address);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(events.try_iter().count(), 2);
    assert_eq!(
        stage.json(&["stack", "ls", "--json"])[0]["resourceCount"],
        4
    );
}

#[test]
fn dead_event_listener_does_not_fail_run() {
    let runtime = Runtime::new().unwrap();
    let (address, events) = listen(&runtime, usize::MAX);
    let stage = stage();
    let place = format!("tcp://{address}");
    let mut command = stage.command(&["up", "--yes", "--skip-preview", "--event-log", &place]);
    command.env("PKO_ENGINE_STEP_DELAY", "200ms");
    let child = command.spawn().unwrap();
    events.recv().unwrap();
    runtime.shutdown_background();
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn missing_event_listener_does_not_fail_run() {
    // bound and released: the port has no listener
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let stage = stage();
    let done = up(&stage, address);
    assert_eq!(done.code, Some(0), "{done:?}");
}
