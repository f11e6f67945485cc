//! Lists and resolves references of a real git server.

use pko_source::git::{Credentials, GitError, LimitExceeded, Revision};
use pko_testkit::git_server::{GitServer, TestFile};

use crate::git_harness::{GitFixture, all_text, client, secret};

/// A repository with all kinds of references, and their commits.
struct CommitHistory {
    scene: GitFixture,
    first: String,
    second: String,
}

fn commits() -> CommitHistory {
    let scene = GitFixture::new();
    let first = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let second = scene
        .repository
        .commit("main", &[TestFile::plain("a", "2")])
        .unwrap();
    for arguments in [
        &["tag", "light", &first][..],
        &["tag", "--annotate", "--message=x", "heavy", &first],
        &["tag", "--annotate", "--message=x", "heavier", "heavy"],
        &["tag", "both", &first],
        &["branch", "both", &second],
        &["branch", "feature/x", &first],
        &["update-ref", "refs/pull/7/head", &first],
    ] {
        scene.repository.git(arguments).unwrap();
    }
    CommitHistory {
        scene,
        first,
        second,
    }
}

#[test]
fn revision_of_every_kind_is_resolved() {
    let CommitHistory {
        scene,
        first,
        second,
    } = commits();
    let all = |scene: &GitFixture| {
        for (text, commit) in [
            ("main", &second),
            ("HEAD", &second),
            ("refs/heads/main", &second),
            ("light", &first),
            ("heavy", &first),
            ("heavier", &first),
            ("refs/tags/heavy", &first),
            ("tags/heavy", &first),
            ("both", &second),
            ("refs/tags/both", &first),
            ("feature/x", &first),
            ("pull/7/head", &first),
        ] {
            assert_eq!(&scene.resolve(text).unwrap().to_string(), commit, "{text}");
        }
    };
    all(&scene);
    scene.server.disable_protocol_v2();
    all(&scene);
}

#[test]
fn revision_full_hash_sends_no_request() {
    let scene = GitFixture::new();
    let hash = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(scene.resolve(hash).unwrap().to_string(), hash);
    assert!(scene.server.take_requests().is_empty());
}

#[test]
fn revision_not_found_names_the_most_similar() {
    let CommitHistory { scene, .. } = commits();
    for (text, message) in [
        (
            "refs/head/main",
            r#"no commits found for ref "refs/head/main"; did you mean "refs/heads/main"?"#,
        ),
        (
            "feature/y",
            r#"no commits found for ref "feature/y"; did you mean "feature/x"?"#,
        ),
        (
            "nothing-of-the-kind",
            r#"no commits found for ref "nothing-of-the-kind""#,
        ),
        (
            "abc1234",
            r#"no commits found for ref "abc1234"; if it is an abbreviated commit, use all 40 digits"#,
        ),
    ] {
        assert_eq!(scene.resolve(text).unwrap_err().to_string(), message);
    }
    let empty = GitFixture::new();
    let error = empty.resolve("main").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no commits found for ref "main"; the repository is empty"#
    );
}

#[test]
fn references_of_many_revisions_are_one_request() {
    let CommitHistory {
        scene,
        first,
        second,
    } = commits();
    let revisions: Vec<_> = ["main", "heavy", "pull/7/head", "gone"]
        .map(|text| Revision::parse(text).unwrap())
        .into();
    let references = scene.ask(|remote| remote.look_up(&revisions)).unwrap();
    let found: Vec<_> = revisions
        .iter()
        .map(|revision| {
            revision
                .resolve(&references)
                .ok()
                .map(|commit| commit.to_string())
        })
        .collect();
    assert_eq!(
        found,
        [Some(second), Some(first.clone()), Some(first), None]
    );
    let seen = scene.server.take_requests();
    let connections: Vec<_> = seen.iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 0], "both go by one connection");
    let targets: Vec<_> = seen.into_iter().map(|seen| seen.target).collect();
    assert_eq!(
        targets,
        [
            "/repository.git/info/refs?service=git-upload-pack",
            "/repository.git/git-upload-pack"
        ]
    );
}

#[test]
fn references_listed_by_prefix_within_limits() {
    let CommitHistory { mut scene, .. } = commits();
    let tags = || ["refs/tags/".to_owned()];
    let listed = scene.ask(|remote| remote.list(&tags())).unwrap();
    let names: Vec<_> = listed.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(
        names,
        [
            "refs/tags/both",
            "refs/tags/heavier",
            "refs/tags/heavy",
            "refs/tags/light"
        ]
    );

    scene.limits.references = 3;
    let error = scene.ask(|remote| remote.list(&tags())).unwrap_err();
    assert!(
        matches!(
            error,
            GitError::Limit {
                limit: LimitExceeded::References(3),
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn credentials_are_accepted_or_rejected() {
    let CommitHistory {
        mut scene, second, ..
    } = commits();
    scene.server.require("git", "canary-token");
    scene.server.require("user", "canary-password");
    let basic = |password: &str| Credentials::Basic {
        username: "user".to_owned(),
        password: secret(password),
    };
    for credentials in [
        basic("canary-password"),
        Credentials::Token(secret("canary-token")),
    ] {
        scene.credentials = credentials;
        assert_eq!(scene.resolve("main").unwrap().to_string(), second);
    }
    for (credentials, text) in [
        (basic("canary-wrong"), "a user and password"),
        (
            Credentials::Token(secret("canary-wrong")),
            "an access token",
        ),
        (Credentials::Anonymous, "no credentials"),
    ] {
        scene.credentials = credentials;
        let error = scene.resolve("main").unwrap_err();
        assert!(
            matches!(error, GitError::Denied { status: 401, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(text), "{error}");
        assert!(!all_text(&error).contains("canary"), "{error:?}");
    }
}

#[test]
fn credentials_in_address_are_used() {
    let CommitHistory { scene, second, .. } = commits();
    scene.server.require("user", "canary/pass word");
    let revision = Revision::parse("main").unwrap();
    let right = scene
        .server
        .url_with("user", "canary%2Fpass%20word", "repository.git");
    let found = scene
        .ask_at(&right, |remote| remote.resolve(&revision))
        .unwrap();
    assert_eq!(found.to_string(), second);
    let wrong = scene
        .server
        .url_with("canary-user", "canary", "repository.git");
    let error = scene
        .ask_at(&wrong, |remote| remote.resolve(&revision))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the user and password of its address"),
        "{error}"
    );
    assert!(!all_text(&error).contains("canary"), "{error:?}");
}

#[test]
fn repository_not_found_hints_at_credentials() {
    let scene = GitFixture::new();
    let revision = Revision::parse("main").unwrap();
    let url = scene.server.url("other.git");
    let error = scene
        .ask_at(&url, |remote| remote.resolve(&revision))
        .unwrap_err();
    assert!(matches!(error, GitError::NotFound { .. }), "{error:?}");
    assert!(!error.is_transient());
    assert!(
        error
            .to_string()
            .contains("servers hide private repositories"),
        "{error}"
    );
}

#[test]
fn extra_certificate_is_trusted() {
    let mut scene = GitFixture::with(GitServer::start_with_tls);
    let commit = scene
        .repository
        .commit("main", &[TestFile::plain("a", "1")])
        .unwrap();
    let error = scene.resolve("main").unwrap_err();
    assert!(
        matches!(error, GitError::Untrusted { .. }) && !error.is_transient(),
        "{error:?}"
    );
    scene.client = client(&[scene.server.certificate().unwrap()]);
    assert_eq!(scene.resolve("main").unwrap().to_string(), commit);
}
