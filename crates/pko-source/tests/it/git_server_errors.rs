//! Git servers that hang, drip, refuse, redirect or send garbage.

use std::time::Duration;

use pko_source::git::{Credentials, GitError, LimitExceeded, RedirectRefusal};
use pko_testkit::git_server::{Fault, GitServer, TestFile};

use crate::git_harness::{GitFixture, all_text, secret};

/// Enough for a healthy server, short enough to wait for.
const SHORT: Duration = Duration::from_secs(2);

#[test]
fn git_endless_server_ends_at_deadline() {
    let mut scene = GitFixture::new();
    scene.deadline = SHORT;
    for fault in [Fault::Hang, Fault::Drip] {
        scene.server.set_fault(Some(fault.clone()));
        let error = scene.resolve("main").unwrap_err();
        assert!(
            matches!(error, GitError::Deadline { .. }),
            "{fault:?}: {error:?}"
        );
        assert!(error.is_transient());
    }
}

#[test]
fn git_status_errors_suggest_a_fix() {
    let scene = GitFixture::new();
    let status = |code: u16, headers: &[(&str, &str)]| {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        scene.server.set_fault(Some(Fault::Status(code, headers)));
        scene.resolve("main").unwrap_err()
    };
    let busy = status(429, &[("Retry-After", "17")]);
    assert!(
        matches!(busy, GitError::TooManyRequests { .. }) && busy.is_transient(),
        "{busy:?}"
    );
    assert_eq!(busy.retry_after(), Some(Duration::from_secs(17)));
    let limited = status(403, &[("Retry-After", "60")]);
    assert!(
        matches!(limited, GitError::TooManyRequests { .. }),
        "{limited:?}"
    );
    for code in [500, 502, 503] {
        let down = status(code, &[]);
        assert!(
            matches!(down, GitError::Server { .. }) && down.is_transient(),
            "{down:?}"
        );
    }
    let forbidden = status(403, &[]);
    assert!(matches!(forbidden, GitError::Denied { status: 403, .. }) && !forbidden.is_transient());
    assert!(matches!(status(404, &[]), GitError::NotFound { .. }));
    assert!(matches!(
        status(418, &[]),
        GitError::Status { status: 418, .. }
    ));
    let page = status(200, &[("Content-Type", "text/html")]);
    assert!(matches!(page, GitError::NotGit { .. }), "{page:?}");
}

#[test]
fn git_unreachable_server_is_transient() {
    let scene = GitFixture::new();
    let url = scene.url();
    drop(scene.server);
    let scene = GitFixture {
        server: GitServer::start(scene.folder.path()).unwrap(),
        ..GitFixture::new()
    };
    let revision = pko_source::git::Revision::parse("main").unwrap();
    let error = scene
        .ask_at(&url, |remote| remote.resolve(&revision))
        .unwrap_err();
    assert!(
        matches!(error, GitError::Network { .. }) && error.is_transient(),
        "{error:?}"
    );
}

#[test]
fn git_redirect_without_credentials_is_followed() {
    let scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let old = GitServer::start(&scene.served()).unwrap();
    old.set_fault(Some(Fault::RedirectTo(scene.server.origin("localhost"))));
    let revision = pko_source::git::Revision::parse("main").unwrap();
    let url = old.url("repository.git");
    let found = scene
        .ask_at(&url, |remote| remote.resolve(&revision))
        .unwrap();
    assert_eq!(found.to_string(), commit);
    assert_eq!(
        old.take_requests().len(),
        1,
        "what follows goes to the new place at once"
    );
    assert_eq!(scene.server.take_requests().len(), 2);
}

#[test]
fn git_redirect_to_other_host_with_credentials_fails() {
    let mut scene = GitFixture::new();
    scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let other = GitServer::start(&scene.served()).unwrap();
    scene.credentials = Credentials::Token(secret("canary"));
    for origin in [
        other.origin("localhost"),
        other.origin("127.0.0.1"),
        scene.server.origin("localhost"),
    ] {
        scene
            .server
            .set_fault(Some(Fault::RedirectTo(origin.clone())));
        let error = scene.resolve("main").unwrap_err();
        let refusal = RedirectRefusal::CredentialsElsewhere;
        assert!(
            matches!(&error, GitError::Redirect { refusal: found, .. } if *found == refusal),
            "{error:?}"
        );
        assert!(error.to_string().contains(&origin), "{error}");
        assert!(!all_text(&error).contains("canary"), "{error:?}");
    }
    assert!(other.take_requests().is_empty());
}

#[test]
fn git_redirect_on_same_server_keeps_credentials() {
    let mut scene = GitFixture::new();
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    scene.credentials = Credentials::Token(secret("t"));
    scene.server.require("git", "t");
    let place = "/repository.git/info/refs?service=git-upload-pack";
    scene
        .server
        .set_fault(Some(Fault::RedirectExactly(place.to_owned())));
    let error = scene.resolve("main").unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Redirect {
                refusal: RedirectRefusal::TooMany,
                ..
            }
        ),
        "{error:?}"
    );
    scene.server.set_fault(None);
    assert_eq!(scene.resolve("main").unwrap().to_string(), commit);
}

#[test]
fn git_unsafe_redirects_are_rejected() {
    let scene = GitFixture::new();
    let tail = "/info/refs?service=git-upload-pack";
    for (place, refusal) in [
        (
            "https://example.com/login?canary=1".to_owned(),
            RedirectRefusal::NotARepository,
        ),
        (
            format!("http://169.254.169.254/r{tail}"),
            RedirectRefusal::Internal,
        ),
        (
            format!("file:///etc/passwd{tail}"),
            RedirectRefusal::NotARepository,
        ),
    ] {
        scene
            .server
            .set_fault(Some(Fault::RedirectExactly(place.clone())));
        let error = scene.resolve("main").unwrap_err();
        assert!(
            matches!(&error, GitError::Redirect { refusal: found, .. } if *found == refusal),
            "{place}: {error:?}"
        );
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[test]
fn git_error_redacts_echoed_credentials() {
    let mut scene = GitFixture::new();
    scene.server.set_fault(Some(Fault::EchoCredentials));
    scene.credentials = Credentials::Token(secret("canary"));
    let error = scene.resolve("main").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} refused the request: denied for Basic [redacted]",
            scene.url()
        )
    );
    assert!(!all_text(&error).contains("canary"));
    // base64 of `git:canary`
    assert!(!all_text(&error).contains("Z2l0OmNhbmFyeQ"));
}

#[test]
fn git_invalid_advertisement_is_an_error() {
    let scene = GitFixture::new();
    for bytes in [
        &b""[..],
        b"0000",
        b"zzzz",
        b"0005x",
        b"000eversion 2\n",
        b"001e# service=git-upload-pack\n",
    ] {
        scene
            .server
            .set_fault(Some(Fault::Advertise(bytes.to_vec())));
        let error = scene.resolve("main").unwrap_err();
        let expected = matches!(
            error,
            GitError::Protocol { .. }
                | GitError::Read { .. }
                | GitError::Revision(_)
                | GitError::NotFound { .. }
        );
        assert!(expected, "{bytes:?}: {error:?}");
    }
}

#[test]
fn git_endless_pack_hits_limit() {
    let mut scene = GitFixture::new();
    scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    scene.server.set_fault(Some(Fault::EndlessPack));
    scene.limits.pack_bytes = 20 << 20;
    for shallow in [true, false] {
        let error = scene.fetch("main", shallow).unwrap_err();
        assert!(
            matches!(
                error,
                GitError::Limit {
                    limit: LimitExceeded::PackBytes(_),
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(!scene.target().exists());
        assert!(scene.left_beside().is_empty(), "{:?}", scene.left_beside());
    }
}
