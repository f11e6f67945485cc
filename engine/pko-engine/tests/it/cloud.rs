//! States in buckets, on servers that stand in for the clouds.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use pko_testkit::{Component, Components, find_moto_server, find_tool};
use serde_json::json;

use crate::stage::{Done, Stage, finish};

const PROGRAM: &str = "name: demo\nruntime: yaml\nconfig: {token: {type: string, secret: true}}\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: '${token}'}}\noutputs: {o: '${a.output}', n: 1}\n";

/// A server that ends with the test.
struct BucketServer {
    child: Child,
    port: u16,
}

impl Drop for BucketServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl BucketServer {
    fn start(mut command: Command, port: u16) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self {
            child: command.spawn().unwrap(),
            port,
        };
        let deadline = Instant::now() + Duration::from_mins(3);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            sleep(Duration::from_millis(50));
        }
        server
    }

    fn put(&self, path: &str) {
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        ureq::put(url).send_empty().unwrap();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A stack's life in a bucket, with what the backend looks like from outside.
fn live(url: &str, variables: &[(&str, &str)]) {
    let stage = Stage::new(PROGRAM);
    let run = |words: &[&str]| -> Done {
        let mut command = stage.command(words);
        command.env("PULUMI_BACKEND_URL", url);
        command.envs(variables.iter().copied());
        finish(command)
    };
    let ok = |words: &[&str]| -> String {
        let done = run(words);
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
        done.stdout
    };
    let json = |words: &[&str]| -> serde_json::Value { serde_json::from_str(&ok(words)).unwrap() };
    let up = ["up", "--yes", "--skip-preview", "--stack", "dev"];

    assert_eq!(json(&["whoami", "--json"])["url"], json!(url));
    assert_eq!(run(&["stack", "select", "dev"]).code, Some(6));
    ok(&["stack", "init", "dev"]);
    assert_eq!(run(&["stack", "init", "dev"]).code, Some(1));
    ok(&[
        "config", "set", "token", "hidden", "--secret", "--stack", "dev",
    ]);
    ok(&up);
    let shown = json(&[
        "stack",
        "output",
        "--json",
        "--show-secrets",
        "--stack",
        "dev",
    ]);
    assert_eq!(shown, json!({"o": "hidden", "n": 1}));
    assert_eq!(
        json(&["stack", "ls", "--json"])[0]["resourceCount"],
        json!(3)
    );
    ok(&[up.as_slice(), &["--expect-no-changes"]].concat());
    let history = json(&["stack", "history", "--json", "--stack", "dev"]);
    assert_eq!(history.as_array().unwrap().len(), 2);
    // twice at the same time: the second is refused
    stage.write("Pulumi.yaml", &PROGRAM.replace("'${token}'", "changed"));
    let mut command = stage.command(&up);
    command
        .env("PULUMI_BACKEND_URL", url)
        .envs(variables.iter().copied());
    let mut holder = command.env("PKO_ENGINE_STEP_DELAY", "10m").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "Updating (dev):\n");
    let refused = run(&up);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .stderr
            .contains(".pulumi/locks/organization/demo/dev/"),
        "{refused:?}"
    );
    end(holder);
    ok(&["cancel", "--yes", "--stack", "dev"]);
    ok(&up);
    ok(&["destroy", "--yes", "--skip-preview", "--stack", "dev"]);
    ok(&["stack", "rm", "--yes", "--stack", "dev"]);
    assert_eq!(json(&["stack", "ls", "--json"]), json!([]));
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn stack_lives_in_s3() {
    let Some(program) = find_moto_server() else {
        return pko_testkit::skip(
            "no moto_server; `pip install moto[server]`, or name it in PKO_MOTO_SERVER",
        );
    };
    let port = free_port();
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let server = BucketServer::start(command, port);
    server.put("states");
    let keys = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "key"),
        ("AWS_REGION", "us-east-1"),
    ];
    live(
        &format!(
            "s3://states/team/one?endpoint=127.0.0.1:{port}&disableSSL=true&s3ForcePathStyle=true"
        ),
        &keys,
    );
    live(
        &format!("s3://states?endpoint=http://127.0.0.1:{port}&region=eu-central-1&awssdk=v2"),
        &keys,
    );

    let stage = Stage::new(PROGRAM);
    let mut command = stage.command(&["stack", "ls"]);
    command.env(
        "PULUMI_BACKEND_URL",
        format!("s3://missing?endpoint=http://127.0.0.1:{port}"),
    );
    let refused = finish({
        command.envs(keys);
        command
    });
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("s3://missing") && refused.stderr.contains("NoSuchBucket"),
        "{refused:?}"
    );
}

#[test]
fn stack_lives_in_google_cloud_storage() {
    let program = match std::env::var_os("PKO_FAKE_GCS_SERVER").filter(|named| !named.is_empty()) {
        Some(named) => PathBuf::from(named),
        None => Components::built_path(Component::FakeGcsServer).unwrap(),
    };
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("127.0.0.1:{}", relay.local_addr().unwrap().port());
    let port = free_port();
    let mut command = Command::new(program);
    command.args([
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-backend",
        "memory",
    ]);
    command.args(["-port", &port.to_string()]);
    // it serves the interface that the engine uses under its public name alone
    command.args(["-public-host", &host]);
    let server = BucketServer::start(command, port);
    let bucket = format!("http://127.0.0.1:{}/storage/v1/b", server.port);
    ureq::post(bucket)
        .content_type("application/json")
        .send(r#"{"name":"states"}"#)
        .unwrap();
    std::thread::spawn(move || {
        for client in relay.incoming() {
            std::thread::spawn(move || pass_on(client.unwrap(), port));
        }
    });
    live(
        "gs://states/team",
        &[("STORAGE_EMULATOR_HOST", host.as_str())],
    );
}

/// Passes a request on to fake-gcs-server, which differs from the real service in two things: it
/// takes a plain upload only where it looks like a signed one, and it answers that without an
/// `ETag`.
fn pass_on(mut client: TcpStream, port: u16) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match client.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let wanted = name.eq_ignore_ascii_case("content-length");
        wanted.then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body).unwrap();
    let (line, fields) = head.split_once("\r\n").unwrap();
    let upload = line.starts_with("PUT ");
    let line = if upload {
        line.replace(" HTTP/1.1", "?X-Goog-Algorithm=none HTTP/1.1")
    } else {
        line.to_owned()
    };
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let asked = format!("{line}\r\nConnection: close\r\n{fields}");
    server.write_all(asked.as_bytes()).unwrap();
    server.write_all(&body).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    let first = answer.windows(2).position(|pair| pair == b"\r\n").unwrap() + 2;
    let (status, rest) = answer.split_at(first);
    let tag: &[u8] = if upload { b"ETag: \"tag\"\r\n" } else { b"" };
    client.write_all(&[status, tag, rest].concat()).unwrap();
}

#[test]
fn stack_lives_in_azure_blob_storage() {
    let Some(program) = find_tool(
        "PKO_AZURITE_BLOB",
        "azurite/node_modules/.bin/azurite-blob",
        "azurite-blob",
    ) else {
        return pko_testkit::skip(
            "no azurite-blob; `npm install azurite`, or name it in PKO_AZURITE_BLOB",
        );
    };
    // the account and key that the emulator is known for
    let key =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let port = free_port();
    let mut command = Command::new(program);
    let folder = tempfile::tempdir().unwrap();
    command.args([
        "--blobHost",
        "127.0.0.1",
        "--silent",
        "--skipApiVersionCheck",
        "--blobPort",
        &port.to_string(),
    ]);
    command.arg("--location").arg(folder.path());
    let server = BucketServer::start(command, port);
    let signed = azure_container(&format!("127.0.0.1:{}", server.port), key);
    assert!(signed.is_ok(), "{signed:?}");
    live(
        &format!("azblob://states/team?domain=127.0.0.1:{port}&protocol=http&localemu=true"),
        &[
            ("AZURE_STORAGE_ACCOUNT", "devstoreaccount1"),
            ("AZURE_STORAGE_KEY", key),
        ],
    );
}

/// Makes the container, which takes a signed request: `SharedKey` over its headers.
fn azure_container(host: &str, key: &str) -> Result<(), ureq::Error> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let date = jiff::Timestamp::now()
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string();
    let text = format!(
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n/devstoreaccount1/devstoreaccount1/states\nrestype:container"
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &STANDARD.decode(key).unwrap());
    let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    ureq::put(format!(
        "http://{host}/devstoreaccount1/states?restype=container"
    ))
    .header("x-ms-date", date)
    .header("x-ms-version", "2021-08-06")
    .header(
        "Authorization",
        format!("SharedKey devstoreaccount1:{signature}"),
    )
    .send_empty()
    .map(|_| ())
}
