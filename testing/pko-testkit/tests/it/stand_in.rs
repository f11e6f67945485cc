//! Scripts of the stand-in.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};

use pko_proto::events::{
    EventRequest,
    events_server::{Events, EventsServer},
};
use pko_testkit::{DEADLINE, Interrupt, Reply, Script, StandIn, eventually};
use serde_json::json;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming, transport::Server};

struct StandInProject {
    folder: tempfile::TempDir,
    stand_in: StandIn,
}

impl StandInProject {
    fn new(script: &Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stand_in = StandIn::new(folder.path().join("stand-in"), script);
        fs::write(
            folder.path().join("Pulumi.yaml"),
            "name: demo\nruntime: yaml\n",
        )
        .unwrap();
        Self { folder, stand_in }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(StandIn::program());
        command
            .args(line.split(' '))
            .current_dir(self.folder.path())
            .env("PKO_STAND_IN", self.stand_in.folder())
            .env("PULUMI_BACKEND_URL", "file:///state")
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn start(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("events")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn interrupt(child: &Child) {
    let id = i32::try_from(child.id()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[test]
fn call_is_recorded_with_requested_variables() {
    let project = StandInProject::new(&Script::new().records("EXTRA"));
    let output = project
        .command("--non-interactive stack init dev")
        .env("EXTRA", "visible")
        .output()
        .unwrap();
    assert!(output.status.success());
    let calls = project.stand_in.calls();
    let call = calls.first().unwrap();
    assert!(call.is("stack init") && !call.is("stack select"));
    assert_eq!(call.line(), "--non-interactive stack init dev");
    assert_eq!(call.folder, project.folder.path().canonicalize().unwrap());
    assert_eq!(call.variables["EXTRA"], "visible");
    assert_eq!(call.code, Some(0));
    assert!(call.ended.unwrap() >= call.began && call.signals.is_empty());
}

#[test]
fn rule_with_nth_applies_to_that_call_only() {
    let script = Script::new().on_call("whoami", 2, Reply::no_token());
    let project = StandInProject::new(&script);
    let codes = [(); 3].map(|()| project.run("whoami").status.code().unwrap());
    assert_eq!(codes, [0, 3, 0]);
}

#[test]
fn reply_steps_run_in_order() {
    let answer = Reply::new()
        .prints("out\n")
        .prints_error("err\n")
        .event(json!({"sequence": 7}))
        .floods(3, 10)
        .prints_bytes(b"\xff")
        .creates("done")
        .exits(5);
    let project = StandInProject::new(&Script::new().on("up", answer));
    let output = project.run("up --event-log events");
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        (&*output.stdout, &*output.stderr),
        (&b"out\n\xff"[..], &b"err\n"[..])
    );
    assert_eq!(project.events().len(), 4);
    assert_eq!(project.events()[0], r#"{"sequence":7}"#);
    assert!(project.stand_in.has("done"));
}

#[test]
fn scripted_signal_ends_stand_in() {
    use std::os::unix::process::ExitStatusExt;
    let project = StandInProject::new(&Script::new().on("up", Reply::new().dies(9)));
    assert_eq!(project.run("up").status.signal(), Some(9));
}

#[tokio::test]
async fn interrupt_is_obeyed_or_ignored_as_scripted() {
    let obedient = Reply::new().creates("ready").hangs();
    let project = StandInProject::new(&Script::new().on("up", obedient));
    let child = project.start("up --event-log events");
    ready(&project).await;
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"error: update canceled\n");
    assert_eq!(project.events(), [r#"{"cancelEvent":{}}"#]);
    assert_eq!(project.stand_in.calls()[0].signals, [2]);

    let stubborn = Reply::new().creates("ready").waits_for("gate");
    let project =
        StandInProject::new(&Script::new().on("up", stubborn.on_interrupt(Interrupt::Ignore)));
    let child = project.start("up");
    ready(&project).await;
    interrupt(&child);
    recorded_signal(&project).await;
    project.stand_in.create("gate");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

async fn ready(project: &StandInProject) {
    let ready = async || project.stand_in.has("ready").then_some(()).ok_or("nothing");
    eventually("the stand-in", ready).await.unwrap();
}

async fn recorded_signal(project: &StandInProject) {
    let recorded = async || {
        let calls = project.stand_in.calls();
        (calls[0].signals == [2]).then_some(()).ok_or("nothing")
    };
    eventually("the signal", recorded).await.unwrap();
}

#[test]
fn grandchild_holds_pipes_open() {
    let answer = Reply::new()
        .prints("said\n")
        .leaves_grandchild_until("gate");
    let project = StandInProject::new(&Script::new().on("up", answer));
    let mut child = project.start("up");
    let mut pipe = child.stdout.take().unwrap();
    assert!(child.wait().unwrap().success());
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut pipe).unwrap());
    assert!(!reader.is_finished());
    project.stand_in.create("gate");
    assert_eq!(reader.join().unwrap(), "said\n");
}

#[test]
fn unknown_flag_is_rejected() {
    let project = StandInProject::new(&Script::new().on("up", Reply::new()));
    let output = project.run("up --nosuchflag");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"error: unknown flag: --nosuchflag\n");
    let hidden = project
        .command("up --event-log events")
        .env_remove("PULUMI_DEBUG_COMMANDS")
        .output()
        .unwrap();
    assert_eq!(hidden.stderr, b"error: unknown flag: --event-log\n");
}

/// Forwards the events that it receives.
struct EventListener(mpsc::UnboundedSender<String>);

#[tonic::async_trait]
impl Events for EventListener {
    async fn stream_events(
        &self,
        request: Request<Streaming<EventRequest>>,
    ) -> Result<Response<()>, Status> {
        let mut events = request.into_inner();
        while let Some(event) = events.message().await? {
            self.0.send(event.event).unwrap();
        }
        Ok(Response::new(()))
    }
}

#[tokio::test]
async fn grpc_events_arrive_in_order() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, mut heard) = mpsc::unbounded_channel();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let server = Server::builder()
        .add_service(EventsServer::new(EventListener(sender)))
        .serve_with_incoming(incoming);
    let server = tokio::spawn(server);
    let script = Script::new().on(
        "up",
        Reply::new()
            .floods(1000, 0)
            .event(json!({"cancelEvent": {}})),
    );
    let project = StandInProject::new(&script);
    let line = format!("up --event-log tcp://{address}");
    let output = tokio::task::spawn_blocking(move || project.run(&line))
        .await
        .unwrap();
    assert!(output.status.success());
    for sequence in 0..1000 {
        let event = tokio::time::timeout(DEADLINE, heard.recv())
            .await
            .unwrap()
            .unwrap();
        assert!(
            event.contains(&format!("\"sequence\":{sequence},")),
            "{event}"
        );
    }
    assert_eq!(heard.recv().await.unwrap(), r#"{"cancelEvent":{}}"#);
    server.abort();
}

#[test]
fn unreachable_event_listener_is_ignored() {
    let project = StandInProject::new(&Script::new().on("up", Reply::new().floods(3, 0)));
    let output = project.run("up --event-log tcp://127.0.0.1:1");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn unset_config_uses_program_default() {
    for section in ["config", "configuration"] {
        let project = StandInProject::new(&Script::new());
        let program = format!(
            "name: demo\nruntime: yaml\n{section}:\n  who:\n    type: String\n    default: world\n\
             outputs:\n  greeted: ${{who}}\n"
        );
        fs::write(project.folder.path().join("Pulumi.yaml"), program).unwrap();
        assert!(project.run("stack init dev").status.success());
        for (line, greeted) in [
            ("config set other x", "world"),
            ("config set who shop", "shop"),
        ] {
            assert!(project.run(line).status.success());
            assert!(project.run("up --yes --skip-preview").status.success());
            let outputs = project.run("stack output --json").stdout;
            let outputs: serde_json::Value = serde_json::from_slice(&outputs).unwrap();
            assert_eq!(outputs["greeted"], greeted, "{section}");
        }
    }
}
