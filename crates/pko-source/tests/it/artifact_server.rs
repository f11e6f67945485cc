//! Artifacts from servers of every kind: slow, broken, busy, and such as send us elsewhere.

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
    artifact::{self, ArtifactError, DigestError, DownloadError, Fetched, Limits, Request},
};
use sha2::Digest;

use crate::artifact_archive::{Block, gzip, tar};

/// What a server does with a request, which is its first line and its headers.
type Behaviour = Box<dyn Fn(&str, &mut TcpStream) + Send>;

/// A server that does one thing after the other, and the last one again and again.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(behaviours: Vec<Behaviour>) -> Self {
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

/// An answer with a status, headers and a body, and its end.
fn answer(status: &'static str, headers: &'static str, body: Vec<u8>) -> Behaviour {
    Box::new(move |_, connection| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n"
        );
        // Whoever asks may have gone away.
        let _ = connection.write_all(head.as_bytes());
        let _ = connection.write_all(&body);
    })
}

fn status(status: &'static str) -> Behaviour {
    answer(status, "", b"no archive".to_vec())
}

fn redirect(location: String) -> Behaviour {
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

fn good() -> Behaviour {
    answer("200 OK", "", archive())
}

fn digest(bytes: &[u8]) -> String {
    let hash = sha2::Sha256::digest(bytes);
    let hex: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

/// Fetches; the waits that it would have made.
fn fetch_within(
    url: &str,
    target: &Path,
    limits: Limits,
    time: Duration,
) -> (Result<Fetched, ArtifactError>, Vec<u64>) {
    let mut waits = Vec::new();
    let request = Request {
        url,
        digest: &digest(&archive()),
        target,
        limits,
        deadline: Deadline::after(time),
    };
    let outcome = artifact::fetch_with(&request, &mut |wait| waits.push(wait.as_secs()));
    (outcome, waits)
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("source")
    }

    fn fetch(&self, url: &str) -> (Result<Fetched, ArtifactError>, Vec<u64>) {
        let minutes = Duration::from_mins(10);
        fetch_within(url, &self.target(), Limits::default(), minutes)
    }

    /// Nothing came, and nothing is left.
    fn is_empty(&self) -> bool {
        fs::read_dir(self.0.path()).unwrap().next().is_none()
    }
}

/// The error with all that is behind it.
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
fn a_server_that_fails_is_asked_four_times() {
    let place = Place::new();
    let server = Server::new(vec![
        status("500 Internal Server Error"),
        status("502 Bad Gateway"),
        Box::new(|_, _| {}),
        good(),
    ]);
    let (outcome, waits) = place.fetch(&server.url());
    assert_eq!(outcome.unwrap().unpacked.entries, 1);
    assert_eq!(waits, [5, 10, 20]);
    assert!(place.target().join("Pulumi.yaml").is_file());

    let place = Place::new();
    let server = Server::new(vec![status("503 Service Unavailable")]);
    let (outcome, waits) = place.fetch(&server.url());
    let text = outcome.unwrap_err().to_string();
    let start = format!("failed to download archive from {}", server.url());
    assert!(text.starts_with(&start) && text.contains("503"), "{text}");
    assert_eq!((waits.len(), server.requests().len()), (3, 4));
    assert!(place.is_empty());
}

#[test]
fn a_busy_server_says_when_to_come_back() {
    let place = Place::new();
    let busy = |status| answer(status, "Retry-After: 7\r\n", Vec::new());
    let server = Server::new(vec![
        busy("429 Too Many Requests"),
        busy("503 Service Unavailable"),
        busy("500 Internal Server Error"),
        good(),
    ]);
    let (outcome, waits) = place.fetch(&server.url());
    outcome.unwrap();
    assert_eq!(waits, [7, 7, 20]);
    // Longer than there is time: it is not tried again.
    let never = answer(
        "429 Too Many Requests",
        "Retry-After: 86400\r\n",
        Vec::new(),
    );
    let server = Server::new(vec![never]);
    let (outcome, waits) = place.fetch(&server.url());
    assert!(outcome.unwrap_err().to_string().contains("429"));
    assert_eq!(waits, [0; 0]);
}

#[test]
fn what_is_not_there_or_not_for_us_is_not_asked_for_again() {
    for (line, said) in [
        ("404 Not Found", "file not found"),
        ("403 Forbidden", "(status: 403 Forbidden)"),
        ("501 Not Implemented", "(status: 501 Not Implemented)"),
        ("204 No Content", "(status: 204 No Content)"),
    ] {
        let place = Place::new();
        let server = Server::new(vec![answer(line, "", Vec::new())]);
        let (outcome, waits) = place.fetch(&server.url());
        let text = outcome.unwrap_err().to_string();
        assert!(text.ends_with(said), "{text}");
        assert_eq!(waits, [0; 0]);
        assert!(place.is_empty());
    }
}

#[test]
fn a_server_that_hangs_or_drips_is_left_in_time() {
    let hang: fn() -> Behaviour = || Box::new(|_, _| thread::sleep(Duration::from_hours(1)));
    let drip: fn() -> Behaviour = || {
        Box::new(|_, connection| {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            while connection.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let slow_head: fn() -> Behaviour = || {
        Box::new(|_, connection| {
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nX: ");
            while connection.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    for behaviour in [hang, drip, slow_head] {
        let place = Place::new();
        let server = Server::new(vec![behaviour()]);
        let time = Duration::from_millis(700);
        let (outcome, _) = fetch_within(&server.url(), &place.target(), Limits::default(), time);
        let error = outcome.unwrap_err();
        let late = matches!(error, ArtifactError::Download(DownloadError::Late { .. }));
        assert!(late, "{}", chain(&error));
        assert!(place.is_empty());
    }
}

#[test]
fn an_answer_that_is_cut_off_is_asked_for_again() {
    let place = Place::new();
    let cut: Behaviour = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    });
    let server = Server::new(vec![cut, good()]);
    let (outcome, waits) = place.fetch(&server.url());
    outcome.unwrap();
    assert_eq!(waits, [5]);
}

#[test]
fn an_answer_without_a_length() {
    let place = Place::new();
    let chunked: Behaviour = Box::new(|_, connection| {
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for part in archive().chunks(10) {
            text.extend(format!("{:x}\r\n", part.len()).bytes());
            text.extend(part);
            text.extend(b"\r\n");
        }
        text.extend(b"0\r\n\r\n");
        let _ = connection.write_all(&text);
    });
    let until_closed: Behaviour = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        let _ = connection.write_all(&archive());
    });
    for behaviour in [chunked, until_closed] {
        let server = Server::new(vec![behaviour]);
        let (outcome, _) = place.fetch(&server.url());
        assert_eq!(outcome.unwrap().downloaded, archive().len() as u64);
    }
}

#[test]
fn too_much_is_not_downloaded() {
    let limits = Limits {
        download: Some(1000),
        ..Limits::default()
    };
    let said: Behaviour = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
    });
    let endless: Behaviour = Box::new(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while connection.write_all(&[0; 4096]).is_ok() {}
    });
    for behaviour in [said, endless] {
        let place = Place::new();
        let server = Server::new(vec![behaviour]);
        let minutes = Duration::from_mins(10);
        let (outcome, waits) = fetch_within(&server.url(), &place.target(), limits, minutes);
        let text = outcome.unwrap_err().to_string();
        assert!(
            text.ends_with("bigger than the largest download of 1000 bytes"),
            "{text}"
        );
        assert_eq!(waits, [0; 0]);
        assert!(place.is_empty());
    }
}

#[test]
fn another_archive_than_the_wanted_one() {
    let place = Place::new();
    let server = Server::new(vec![good()]);
    place.fetch(&server.url()).0.unwrap();
    let other = gzip(&tar(&[Block::file("evil", "")]));
    let server = Server::new(vec![answer("200 OK", "", other)]);
    let (outcome, waits) = place.fetch(&server.url());
    let mismatch = matches!(
        outcome,
        Err(ArtifactError::Digest(DigestError::Mismatch { .. }))
    );
    assert!(mismatch, "{outcome:?}");
    assert_eq!(waits, [0; 0]);
    // What was there before is still there.
    assert!(place.target().join("Pulumi.yaml").is_file());
    assert!(!place.target().join("evil").exists());
}

#[test]
fn a_login_is_shown_to_its_server_alone_and_printed_nowhere() {
    let other = Server::new(vec![good()]);
    let first = Server::new(vec![redirect(other.url())]);
    let place = Place::new();
    let url = first.url().replace("http://", "http://me:canary@");
    place.fetch(&url).0.unwrap();
    let (asked, sent_on) = (first.requests().concat(), other.requests().concat());
    // me:canary
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

    let within = Server::new(vec![redirect("/elsewhere".to_owned()), good()]);
    let url = within.url().replace("http://", "http://me:canary@");
    place.fetch(&url).0.unwrap();
    let requests = within.requests();
    assert!(requests[1].starts_with("GET /elsewhere "), "{requests:?}");
    assert!(requests[1].contains("uthorization"), "{requests:?}");

    let closed = "http://me:canary@127.0.0.1:1/x?token=canary".to_owned();
    let refused = Server::new(vec![status("403 Forbidden")]);
    let refused = refused.url().replace("http://", "http://me:canary@") + "?token=canary";
    let bad = "ftp://me:canary@host.test/x".to_owned();
    let odd = "http://me:canary@host test/x".to_owned();
    for url in [closed, refused, bad, odd] {
        let (outcome, _) = place.fetch(&url);
        let text = chain(&outcome.unwrap_err());
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn redirects_have_an_end() {
    let place = Place::new();
    let server = Server::new(vec![redirect("/again".to_owned())]);
    let (outcome, waits) = place.fetch(&server.url());
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
        let server = Server::new(vec![redirect(location.to_owned()), status("404 Not Found")]);
        let (outcome, _) = place.fetch(&server.url());
        assert!(outcome.is_err(), "{location}");
        assert!(place.is_empty());
    }
}
