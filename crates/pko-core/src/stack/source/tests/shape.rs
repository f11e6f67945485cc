//! The repository in a Workspace, exactly as upstream stores it.

use serde_json::{Value, json};

use super::{secret, stack};
use crate::stack::{Location, SecretKey, git_source};

/// `spec.git` of the Workspace.
fn git_with(fields: &Value, known_hosts: Option<&SecretKey>) -> Value {
    let source = git_source(&stack(fields), "abc", known_hosts);
    assert_eq!(source.revision, "abc");
    match source.location {
        Location::Git(git) => serde_json::to_value(git).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn git(fields: &Value) -> Value {
    git_with(fields, None)
}

fn auth(fields: &Value) -> Value {
    git(fields).get("auth").cloned().unwrap_or(Value::Null)
}

#[test]
fn git_source_omits_empty_fields() {
    let fields = json!({ "projectRepo": "https://git.test/a/b", "branch": "main" });
    let expected = json!({ "url": "https://git.test/a/b", "ref": "abc" });
    assert_eq!(git(&fields), expected);
    let zeros = json!({
        "projectRepo": "https://git.test/a/b", "branch": "main", "repoDir": "", "shallow": false,
        "gitAuthSecret": "",
    });
    assert_eq!(git(&zeros), expected);
}

#[test]
fn git_source_keeps_address() {
    let url = "git@git.test:group/subgroup/repo.git";
    let fields = json!({
        "projectRepo": url, "commit": "abc", "repoDir": "infra", "shallow": true,
    });
    let expected = json!({ "url": url, "ref": "abc", "dir": "infra", "shallow": true });
    assert_eq!(git(&fields), expected);
}

/// 116.
#[test]
fn ssh_key_and_password_selectors_are_required() {
    let ssh = json!({ "sshPrivateKey": secret("s", "key"), "password": secret("t", "pass") });
    assert_eq!(
        auth(&json!({ "gitAuth": { "sshAuth": ssh } })),
        json!({ "sshPrivateKey": { "name": "s", "key": "key" }, "password": { "name": "t", "key": "pass" } })
    );
    let ssh = json!({ "sshPrivateKey": secret("s", "key") });
    assert_eq!(
        auth(&json!({ "gitAuth": { "sshAuth": ssh } })),
        json!({ "sshPrivateKey": { "name": "s", "key": "key" } })
    );
}

/// 117.
#[test]
fn token_is_one_selector() {
    assert_eq!(
        auth(&json!({ "gitAuth": { "accessToken": secret("s", "token") } })),
        json!({ "token": { "name": "s", "key": "token" } })
    );
}

/// 118.
#[test]
fn basic_auth_is_two_selectors() {
    let basic = json!({ "userName": secret("s", "user"), "password": secret("s", "pass") });
    assert_eq!(
        auth(&json!({ "gitAuth": { "basicAuth": basic } })),
        json!({ "username": { "name": "s", "key": "user" }, "password": { "name": "s", "key": "pass" } })
    );
}

/// 119.
#[test]
fn git_auth_secret_is_four_optional_selectors() {
    let key = |key: &str| json!({ "name": "all", "key": key, "optional": true });
    let expected = json!({
        "sshPrivateKey": key("sshPrivateKey"), "password": key("password"),
        "username": key("username"), "token": key("accessToken"),
    });
    assert_eq!(auth(&json!({ "gitAuthSecret": "all" })), expected);
}

/// 120.
#[test]
fn git_source_without_auth_has_no_credentials() {
    assert_eq!(auth(&json!({})), Value::Null);
    assert_eq!(auth(&json!({ "gitAuth": {} })), Value::Null);
}

#[test]
fn github_app_requires_all_three_keys() {
    let app = |private_key: &Value| {
        json!({ "gitAuth": { "githubApp": {
            "appID": secret("s", "id"), "installationID": secret("s", "i"), "privateKey": private_key,
        } } })
    };
    let key = |key: &str| json!({ "name": "s", "key": key });
    assert_eq!(
        auth(&app(&secret("s", "k"))),
        json!({ "githubApp": { "appID": key("id"), "installationID": key("i"), "privateKey": key("k") } })
    );
    assert_eq!(auth(&app(&json!({ "type": "Secret" }))), Value::Null);
}

/// All credentials are passed on. Those of `gitAuth` replace those of the Secret.
#[test]
fn git_auth_overrides_git_auth_secret() {
    let object = json!({ "accessToken": secret("s", "token"), "sshAuth": { "sshPrivateKey": secret("s", "key") } });
    let optional = |key: &str| json!({ "name": "all", "key": key, "optional": true });
    assert_eq!(
        auth(&json!({ "gitAuthSecret": "all", "gitAuth": object })),
        json!({
            "sshPrivateKey": { "name": "s", "key": "key" }, "password": optional("password"),
            "username": optional("username"), "token": { "name": "s", "key": "token" },
        })
    );
}

/// Only who gives the keys of servers has them handed on: a Workspace that upstream made stays as
/// it is.
#[test]
fn known_hosts_add_a_selector() {
    let hosts = SecretKey {
        name: "all".to_owned(),
        key: "known_hosts".to_owned(),
    };
    let fields = json!({ "gitAuth": { "sshAuth": { "sshPrivateKey": secret("s", "key") } } });
    let found = git_with(&fields, Some(&hosts));
    let optional = json!({ "name": "all", "key": "known_hosts", "optional": true });
    assert_eq!(found["auth"]["knownHosts"], optional);
    assert_eq!(
        found["auth"]["sshPrivateKey"],
        json!({ "name": "s", "key": "key" })
    );
}
