//! Downloads from servers that are slow, broken, busy or redirect.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use pko_source::{
    Deadline, RedirectError,
    artifact::{
        self, ArtifactError, ArtifactLimits, ArtifactRequest, DigestError, DownloadError,
        FetchedArtifact,
    },
};
use sha2::Digest;

use crate::artifact_harness::{Block, gzip, tar};

/// Handles a request, given its first line and headers.
type RequestHandler = Box<dyn Fn(&str, &mut TcpStream) + Send>;

/// Uses one handler after the other, and repeats the last one.
struct ScriptedServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    fn new(behaviours: Vec<RequestHandler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let mut connection = connection.unwrap();
                let request = read_head(&connection);
                seen.lock().unwrap().push(request.clone());
                let behaviour = behaviours.get(number).or(behaviours.last());
                behaviour.unwrap()(&request, &mut connection);
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/artifact.tar.gz", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_head(connection: &TcpStream) -> String {
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    lines
        .take_while(|line| !line.is_empty())
        .fold(String::new(), |mut head, line| {
            let _ = writeln!(head, "{line}");
            head
        })
}

fn answer(status: &'static str, headers: &'static str, body: Vec<u8>) -> RequestHandler {
    Box::new(move |_, connection| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n"
        );
        // The client may have closed the connection.
        let _ = connection.write_all(head.as_bytes());
        let _ = connection.write_all(&body);
    })
}

fn status(status: &'static str) -> RequestHandler {
    answer(status, "", b"no archive".to_vec())
}

fn redirect(location: String) -> RequestHandler {
    Box::new(move |_, connection| {
        let head = format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let _ = connection.write_all(head.as_bytes());
    })
}

fn archive() -> Vec<u8> {
    gzip(&tar(&[Block::file("Pulumi.yaml", "name: demo\n")]))
}

fn good() -> RequestHandler {
    answer("200 OK", "", archive())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(sha2::Sha256::digest(bytes)))
}

/// Fetches, and returns the delays between attempts.
fn fetch_within(
    url: &str,
    target: &Path,
    limits: ArtifactLimits,
    time: Duration,
) -> (Result<FetchedArtifact, ArtifactError>, Vec<u64>) {
    let mut waits = Vec::new();
    let request = ArtifactRequest {
        url,
        digest: &digest(&archive()),
        target,
        limits,
        deadline: Deadline::after(time),
    };
    let outcome = artifact::fetch_with(&request, &mut |wait| waits.push(wait.as_secs()));
    (outcome, waits)
}

struct FetchTarget(tempfile::TempDir);

impl FetchTarget {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("source")
    }

    fn fetch(&self, url: &str) -> (Result<FetchedArtifact, ArtifactError>, Vec<u64>) {
        let minutes = Duration::from_mins(10);
        fetch_within(url, &self.target(), ArtifactLimits::default(), minutes)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.0.path()).unwrap().next().is_none()
    }
}

/// The error with all its sources.
fn chain(error: &ArtifactError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(inner) = source {
        let _ = write!(text, ": {inner}");
        source = inner.source();
    }
    text
}

#[test]
fn download_failing_server_is_tried_four_times() {
    let target_dir = FetchTarget::new();
    let server = ScriptedServer::new(vec![
        status("500 Internal Server Error"),
        status("502 Bad Gateway"),
        Box::new(|_, _| {}),
        good(),
    ]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    assert_eq!(outcome.unwrap().unpacked.entries, 1);
    assert_eq!(waits, [5, 10, 20]);
    assert!(target_dir.target().join("Pulumi.yaml").is_file());

    let target_dir = FetchTarget::new();
    let server = ScriptedServer::new(vec![status("503 Service Unavailable")]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    let text = outcome.unwrap_err().to_string();
    let start = format!("failed to download archive from {}", server.url());
    assert!(text.starts_with(&start) && text.contains("503"), "{text}");
    assert_eq!((waits.len(), server.requests().len()), (3, 4));
    assert!(target_dir.is_empty());
}

#[test]
fn download_respects_retry_after() {
    let target_dir = FetchTarget::new();
    let busy = |status| answer(status, "Retry-After: 7\r\n", Vec::new());
    let server = ScriptedServer::new(vec![
        busy("429 Too Many Requests"),
        busy("503 Service Unavailable"),
        busy("500 Internal Server Error"),
        good(),
    ]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    outcome.unwrap();
    assert_eq!(waits, [7, 7, 20]);
    // Longer than the deadline: not retried.
    let never = answer(
        "429 Too Many Requests",
        "Retry-After: 86400\r\n",
        Vec::new(),
    );
    let server = ScriptedServer::new(vec![never]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    assert!(outcome.unwrap_err().to_string().contains("429"));
    assert_eq!(waits, [0; 0]);
}

#[test]
fn download_permanent_errors_are_not_retried() {
    for (line, expected) in [
        ("404 Not Found", "file not found"),
        ("403 Forbidden", "(status: 403 Forbidden)"),
        ("501 Not Implemented", "(status: 501 Not Implemented)"),
        ("204 No Content", "(status: 204 No Content)"),
    ] {
        let target_dir = FetchTarget::new();
        let server = ScriptedServer::new(vec![answer(line, "", Vec::new())]);
        let (outcome, waits) = target_dir.fetch(&server.url());
        let text = outcome.unwrap_err().to_string();
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(waits, [0; 0]);
        assert!(target_dir.is_empty());
    }
}

#[test]
fn download_slow_server_ends_at_deadline() {
    let hang: fn() -> RequestHandler = || Box::new(|_, _| thread::sleep(Duration::from_hours(1)));
    let drip: fn() -> RequestHandler = || {
        Box::new(|_, connection| {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            while connection.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let slow_head: fn() -> RequestHandler = || {
        Box::new(|_, connection| {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nX: ");
            while connection.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    for behaviour in [hang, drip, slow_head] {
        let target_dir = FetchTarget::new();
        let server = ScriptedServer::new(vec![behaviour()]);
        let time = Duration::from_millis(700);
        let (outcome, _) = fetch_within(
            &server.url(),
            &target_dir.target(),
            ArtifactLimits::default(),
            time,
        );
        let error = outcome.unwrap_err();
        let late = matches!(error, ArtifactError::Download(DownloadError::Late { .. }));
        assert!(late, "{}", chain(&error));
        assert!(target_dir.is_empty());
    }
}

#[test]
fn download_truncated_response_is_retried() {
    let target_dir = FetchTarget::new();
    let cut: RequestHandler = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    });
    let server = ScriptedServer::new(vec![cut, good()]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    outcome.unwrap();
    assert_eq!(waits, [5]);
}

#[test]
fn download_without_content_length_succeeds() {
    let target_dir = FetchTarget::new();
    let chunked: RequestHandler = Box::new(|_, connection| {
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for part in archive().chunks(10) {
            text.extend(format!("{:x}\r\n", part.len()).bytes());
            text.extend(part);
            text.extend(b"\r\n");
        }
        text.extend(b"0\r\n\r\n");
        let _ = connection.write_all(&text);
    });
    let until_closed: RequestHandler = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        let _ = connection.write_all(&archive());
    });
    for behaviour in [chunked, until_closed] {
        let server = ScriptedServer::new(vec![behaviour]);
        let (outcome, _) = target_dir.fetch(&server.url());
        assert_eq!(outcome.unwrap().downloaded, archive().len() as u64);
    }
}

#[test]
fn download_size_is_limited() {
    let limits = ArtifactLimits {
        download: Some(1000),
        ..ArtifactLimits::default()
    };
    let declared: RequestHandler = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
    });
    let endless: RequestHandler = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while connection.write_all(&[0; 4096]).is_ok() {}
    });
    for behaviour in [declared, endless] {
        let target_dir = FetchTarget::new();
        let server = ScriptedServer::new(vec![behaviour]);
        let minutes = Duration::from_mins(10);
        let (outcome, waits) = fetch_within(&server.url(), &target_dir.target(), limits, minutes);
        let text = outcome.unwrap_err().to_string();
        assert!(
            text.ends_with("larger than the download limit of 1000 bytes"),
            "{text}"
        );
        assert_eq!(waits, [0; 0]);
        assert!(target_dir.is_empty());
    }
}

#[test]
fn download_digest_mismatch_keeps_target() {
    let target_dir = FetchTarget::new();
    let server = ScriptedServer::new(vec![good()]);
    target_dir.fetch(&server.url()).0.unwrap();
    let other = gzip(&tar(&[Block::file("evil", "")]));
    let server = ScriptedServer::new(vec![answer("200 OK", "", other)]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    let mismatch = matches!(
        outcome,
        Err(ArtifactError::Digest(DigestError::Mismatch { .. }))
    );
    assert!(mismatch, "{outcome:?}");
    assert_eq!(waits, [0; 0]);
    // The previous content is unchanged.
    assert!(target_dir.target().join("Pulumi.yaml").is_file());
    assert!(!target_dir.target().join("evil").exists());
}

#[test]
fn download_credentials_stay_on_origin_and_unprinted() {
    let other = ScriptedServer::new(vec![good()]);
    let first = ScriptedServer::new(vec![redirect(other.url())]);
    let target_dir = FetchTarget::new();
    let url = first.url().replace("http://", "http://me:canary@");
    target_dir.fetch(&url).0.unwrap();
    let (asked, sent_on) = (first.requests().concat(), other.requests().concat());
    // base64 of `me:canary`
    assert!(
        asked
            .to_lowercase()
            .contains("authorization: basic bwu6y2fuyxj5"),
        "{asked}"
    );
    assert!(
        !sent_on.to_lowercase().contains("authorization"),
        "{sent_on}"
    );

    let within = ScriptedServer::new(vec![redirect("/elsewhere".to_owned()), good()]);
    let url = within.url().replace("http://", "http://me:canary@");
    target_dir.fetch(&url).0.unwrap();
    let requests = within.requests();
    assert!(requests[1].starts_with("GET /elsewhere "), "{requests:?}");
    assert!(requests[1].contains("uthorization"), "{requests:?}");

    let closed = "http://me:canary@127.0.0.1:1/x?token=canary".to_owned();
    let refused = ScriptedServer::new(vec![status("403 Forbidden")]);
    let refused = refused.url().replace("http://", "http://me:canary@") + "?token=canary";
    let bad = "ftp://me:canary@host.test/x".to_owned();
    let odd = "http://me:canary@host test/x".to_owned();
    for url in [closed, refused, bad, odd] {
        let (outcome, _) = target_dir.fetch(&url);
        let text = chain(&outcome.unwrap_err());
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn download_redirects_are_limited() {
    let target_dir = FetchTarget::new();
    let server = ScriptedServer::new(vec![redirect("/again".to_owned())]);
    let (outcome, waits) = target_dir.fetch(&server.url());
    let circles = matches!(
        outcome,
        Err(ArtifactError::Download(DownloadError::Redirect {
            source: RedirectError::TooOften(10),
            ..
        }))
    );
    assert!(circles, "{outcome:?}");
    assert_eq!((waits.len(), server.requests().len()), (0, 11));
    for location in ["file:///etc/passwd", "", "ext::sh -c touch% /tmp/x"] {
        let server =
            ScriptedServer::new(vec![redirect(location.to_owned()), status("404 Not Found")]);
        let (outcome, _) = target_dir.fetch(&server.url());
        assert!(outcome.is_err(), "{location}");
        assert!(target_dir.is_empty());
    }
}
