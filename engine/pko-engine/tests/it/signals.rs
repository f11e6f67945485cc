//! Signals while a step waits for an answer: a server that holds one request until the test lets it
//! go.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use serde_json::{Value, json};

use crate::stage::{Done, Stage};

/// A server of config maps, of which it creates none before it may.
struct StandInServer {
    address: String,
    /// Says that a request to create one has come.
    came: Receiver<()>,
    /// Lets it go.
    go: Sender<()>,
}

impl StandInServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (came, seen) = channel();
        let (go, held) = channel();
        let held = Arc::new(std::sync::Mutex::new(held));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (came, held) = (came.clone(), Arc::clone(&held));
                thread::spawn(move || serve(&stream.unwrap(), &came, &held));
            }
        });
        Self {
            address,
            came: seen,
            go,
        }
    }
}

fn serve(
    stream: &TcpStream,
    came: &Sender<()>,
    held: &std::sync::Mutex<Receiver<()>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(number) = header.to_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, answer) = answer(&first, &body, came, held);
        let text = answer.to_string();
        write!(
            &*stream,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
        .ok()?;
    }
}

fn answer(
    first: &str,
    body: &[u8],
    came: &Sender<()>,
    held: &std::sync::Mutex<Receiver<()>>,
) -> (&'static str, Value) {
    let kinds = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1",
        "resources": [{"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap", "verbs": ["get", "patch"]}],
    });
    if first.starts_with("GET /api/v1 ") {
        return ("200 OK", kinds);
    }
    if first.starts_with("PATCH ") {
        let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
        object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000001");
        object["metadata"]["resourceVersion"] = json!("1");
        if !first.contains("dryRun") {
            came.send(()).unwrap();
            _ = held.lock().unwrap().recv();
        }
        return ("201 Created", object);
    }
    let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"});
    ("404 Not Found", missing)
}

fn stage(server: &StandInServer) -> Stage {
    let stage = Stage::new(
        "name: demo\nruntime: yaml\nresources:\n  one:\n    type: kubernetes:core/v1:ConfigMap\n    properties:\n      metadata: {name: one, namespace: here}\n      data: {a: b}\n  two:\n    type: pulumi:index:Stash\n    properties: {input: '${one.metadata.name}'}\n    options: {dependsOn: ['${one}']}\n",
    );
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", server.address)}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    stage.write("kubeconfig", &config.to_string());
    stage.ok(&["stack", "init", "dev"]);
    stage
}

/// An up that hangs in the creation of its first resource; its output, line by line.
fn hanging(stage: &Stage, server: &StandInServer) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = stage.command(&["up", "--yes", "--skip-preview", "--stack", "dev"]);
    command.env("KUBECONFIG", stage.path("project/kubeconfig"));
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    server.came.recv().unwrap();
    (child, output)
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
}

fn read_until(output: &mut impl std::io::BufRead, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        assert!(output.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    seen
}

fn finish(child: Child, mut output: impl std::io::Read, seen: String) -> Done {
    let mut seen = seen;
    output.read_to_string(&mut seen).unwrap();
    Done {
        stdout: seen,
        ..Done::from(child.wait_with_output().unwrap())
    }
}

fn state(stage: &Stage) -> (usize, Value) {
    let document = stage.json(&["stack", "export"]);
    let deployment = &document["deployment"];
    (
        deployment["resources"].as_array().unwrap().len(),
        deployment["pending_operations"].clone(),
    )
}

#[test]
fn first_signal_finishes_running_step_only() {
    let server = StandInServer::start();
    let stage = stage(&server);
    let (child, mut output) = hanging(&stage, &server);
    interrupt(&child);
    let seen = read_until(&mut output, "press ^C again");
    server.go.send(()).unwrap();
    let done = finish(child, output, seen);
    assert_eq!(done.code, Some(8), "{done:?}");
    assert!(
        done.stdout
            .contains("kubernetes:core/v1:ConfigMap one created"),
        "{done:?}"
    );
    assert!(done.stdout.contains("error: update canceled"), "{done:?}");
    // the stack, the provider and what was being created
    assert_eq!(state(&stage), (3, Value::Null));
}

#[test]
fn second_signal_ends_run_with_pending_operations() {
    let server = StandInServer::start();
    let stage = stage(&server);
    let (child, mut output) = hanging(&stage, &server);
    interrupt(&child);
    let seen = read_until(&mut output, "press ^C again");
    interrupt(&child);
    // the request has no response: the run still ends
    let done = finish(child, output, seen);
    assert_eq!(done.code, Some(8), "{done:?}");
    assert!(done.stdout.contains("^C received; terminating"), "{done:?}");
    assert_eq!(done.stderr, "error: update canceled\n");
    let (resources, pending) = state(&stage);
    assert_eq!(resources, 2);
    assert_eq!(pending[0]["type"], json!("creating"));
    assert_eq!(
        pending[0]["resource"]["type"],
        json!("kubernetes:core/v1:ConfigMap")
    );
    let locks = stage.path("state/.pulumi/locks/organization/demo/dev");
    assert_eq!(std::fs::read_dir(locks).unwrap().count(), 0);
}
