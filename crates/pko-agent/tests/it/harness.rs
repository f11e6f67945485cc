//! A workspace with a scripted `pulumi`, and an agent that serves it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use pko_proto::{
    agent::{UpRequest, automation_service_client::AutomationServiceClient},
    run::{
        GetRunRequest, Run, RunEvent, RunResult, RunStack, StackConfig, StartRunRequest,
        WatchRunRequest, run_event, run_service_client::RunServiceClient, start_run_request,
    },
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
    task::JoinHandle,
};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

/// An operation that goes well: four events, plain outputs.
pub(crate) const SIMPLE: &str = r#"
emit '{"sequence":0,"preludeEvent":{"config":{}}}'
emit '{"sequence":1,"resOutputsEvent":{"metadata":{"type":"pulumi:pulumi:Stack","new":{"outputs":{"size":4}}}}}'
emit '{"sequence":2,"summaryEvent":{"resourceChanges":{"create":2}}}'
emit '{"sequence":3,"cancelEvent":{}}'
echo 'Updating (dev):'
echo 'View Live: https://example.com/updates/1'
"#;

/// The same with a secret among the outputs.
pub(crate) const SECRET: &str = r#"
emit '{"resOutputsEvent":{"metadata":{"type":"pulumi:pulumi:Stack","new":{"outputs":{"password":{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"[secret]"},"size":4}}}}}'
"#;

/// Two events, then nothing until the test makes `gate`, then one more.
pub(crate) const GATED: &str = r#"
emit '{"sequence":0}'
emit '{"sequence":1}'
wait_for gate
emit '{"sequence":2}'
"#;

/// Ends when it is interrupted.
pub(crate) const OBEDIENT: &str = r#"
trap 'emit "{\"sequence\":1,\"cancelEvent\":{}}"; echo "error: update canceled" >&2; exit 8' INT
emit '{"sequence":0}'
wait_for never
"#;

/// Does not.
pub(crate) const STUBBORN: &str = r#"
trap '' INT
emit '{"sequence":0}'
wait_for never
"#;

/// A workspace and its surroundings.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pulumi: PathBuf,
}

impl Place {
    pub(crate) fn new(operation: &str) -> Self {
        let mut place = Self::with_program(PathBuf::new(), "name: demo\nruntime: yaml\n");
        place.pulumi = place.path("pulumi");
        fs::write(&place.pulumi, include_str!("fake_pulumi.sh")).unwrap();
        fs::set_permissions(&place.pulumi, fs::Permissions::from_mode(0o755)).unwrap();
        place.set("operation", operation);
        place.set("calls", "");
        place
    }

    /// With a real `pulumi` or the embedded engine, and the state in a folder.
    pub(crate) fn with_program(pulumi: PathBuf, program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder, pulumi };
        for name in ["workspace", "fake", "state", "home"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        fs::write(place.workspace().join("Pulumi.yaml"), program).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    /// Writes a file for the stand-in.
    pub(crate) fn set(&self, name: &str, text: &str) {
        fs::write(self.path("fake").join(name), text).unwrap();
    }

    /// Reads a file of the stand-in.
    pub(crate) fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path("fake").join(name)).unwrap_or_default()
    }

    /// The first two words of each call, without the question for the version at the start.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = self.get("calls");
        let short = |line: &str| {
            let line = line.trim_start_matches("--non-interactive ");
            line.split(' ').take(2).collect::<Vec<_>>().join(" ")
        };
        let asked = calls.lines().filter(|line| *line != "version");
        asked.map(short).collect()
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        let begins = |line: &&String| line.starts_with(call);
        self.calls().iter().filter(begins).count()
    }

    pub(crate) async fn serve(&self, flags: &[&str]) -> Agent {
        Agent::start(self, flags).await
    }
}

/// A running agent.
pub(crate) struct Agent {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    socket: PathBuf,
}

impl Agent {
    async fn start(place: &Place, flags: &[&str]) -> Self {
        let socket = place.path("agent.sock");
        let mut child = Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["--", "serve", "--skip-install", "--verbose", "--workspace"])
            .arg(place.workspace())
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .args(flags)
            .env("PKO_PULUMI", &place.pulumi)
            .env("FAKE", place.path("fake"))
            .env("PULUMI_HOME", place.path("home"))
            .env(
                "PULUMI_BACKEND_URL",
                format!("file://{}", place.path("state").display()),
            )
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (reader, mut lines) = follow(child.stderr.take().unwrap(), Arc::clone(&log));
        loop {
            let line = lines.recv().await;
            let line = line.unwrap_or_else(|| panic!("no agent: {}", log.lock().unwrap()));
            if line.contains("Serving") {
                break;
            }
        }
        Self {
            child,
            log,
            reader,
            socket,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let uri = format!("unix:{}", self.socket.display());
        Endpoint::from_shared(uri).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn runs(&self) -> RunServiceClient<Channel> {
        RunServiceClient::new(self.channel().await)
    }

    pub(crate) async fn automation(&self) -> AutomationServiceClient<Channel> {
        AutomationServiceClient::new(self.channel().await)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn process(&self) -> Pid {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        Pid::from_raw(id).unwrap()
    }

    /// From now on nobody reads its log.
    pub(crate) async fn ignore_log(&mut self) {
        self.reader.abort();
        // The pipe is closed once the task is gone.
        let _ = (&mut self.reader).await;
    }

    /// As a crash or the kernel would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn terminate(&self) {
        kill_process(self.process(), Signal::TERM).unwrap();
    }

    /// Until it has ended; its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }
}

fn follow(
    pipe: tokio::process::ChildStderr,
    log: Arc<Mutex<String>>,
) -> (JoinHandle<()>, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let reader = tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut log = log.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
            let _ = sender.send(line);
        }
    });
    (reader, receiver)
}

/// An update of stack `dev`, which is created.
pub(crate) fn update(run_id: &str) -> StartRunRequest {
    StartRunRequest {
        run_id: run_id.to_owned(),
        stack: Some(RunStack {
            name: "dev".to_owned(),
            create: true,
            ..Default::default()
        }),
        operation: Some(start_run_request::Operation::Up(UpRequest {
            message: Some(run_id.to_owned()),
            ..Default::default()
        })),
        time_limit: None,
    }
}

pub(crate) fn configured(run_id: &str, config: StackConfig) -> StartRunRequest {
    let mut request = update(run_id);
    request.stack.as_mut().unwrap().config = Some(config);
    request
}

pub(crate) async fn get(client: &mut RunServiceClient<Channel>, run_id: &str) -> Run {
    let run_id = run_id.to_owned();
    client
        .get_run(GetRunRequest { run_id })
        .await
        .unwrap()
        .into_inner()
}

pub(crate) async fn watch(
    client: &mut RunServiceClient<Channel>,
    run_id: &str,
    after_sequence: u64,
) -> Streaming<RunEvent> {
    let request = WatchRunRequest {
        run_id: run_id.to_owned(),
        after_sequence,
    };
    client.watch_run(request).await.unwrap().into_inner()
}

/// The numbers of the events that are left, and the result.
pub(crate) async fn rest(mut events: Streaming<RunEvent>) -> (Vec<u64>, Option<RunResult>) {
    let mut numbers = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        numbers.push(event.sequence);
        if let Some(run_event::Event::Result(result)) = event.event {
            assert!(
                events.message().await.unwrap().is_none(),
                "the result is the last"
            );
            return (numbers, Some(result));
        }
    }
    (numbers, None)
}

/// Watches a run to its end.
pub(crate) async fn finished(client: &mut RunServiceClient<Channel>, run_id: &str) -> RunResult {
    let events = watch(client, run_id, 0).await;
    rest(events).await.1.unwrap()
}

/// Everything in a folder, as text.
pub(crate) fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&all_text(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}
