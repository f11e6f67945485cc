//! The numbers are those of upstream's own tests.

use serde_json::{Value, json};

use super::*;

/// The Secrets of the namespace `test`; one that is null does not exist.
fn secrets(all: &Value) -> Secrets {
    let all = all.as_object().unwrap().iter();
    all.map(|(name, values)| {
        let Some(values) = values.as_object() else {
            return (name.clone(), Err(format!("secrets \"{name}\" not found")));
        };
        let data = values.iter().map(|(key, value)| {
            let bytes = value.as_str().unwrap().as_bytes().to_vec();
            (key.clone(), k8s_openapi::ByteString(bytes))
        });
        let secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        (name.clone(), Ok(secret))
    })
    .collect()
}

fn found(wanted: &GitLogin, scheme: Scheme, all: &Value) -> Result<Login, String> {
    login(wanted, "test", scheme, &secrets(all))
}

fn credentials(wanted: &GitLogin, all: &Value) -> Result<Credentials, String> {
    found(wanted, Scheme::Https, all).map(|login| login.credentials)
}

fn place(name: &str, key: &str) -> SecretKey {
    SecretKey {
        name: name.to_owned(),
        key: key.to_owned(),
    }
}

fn redacted(text: &str) -> Redacted {
    Redacted::new(text.to_owned())
}

fn ssh(password: Option<&str>) -> GitLogin {
    GitLogin::Ssh {
        private_key: place("s", "key"),
        password: password.map(|key| place("s", key)),
    }
}

fn ssh_key(passphrase: Option<&str>) -> Credentials {
    Credentials::Ssh(SshKey {
        private_key: redacted("private"),
        passphrase: passphrase.map(redacted),
    })
}

fn whole() -> GitLogin {
    GitLogin::Secret("s".to_owned())
}

/// 106, 107, 109, 111, 122, 126, 127, 129.
#[test]
fn git_login_of_each_variant() {
    let all = json!({
        "s": { "key": "private", "pass": "open", "token": "t", "user": "me", "id": "1", "installation": "2" },
    });
    let basic = GitLogin::Basic {
        user_name: place("s", "user"),
        password: place("s", "pass"),
    };
    let app = GitLogin::App {
        app_id: place("s", "id"),
        installation_id: place("s", "installation"),
        private_key: place("s", "key"),
    };
    let table = [
        (GitLogin::Anonymous, Credentials::Anonymous),
        (ssh(None), ssh_key(None)),
        (ssh(Some("pass")), ssh_key(Some("open"))),
        (
            GitLogin::Token(place("s", "token")),
            Credentials::Token(redacted("t")),
        ),
        (
            basic,
            Credentials::Basic {
                username: "me".to_owned(),
                password: redacted("open"),
            },
        ),
        (
            app,
            Credentials::GithubApp(GithubApp {
                app_id: "1".to_owned(),
                installation_id: "2".to_owned(),
                private_key: redacted("private"),
            }),
        ),
    ];
    for (wanted, expected) in table {
        assert_eq!(credentials(&wanted, &all), Ok(expected), "{wanted:?}");
    }
}

/// 108, 110, 112, and in which order.
#[test]
fn git_login_kind_follows_from_the_keys_of_a_secret() {
    let basic = Credentials::Basic {
        username: "me".to_owned(),
        password: redacted("p"),
    };
    let token = || Credentials::Token(redacted("t"));
    let key = "private";
    let table = [
        (
            json!({ "sshPrivateKey": key, "password": "p" }),
            Scheme::Ssh,
            ssh_key(Some("p")),
        ),
        (json!({ "sshPrivateKey": key }), Scheme::Ssh, ssh_key(None)),
        (json!({ "accessToken": "t" }), Scheme::Https, token()),
        (
            json!({ "username": "me", "password": "p" }),
            Scheme::Https,
            basic,
        ),
        (
            json!({ "accessToken": "t", "username": "me", "password": "p" }),
            Scheme::Https,
            token(),
        ),
        // The address decides between a key and a token, as in a workspace.
        (
            json!({ "sshPrivateKey": key, "accessToken": "t" }),
            Scheme::Ssh,
            ssh_key(None),
        ),
        (
            json!({ "sshPrivateKey": key, "accessToken": "t" }),
            Scheme::Https,
            token(),
        ),
        (
            json!({ "sshPrivateKey": "", "accessToken": "t" }),
            Scheme::Ssh,
            token(),
        ),
        (
            json!({ "password": "p" }),
            Scheme::Https,
            Credentials::Anonymous,
        ),
        (
            json!({ "else": "x" }),
            Scheme::Https,
            Credentials::Anonymous,
        ),
        (json!({}), Scheme::Http, Credentials::Anonymous),
    ];
    for (secret, scheme, expected) in table {
        let login = found(&whole(), scheme, &json!({ "s": secret })).unwrap();
        assert_eq!(login.credentials, expected, "{secret}");
    }
}

/// 104, 105, 113, 114, 128, 130.
#[test]
fn git_login_missing_key_has_upstreams_message() {
    let none = json!({ "s": null });
    let empty = json!({ "s": {} });
    let keyed = json!({ "s": { "key": "private", "user": "me" } });
    let basic = GitLogin::Basic {
        user_name: place("s", "user"),
        password: place("s", "password"),
    };
    let app = GitLogin::App {
        app_id: place("s", "user"),
        installation_id: place("s", "i"),
        private_key: place("s", "key"),
    };
    let table = [
        (
            ssh(None),
            &none,
            "resolving gitAuth SSH private key: unable to get secret test/s: secrets \"s\" not found",
        ),
        (whole(), &none, "secrets \"s\" not found"),
        (
            basic,
            &keyed,
            "resolving gitAuth password: no key \"password\" found in secret test/s",
        ),
        (
            ssh(Some("MISSING")),
            &keyed,
            "resolving gitAuth SSH password: no key \"MISSING\" found in secret test/s",
        ),
        (
            GitLogin::Token(place("s", "MISSING")),
            &empty,
            "resolving gitAuth personal access token: no key \"MISSING\" found in secret test/s",
        ),
        (
            app,
            &keyed,
            "resolving gitAuth GitHub App installation ID: no key \"i\" found in secret test/s",
        ),
    ];
    for (wanted, all, expected) in table {
        assert_eq!(credentials(&wanted, all).unwrap_err(), expected);
    }
    let half = json!({ "s": { "username": "me" } });
    assert_eq!(
        credentials(&whole(), &half).unwrap_err(),
        "creating gitAuth: no key \"password\" found in secret test/s"
    );
}

#[test]
fn git_login_rejects_binary_values() {
    let mut all = secrets(&json!({ "s": { "token": "t" } }));
    let data = all.get_mut("s").unwrap().as_mut().unwrap();
    let bytes = k8s_openapi::ByteString(vec![0xff, 0xfe]);
    data.data
        .as_mut()
        .unwrap()
        .insert("token".to_owned(), bytes);
    let token = GitLogin::Token(place("s", "token"));
    let error = login(&token, "test", Scheme::Https, &all).unwrap_err();
    assert_eq!(
        error,
        "resolving gitAuth personal access token: key \"token\" in secret test/s is not text"
    );
}

#[test]
fn git_login_known_hosts_has_two_spellings() {
    let hosts = |wanted: &GitLogin, scheme, secret: Value| {
        let login = found(wanted, scheme, &json!({ "s": secret })).unwrap();
        login.known_hosts.map(|hosts| (hosts.place.key, hosts.text))
    };
    let some = |key: &str, text: &str| Some((key.to_owned(), text.to_owned()));
    for wanted in [ssh(None), whole()] {
        let with = |extra: Value| {
            let mut secret = json!({ "key": "private", "sshPrivateKey": "private" });
            let extra = extra.as_object().cloned().unwrap_or_default();
            secret.as_object_mut().unwrap().extend(extra);
            secret
        };
        let both = json!({ "knownHosts": "ours", "known_hosts": "theirs" });
        assert_eq!(
            hosts(&wanted, Scheme::Ssh, with(both)),
            some("knownHosts", "ours")
        );
        let flux = json!({ "known_hosts": "theirs" });
        assert_eq!(
            hosts(&wanted, Scheme::Ssh, with(flux.clone())),
            some("known_hosts", "theirs")
        );
        assert_eq!(
            hosts(&wanted, Scheme::Https, with(flux)),
            None,
            "of no use there"
        );
        assert_eq!(
            hosts(&wanted, Scheme::Ssh, with(json!({ "knownHosts": "" }))),
            None
        );
        assert_eq!(hosts(&wanted, Scheme::Ssh, with(json!({}))), None);
    }
}

#[test]
fn git_login_is_never_printed() {
    let all = json!({ "s": { "key": "canary", "accessToken": "canary", "sshPrivateKey": "canary", "password": "canary" } });
    for (wanted, scheme) in [
        (ssh(None), Scheme::Ssh),
        (whole(), Scheme::Https),
        (whole(), Scheme::Ssh),
    ] {
        let printed = format!("{:?}", found(&wanted, scheme, &all).unwrap());
        assert!(!printed.contains("canary"), "{printed}");
    }
}
