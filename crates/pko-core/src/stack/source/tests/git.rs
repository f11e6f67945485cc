//! Git: when a Stack names a repository, and which commit of it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SourceRef, source_ref};
use crate::stack::{GitLogin, GitRevision, GitSourceRef};

const COMMIT: &str = "0123456789abcdef0123456789ABCDEF01234567";

fn git(fields: &Value) -> GitSourceRef {
    match source_ref(fields) {
        Ok(Some(SourceRef::Git(git))) => *git,
        other => panic!("{other:?}"),
    }
}

fn problem(fields: &Value) -> String {
    source_ref(fields).unwrap_err()
}

#[test]
fn git_zero_value_is_no_repository() {
    let zeros = json!({
        "projectRepo": "", "branch": "", "commit": "", "repoDir": "", "shallow": false,
        "gitAuthSecret": "",
    });
    for fields in [
        json!({}),
        json!({ "shallow": false }),
        json!({ "projectRepo": "" }),
        zeros,
    ] {
        assert_eq!(source_ref(&fields), Ok(None), "{fields}");
    }
}

/// 131, the part about fields.
#[test]
fn git_fields_require_address() {
    for fields in [
        json!({ "branch": "main" }),
        json!({ "commit": COMMIT }),
        json!({ "repoDir": "infra" }),
        json!({ "shallow": true }),
        json!({ "gitAuthSecret": "credentials" }),
        json!({ "projectRepo": "", "branch": "main" }),
    ] {
        assert_eq!(problem(&fields), "missing \"projectRepo\"", "{fields}");
    }
}

/// 131, the rest.
#[test]
fn git_requires_commit_or_branch() {
    let repository = |commit: &str, branch: &str| {
        problem(
            &json!({ "projectRepo": "https://git.test/a/b", "commit": commit, "branch": branch }),
        )
    };
    assert_eq!(repository("", ""), "missing \"commit\" or \"branch\"");
    let both = "only one of \"commit\" or \"branch\" should be specified";
    assert_eq!(repository("v1", "main"), both);
    assert_eq!(repository(COMMIT, "main"), both);
}

/// 132, the part without a server.
#[test]
fn git_commit_of_digits_is_a_commit() {
    let revision = |field: &str, text: &str| {
        let fields = json!({ "projectRepo": "https://git.test/a/b", field: text });
        git(&fields).revision
    };
    let long = "a".repeat(64);
    for field in ["commit", "branch"] {
        for text in [COMMIT, &long] {
            let expected = GitRevision::Commit(text.to_owned());
            assert_eq!(revision(field, text), expected, "{field}");
        }
    }
    for text in [
        "main",
        "refs/heads/main",
        "refs/tags/v1.16.0",
        "pull/1/head",
        "HEAD",
        &COMMIT[..39],
        &COMMIT[..7],
        "g123456789abcdef0123456789abcdef01234567",
        &format!("{COMMIT}0"),
    ] {
        assert_eq!(
            revision("commit", text),
            GitRevision::Once(text.to_owned()),
            "{text}"
        );
        let followed = revision("branch", text);
        assert_eq!(followed, GitRevision::Followed(text.to_owned()), "{text}");
        assert_eq!(followed.as_str(), text);
    }
}

#[test]
fn git_address_is_kept_and_not_printed() {
    let url = "https://me:canary@git.test/group/subgroup/repo";
    let git = git(&json!({ "projectRepo": url, "branch": "main" }));
    assert_eq!(git.repository, url);
    assert_eq!(git.login, GitLogin::Anonymous);
    let printed = format!("{:?}", SourceRef::Git(Box::new(git)));
    assert!(!printed.contains("canary"), "{printed}");
    assert!(printed.contains("Followed(\"main\")"), "{printed}");
}

#[test]
fn git_interval_follows_valid_spec() {
    let interval = |seconds: i64| {
        let fields = json!({
            "projectRepo": "https://git.test/a/b", "branch": "main",
            "resyncFrequencySeconds": seconds,
        });
        git(&fields).interval
    };
    assert_eq!(interval(90), Some(Duration::from_secs(90)));
    assert_eq!(interval(1), Some(Duration::from_secs(1)));
    let day = Duration::from_hours(24);
    assert_eq!(interval(i64::MAX), Some(day), "once a day at least");
    for none in [0, -1, i64::MIN] {
        assert_eq!(interval(none), None, "{none}");
    }
    let unsaid = json!({ "projectRepo": "https://git.test/a/b", "branch": "main" });
    assert_eq!(git(&unsaid).interval, None);
}
