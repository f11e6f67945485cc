use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::Value;

use super::*;
use crate::pem::PemSection;

/// Generated once per format, because that is slow.
fn key(format: &str) -> String {
    static KEYS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let formats = ["PEM", "PKCS8"].into_iter();
        formats
            .map(|format| (format.to_owned(), generate(format)))
            .collect()
    });
    keys.iter()
        .find(|(name, _)| name == format)
        .unwrap()
        .1
        .clone()
}

fn generate(format: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-m", format]);
    let status = command.arg("-f").arg(&file).status();
    let status = status.expect("ssh-keygen is missing: install openssh-client");
    assert!(status.success());
    fs::read_to_string(file).unwrap()
}

fn app(format: &str) -> GithubApp {
    GithubApp {
        app_id: "1234".to_owned(),
        installation_id: "5678\n".to_owned(),
        private_key: Redacted::new(key(format)),
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

struct RecordedRequest {
    line: String,
    headers: HashMap<String, String>,
}

/// Answers the nth request with the nth response, and further ones with the last.
struct Api {
    address: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Api {
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for mut stream in listener.incoming().filter_map(Result::ok) {
                let request = read_request(&stream);
                let mut seen = seen.lock();
                let answer = answers.get(seen.len()).or(answers.last()).unwrap();
                seen.push(request);
                drop(seen);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, requests }
    }

    fn count(&self) -> usize {
        self.requests.lock().len()
    }

    fn tokens(&self) -> GithubTokens {
        let mut tokens = GithubTokens::new(&self.address).unwrap();
        tokens.pause = |_| {};
        tokens
    }
}

fn read_request(stream: &TcpStream) -> RecordedRequest {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let line = lines.next().unwrap_or_default();
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    RecordedRequest {
        line,
        headers: headers.collect(),
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"
    )
}

fn granted(token: &str, end: &str) -> String {
    let body = format!(r#"{{"token":"{token}","expires_at":"{end}","permissions":{{}}}}"#);
    answer("201 Created", "", &body)
}

/// The claims of a JWT, after verifying its signature.
fn claims(jwt: &str, private: &str) -> Value {
    let section = PemSection::first(private, &[]).unwrap_or_else(|error| panic!("{error:?}"));
    let pair = RsaKeyPair::from_der(&section.body);
    let pair = pair
        .or_else(|_| RsaKeyPair::from_pkcs8(&section.body))
        .unwrap();
    let public = pair.public_key().as_ref().to_vec();
    let (message, signature) = jwt.rsplit_once('.').unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let verifier = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    verifier.verify(message.as_bytes(), &signature).unwrap();
    let (header, claims) = message.split_once('.').unwrap();
    let json = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
    let header: Value = serde_json::from_slice(&json(header)).unwrap();
    assert_eq!(header, serde_json::json!({"alg": "RS256", "typ": "JWT"}));
    serde_json::from_slice(&json(claims)).unwrap()
}

#[test]
fn github_token_request_has_jwt_and_headers() {
    for format in ["PEM", "PKCS8"] {
        let api = Api::start(vec![granted("ghs_secret", "2026-01-02T04:04:05Z")]);
        let token = api.tokens().token(&app(format), now(), soon()).unwrap();
        assert_eq!(token.expose(), "ghs_secret");
        let requests = api.requests.lock();
        let request = &requests[0];
        assert_eq!(
            request.line,
            "POST /app/installations/5678/access_tokens HTTP/1.1"
        );
        assert_eq!(request.headers["accept"], "application/vnd.github+json");
        assert_eq!(request.headers["x-github-api-version"], "2022-11-28");
        assert_eq!(request.headers["content-length"], "0");
        let jwt = request.headers["authorization"]
            .strip_prefix("Bearer ")
            .unwrap();
        let claims = claims(jwt, &key(format));
        let second = now().as_second();
        let expected = serde_json::json!({"iat": second - 60, "exp": second + 600, "iss": "1234"});
        assert_eq!(claims, expected);
    }
}

#[test]
fn github_token_is_renewed_before_expiry() {
    let first = granted("first", "2026-01-02T04:00:00Z");
    let api = Api::start(vec![first, granted("second", "2026-01-02T05:00:00Z")]);
    let tokens = api.tokens();
    let at = |time: &str| {
        let token = tokens.token(&app("PEM"), time.parse().unwrap(), soon());
        token.unwrap().expose().to_owned()
    };
    assert_eq!(at("2026-01-02T03:00:00Z"), "first");
    assert_eq!(at("2026-01-02T03:54:59Z"), "first");
    assert_eq!(api.count(), 1);
    assert_eq!(at("2026-01-02T03:55:00Z"), "second");
    assert_eq!(at("2026-01-02T04:30:00Z"), "second");
    assert_eq!(api.count(), 2);
    // Another key may be another tenant's.
    let token = tokens.token(&app("PKCS8"), now(), soon());
    assert_eq!(token.unwrap().expose(), "second");
    assert_eq!(api.count(), 3);
    assert_eq!(tokens.slots.lock().len(), 2);
    // Expired tokens are dropped.
    at("2026-01-03T00:00:00Z");
    assert_eq!(tokens.slots.lock().len(), 1);
}

#[test]
fn github_token_concurrent_callers_share_a_request() {
    let api = Api::start(vec![granted("one", "2026-01-02T04:04:05Z")]);
    let tokens = api.tokens();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let token = tokens.token(&app("PEM"), now(), soon()).unwrap();
                assert_eq!(token.expose(), "one");
            });
        }
    });
    assert_eq!(api.count(), 1);
}

#[test]
fn github_token_waiters_share_a_failure() {
    let slot = TokenSlot::default();
    slot.state.lock().in_flight = true;
    let failure = GithubAppError::EmptyToken;
    let mut state = slot.state.lock();
    let before = state.completed;
    drop(state);
    let pending = PendingRequest(&slot);
    pending.complete(Err(failure.clone()));
    drop(pending);
    state = slot.state.lock();
    assert_eq!((state.completed, state.in_flight), (before + 1, false));
    assert_eq!(state.failure, Some(failure));
    drop(state);

    let api = Api::start(vec![
        answer("404 Not Found", "", "no"),
        granted("later", "2026-01-02T04:04:05Z"),
    ]);
    let tokens = api.tokens();
    assert!(tokens.token(&app("PEM"), now(), soon()).is_err());
    let token = tokens.token(&app("PEM"), now(), soon());
    assert_eq!(token.unwrap().expose(), "later");
}

static PAUSES: AtomicUsize = AtomicUsize::new(0);

#[test]
fn github_token_retry_respects_retry_after() {
    let api = Api::start(vec![
        answer("503 Service Unavailable", "", "later"),
        answer("429 Too Many Requests", "Retry-After: 7\r\n", "slow down"),
        granted("at last", "2026-01-02T04:04:05Z"),
    ]);
    let mut tokens = api.tokens();
    tokens.pause = |time| {
        PAUSES.fetch_add(usize::try_from(time.as_secs()).unwrap(), Ordering::SeqCst);
    };
    let token = tokens.token(&app("PEM"), now(), soon());
    assert_eq!(token.unwrap().expose(), "at last");
    assert_eq!(PAUSES.load(Ordering::SeqCst), 1 + 7);
    assert_eq!(api.count(), 3);
}

#[test]
fn github_token_gives_up_after_three_attempts() {
    let api = Api::start(vec![answer("500 Internal Server Error", "", "broken")]);
    let error = api.tokens().token(&app("PEM"), now(), soon()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "getting GitHub App installation token: GitHub API returned status 500: broken"
    );
    assert_eq!(api.count(), 3);
}

#[test]
fn github_token_retry_past_deadline_fails() {
    let limited = answer(
        "429 Too Many Requests",
        "Retry-After: 3600\r\n",
        "slow down",
    );
    let api = Api::start(vec![limited]);
    let error = api.tokens().token(&app("PEM"), now(), soon()).unwrap_err();
    let GithubAppError::Status {
        status,
        retry_after,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((status, retry_after), (429, Some(Duration::from_hours(1))));
    assert_eq!(api.count(), 1);
}

#[test]
fn github_token_errors_have_upstream_texts() {
    let prefix = "getting GitHub App installation token: ";
    let long = "x".repeat(10_000);
    let table = [
        (
            answer("404 Not Found", "", r#"{"message":"Not Found"}"#),
            r#"GitHub API returned status 404: {"message":"Not Found"}"#.to_owned(),
        ),
        (
            answer("401 Unauthorized", "", &long),
            format!("GitHub API returned status 401: {}", "x".repeat(500)),
        ),
        (
            answer("200 OK", "", r#"{"token":"t"}"#),
            "GitHub API returned status 200: ".to_owned(),
        ),
        (
            answer("201 Created", "", "{}"),
            "GitHub API returned an empty token".to_owned(),
        ),
        (
            answer("201 Created", "", r#"{"token":"ghs_canary"#),
            "the GitHub API returned an unexpected response".to_owned(),
        ),
        (
            answer("302 Found", "Location: http://127.0.0.1:1/\r\n", ""),
            "GitHub API returned status 302: ".to_owned(),
        ),
    ];
    for (answer, expected) in table {
        let api = Api::start(vec![answer]);
        let error = api.tokens().token(&app("PEM"), now(), soon()).unwrap_err();
        assert_eq!(error.to_string(), format!("{prefix}{expected}"));
    }
}

#[test]
fn github_token_endless_response_fails() {
    let endless = answer("201 Created", "", &" ".repeat(1024 * 1024));
    let api = Api::start(vec![endless]);
    let error = api.tokens().token(&app("PEM"), now(), soon()).unwrap_err();
    assert!(
        matches!(error, GithubAppError::Unreachable { .. }),
        "{error}"
    );
}

#[test]
fn github_token_hanging_server_fails_all_waiters() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let tokens = GithubTokens::new(&address).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let deadline = Deadline::after(Duration::from_secs(1));
                let error = tokens.token(&app("PEM"), now(), deadline).unwrap_err();
                assert!(matches!(error, GithubAppError::Deadline { .. }), "{error}");
            });
        }
    });
}

#[test]
fn github_token_invalid_app_sends_no_request() {
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    let api = Api::start(vec![granted("never", "2026-01-02T04:04:05Z")]);
    let error = |change: fn(&mut GithubApp)| {
        let mut app = app("PEM");
        change(&mut app);
        api.tokens().token(&app, now(), soon()).unwrap_err()
    };
    let no_key = error(|app| app.private_key = Redacted::new("hunter2".to_owned()));
    assert_eq!(
        no_key.to_string(),
        "getting GitHub App installation token: creating GitHub App JWT: failed to decode PEM block from GitHub App private key"
    );
    assert_eq!(
        error(|app| app.private_key = Redacted::new(PUBLIC.to_owned())),
        GithubAppError::InvalidKey
    );
    let other = error(|app| app.installation_id = "../../user".to_owned());
    assert_eq!(other, GithubAppError::InvalidId("installation id"));
    assert_eq!(
        error(|app| app.installation_id = "..".to_owned()),
        GithubAppError::InvalidId("installation id")
    );
    assert_eq!(
        error(|app| app.app_id = "\"".to_owned()),
        GithubAppError::InvalidId("app id")
    );
    assert_eq!(
        error(|app| app.app_id = " \n".to_owned()),
        GithubAppError::InvalidId("app id")
    );
    assert_eq!(api.count(), 0);
}

#[test]
fn github_app_key_formatting_is_tolerated() {
    let api = Api::start(vec![granted("fine", "2026-01-02T04:04:05Z")]);
    let text = key("PEM");
    for text in [
        text.replace('\n', "\r\n"),
        text.replace('\n', "\\n"),
        format!("  {text}  "),
    ] {
        let mut app = app("PEM");
        app.private_key = Redacted::new(text);
        assert!(api.tokens().token(&app, now(), soon()).is_ok());
    }
}

#[test]
fn github_api_without_tls_is_rejected() {
    for api in [
        "http://api.github.com",
        "api.github.com",
        "",
        "ftp://x",
        "http://127.0.0.1.evil.org",
    ] {
        assert!(
            matches!(GithubTokens::new(api), Err(GithubAppError::InsecureApi(_))),
            "{api}"
        );
    }
    for api in [GITHUB_API, "https://git.example.com/api/v3/"] {
        assert!(GithubTokens::new(api).is_ok(), "{api}");
    }
}
