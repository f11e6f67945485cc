//! Root certificates and proxies from the environment.
//!
//! The tests run this test binary again, because a process must not change its own environment.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use pko_source::{
    Deadline,
    artifact::{self, ArtifactLimits, ArtifactRequest},
};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};
use sha2::Digest;

use crate::artifact_harness::{Block, gzip, tar};

/// The URL to fetch and the target, for the child process.
const URL: &str = "PKO_TEST_URL";
const FOLDER: &str = "PKO_TEST_FOLDER";

fn archive() -> Vec<u8> {
    gzip(&tar(&[Block::file("Pulumi.yaml", "name: demo\n")]))
}

/// Runs in the child process: fetches and writes the outcome to a file.
#[test]
fn fetch_in_child_process() {
    let (Ok(url), Some(folder)) = (std::env::var(URL), std::env::var_os(FOLDER)) else {
        return;
    };
    let hash = sha2::Sha256::digest(archive());
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = Path::new(&folder);
    let mut waits = 0;
    let request = ArtifactRequest {
        url: &url,
        digest: &hex.concat(),
        target: &folder.join("target"),
        limits: ArtifactLimits::default(),
        deadline: Deadline::after(Duration::from_mins(2)),
    };
    let outcome = artifact::fetch_with(&request, &mut |_| waits += 1);
    fs::write(folder.join("result"), format!("{waits} {outcome:?}")).unwrap();
}

/// The number of delays, and the outcome.
fn outcome(url: &str, environment: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "artifact_environment::fetch_in_child_process"])
        .env_clear()
        .envs(environment.iter().copied())
        .env(URL, url)
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::read_to_string(folder.path().join("result")).unwrap()
}

fn is_good(outcome: &str) -> bool {
    outcome.starts_with("0 Ok(")
}

/// Reads a request's head and returns its first line.
fn head(connection: &mut impl Read) -> String {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first
}

fn answer(connection: &mut impl Write, head: &str, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // A client that does not trust us has closed the connection.
    let _ = connection.write_all(head.as_bytes());
    let _ = connection.write_all(body);
    let _ = connection.flush();
}

/// A server with a self-signed certificate, and the certificate. `/away` redirects to plain http.
fn tls_server() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, connection.unwrap());
            if head(&mut stream).starts_with("GET /away ") {
                let away = "302 Found\r\nLocation: http://localhost:1/x";
                answer(&mut stream, away, b"");
            } else {
                answer(&mut stream, "200 OK", &archive());
            }
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (format!("https://localhost:{port}"), certificate.pem())
}

#[test]
fn artifact_ca_from_environment_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (server, certificate) = tls_server();
    let (url, file) = (format!("{server}/x"), folder.path().join("ca.pem"));
    fs::write(&file, certificate).unwrap();
    let (file, folder) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    for variable in [
        ("SSL_CERT_FILE", file),
        ("SSL_CERT_DIR", folder),
        ("GIT_SSL_CAINFO", file),
    ] {
        let result = outcome(&url, &[variable]);
        assert!(is_good(&result), "{variable:?}: {result}");
    }
    // Untrusted certificates are not retried.
    let result = outcome(&url, &[("SSL_CERT_FILE", "/missing")]);
    assert!(
        result.starts_with("0 Err(") && result.contains("UnknownIssuer"),
        "{result}"
    );
    let result = outcome(&format!("{server}/away"), &[("SSL_CERT_FILE", file)]);
    assert!(result.contains("Downgrade"), "{result}");
}

/// A proxy for one server, and the requests that it received.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection: TcpStream = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut line = || {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                line
            };
            seen.lock().unwrap().push(line());
            while !line().trim().is_empty() {}
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while !line().trim().is_empty() {}
            answer(&mut connection, "200 OK", &archive());
        }
    });
    (address, asked)
}

#[test]
fn artifact_proxy_is_used_except_no_proxy() {
    let (address, asked) = proxy();
    let http = format!("http://me:canary@{address}");
    let url = "http://artifact.test/x";
    let result = outcome(url, &[("HTTP_PROXY", &http)]);
    assert!(is_good(&result), "{result}");
    let first = asked.lock().unwrap().pop().unwrap();
    assert!(first.starts_with("CONNECT artifact.test:80 "), "{first}");
    for environment in [
        vec![("HTTP_PROXY", &*http), ("NO_PROXY", ".test")],
        vec![("HTTPS_PROXY", &*http)],
        vec![("HTTP_PROXY", "me:canary@@")],
        vec![("HTTP_PROXY", "strange://me:canary@proxy.test")],
    ] {
        let result = outcome(url, &environment);
        assert!(!is_good(&result), "{environment:?}: {result}");
        assert!(!result.contains("canary"), "{result}");
        assert!(asked.lock().unwrap().is_empty(), "{environment:?}");
    }
}
