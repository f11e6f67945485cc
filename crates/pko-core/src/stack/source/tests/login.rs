//! Who a Stack is to a git server.

use serde_json::{Value, json};

use super::{SourceRef, secret, source_ref};
use crate::stack::{GitLogin, SecretKey};

fn login(auth: &Value) -> Result<GitLogin, String> {
    let mut fields = json!({ "projectRepo": "https://git.test/a/b", "branch": "main" });
    let auth = auth.as_object().cloned().unwrap_or_default();
    fields.as_object_mut().unwrap().extend(auth);
    match source_ref(&fields)? {
        Some(SourceRef::Git(git)) => Ok(git.login),
        other => panic!("{other:?}"),
    }
}

fn object(auth: &Value) -> Result<GitLogin, String> {
    login(&json!({ "gitAuth": auth }))
}

fn key(name: &str, key: &str) -> SecretKey {
    SecretKey {
        name: name.to_owned(),
        key: key.to_owned(),
    }
}

/// 106, 107, 109, 111, 126, 127, 129, and the app.
#[test]
fn git_auth_variants_are_read() {
    let private_key = || secret("s", "key");
    let app = json!({ "appID": secret("s", "id"), "installationID": secret("t", "i"), "privateKey": secret("s", "k") });
    let table = [
        (
            json!({ "sshAuth": { "sshPrivateKey": private_key() } }),
            GitLogin::Ssh {
                private_key: key("s", "key"),
                password: None,
            },
            vec!["s"],
        ),
        (
            json!({ "sshAuth": { "sshPrivateKey": private_key(), "password": secret("other", "p") } }),
            GitLogin::Ssh {
                private_key: key("s", "key"),
                password: Some(key("other", "p")),
            },
            vec!["other", "s"],
        ),
        (
            json!({ "accessToken": secret("s", "token") }),
            GitLogin::Token(key("s", "token")),
            vec!["s"],
        ),
        (
            json!({ "basicAuth": { "userName": secret("s", "user"), "password": secret("s", "p") } }),
            GitLogin::Basic {
                user_name: key("s", "user"),
                password: key("s", "p"),
            },
            vec!["s"],
        ),
        (
            json!({ "githubApp": app }),
            GitLogin::App {
                app_id: key("s", "id"),
                installation_id: key("t", "i"),
                private_key: key("s", "k"),
            },
            vec!["s", "t"],
        ),
    ];
    for (auth, expected, secrets) in table {
        let found = object(&auth).unwrap();
        assert_eq!(found, expected, "{auth}");
        assert_eq!(found.secrets(), secrets, "{auth}");
    }
}

/// 108, 110, 112, the part without a Secret.
#[test]
fn git_auth_secret_precedes_git_auth() {
    let token = json!({ "accessToken": secret("s", "token") });
    for auth in [
        json!({ "gitAuthSecret": "all" }),
        json!({ "gitAuthSecret": "all", "gitAuth": token }),
        json!({ "gitAuthSecret": "all", "gitAuth": {} }),
    ] {
        let found = login(&auth).unwrap();
        assert_eq!(found, GitLogin::Secret("all".to_owned()), "{auth}");
        assert_eq!(found.secrets(), ["all"]);
    }
    assert_eq!(
        login(&json!({ "gitAuthSecret": "" })),
        Ok(GitLogin::Anonymous)
    );
    assert!(GitLogin::Anonymous.secrets().is_empty());
}

/// 121.
#[test]
fn empty_git_auth_is_none() {
    assert_eq!(
        object(&json!({})).unwrap_err(),
        "gitAuth config must specify exactly one of 'personalAccessToken', 'sshPrivateKey', 'basicAuth', or 'githubApp'"
    );
}

/// Several variants are refused elsewhere; without that, it is the first in upstream's order.
#[test]
fn git_auth_uses_first_variant() {
    let basic = json!({ "userName": secret("s", "user"), "password": secret("s", "p") });
    let app = json!({ "appID": secret("s", "id"), "installationID": secret("s", "i"), "privateKey": secret("s", "k") });
    let ssh = json!({ "sshPrivateKey": secret("s", "key") });
    let token = secret("s", "token");
    let first = |auth: Value| match object(&auth).unwrap() {
        GitLogin::Ssh { .. } => "ssh",
        GitLogin::Token(_) => "token",
        GitLogin::App { .. } => "app",
        GitLogin::Basic { .. } => "basic",
        other => panic!("{other:?}"),
    };
    assert_eq!(
        first(
            json!({ "basicAuth": basic, "githubApp": app, "accessToken": token, "sshAuth": ssh })
        ),
        "ssh"
    );
    assert_eq!(
        first(json!({ "basicAuth": basic, "githubApp": app, "accessToken": token })),
        "token"
    );
    assert_eq!(
        first(json!({ "basicAuth": basic, "githubApp": app })),
        "app"
    );
}

/// 123, 124, 125, and each other way to write a reference wrong.
#[test]
fn git_auth_non_secret_reference_has_upstreams_error() {
    let table = [
        (
            json!({ "type": "FS", "filesystem": { "path": "/key" } }),
            "FS selectors are no longer supported in v2, please use a secret reference instead",
        ),
        (
            json!({ "type": "Env", "env": { "name": "TOKEN" } }),
            "Env selectors are no longer supported in v2, please use a secret reference instead",
        ),
        (
            json!({ "type": "Literal", "literal": { "value": "canary" } }),
            "Literal selectors are no longer supported in v2, please use a secret reference instead",
        ),
        (
            json!({ "type": "ConfigMap", "configMap": { "name": "c", "key": "k" } }),
            "ConfigMap selectors are not supported, please use a secret reference instead",
        ),
        (
            json!({ "type": "Vault" }),
            "Vault selectors are not supported, please use a secret reference instead",
        ),
        (
            json!({ "type": "Secret" }),
            "missing secret reference in ResourceRef",
        ),
        (
            json!({ "type": "Secret", "secret": { "namespace": "other", "name": "s", "key": "k" } }),
            "cross-namespace refs are not allowed",
        ),
    ];
    for (reference, expected) in table {
        let found = object(&json!({ "accessToken": reference })).unwrap_err();
        assert_eq!(
            found,
            format!("resolving gitAuth personal access token: {expected}")
        );
    }
}

#[test]
fn git_auth_accepts_own_namespace() {
    for namespace in ["", "shop"] {
        let reference = json!({ "type": "Secret", "secret": { "namespace": namespace, "name": "s", "key": "k" } });
        let found = object(&json!({ "accessToken": reference }));
        assert_eq!(found, Ok(GitLogin::Token(key("s", "k"))), "{namespace:?}");
    }
}

/// Each leaf has its own beginning of the sentence, and each is checked, whether it counts or not.
#[test]
fn git_auth_error_names_reference() {
    let (good, bad) = (secret("s", "k"), json!({ "type": "Secret" }));
    let app = |id: &Value, installation: &Value, key: &Value| json!({ "githubApp": { "appID": id, "installationID": installation, "privateKey": key } });
    let table = [
        (
            json!({ "sshAuth": { "sshPrivateKey": bad } }),
            "SSH private key",
        ),
        (
            json!({ "sshAuth": { "sshPrivateKey": good, "password": bad } }),
            "SSH password",
        ),
        (json!({ "accessToken": bad }), "personal access token"),
        (app(&bad, &good, &good), "GitHub App ID"),
        (app(&good, &bad, &good), "GitHub App installation ID"),
        (app(&good, &good, &bad), "GitHub App private key"),
        (
            json!({ "basicAuth": { "userName": bad, "password": good } }),
            "username",
        ),
        (
            json!({ "basicAuth": { "userName": good, "password": bad } }),
            "password",
        ),
    ];
    for (auth, what) in table {
        let expected = format!("resolving gitAuth {what}: missing secret reference in ResourceRef");
        assert_eq!(object(&auth).unwrap_err(), expected);
        let beside = login(&json!({ "gitAuthSecret": "all", "gitAuth": auth }));
        assert_eq!(beside.unwrap_err(), expected, "not used, and not right");
    }
}
