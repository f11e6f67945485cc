//! Mode `manager`: no request goes to an API server.

use std::path::PathBuf;

use jiff::Timestamp;
use pko_auth::token::{Claims, SigningKey};
use tonic::Code;

use super::{AUDIENCE, assert_rejected, bearer, gets_in, health_is_free, needs_a_bearer_token};
use crate::harness::{Agent, TestWorkspace, simple};

/// The file of a manager's public key.
pub(super) fn public_key_file(place: &TestWorkspace, name: &str, key: &SigningKey) -> PathBuf {
    let path = place.path(name);
    std::fs::write(&path, key.public_key().to_pem()).unwrap();
    path
}

/// A current token of the manager for this workspace.
fn token(key: &SigningKey, audience: &str) -> String {
    let claims = Claims::new(audience, Timestamp::now());
    bearer(&key.sign(&claims).unwrap())
}

/// What a manager said so many seconds ago.
fn old_token(key: &SigningKey, seconds: i64) -> String {
    let then = Timestamp::from_second(Timestamp::now().as_second() - seconds).unwrap();
    bearer(&key.sign(&Claims::new(AUDIENCE, then)).unwrap())
}

async fn serve(place: &TestWorkspace, keys: &[&SigningKey]) -> Agent {
    let mut flags: Vec<String> = ["--auth-mode", "manager", "--kube-audience", AUDIENCE]
        .map(str::to_owned)
        .to_vec();
    for (number, key) in keys.iter().enumerate() {
        let file = public_key_file(place, &format!("{number}.pub"), key);
        flags.push("--manager-public-key".to_owned());
        flags.push(file.display().to_string());
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    place.serve(&flags).await
}

#[tokio::test]
async fn manager_tokens_are_verified() {
    let place = TestWorkspace::new(&simple());
    let (key, other) = (
        SigningKey::generate().unwrap(),
        SigningKey::generate().unwrap(),
    );
    let agent = serve(&place, &[&key]).await;
    needs_a_bearer_token(&agent).await;
    let lasting = Claims {
        exp: Timestamp::now().as_second() + 86_400,
        ..Claims::new(AUDIENCE, Timestamp::now())
    };
    let table = [
        (bearer("garbage"), "the token is malformed"),
        (
            token(&other, AUDIENCE),
            "the token is not signed by a trusted key",
        ),
        (
            token(&key, "other.ns"),
            "the token is for another workspace",
        ),
        (old_token(&key, 1000), "the token has expired"),
        (
            old_token(&key, -1000),
            "the token is not valid yet; check the clocks of the manager and the workspace",
        ),
        (
            bearer(&key.sign(&lasting).unwrap()),
            "the token's lifetime is longer than an hour or negative",
        ),
    ];
    for (authorization, reason) in &table {
        let message = format!("unauthenticated: {reason}");
        assert_rejected(&agent, Some(authorization), Code::Unauthenticated, &message).await;
    }
    assert!(place.calls().is_empty(), "nobody came to a service");
    gets_in(&agent, Some(&token(&key, AUDIENCE))).await;
    health_is_free(&agent).await;
    let log = agent.log();
    for (authorization, _) in table {
        let secret = authorization.strip_prefix("Bearer ").unwrap();
        assert!(secret == "garbage" || !log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn key_rotation_accepts_both_keys() {
    let place = TestWorkspace::new(&simple());
    let [old, new, other] = [(); 3].map(|()| SigningKey::generate().unwrap());
    let agent = serve(&place, &[&old, &new]).await;
    gets_in(&agent, Some(&token(&old, AUDIENCE))).await;
    gets_in(&agent, Some(&token(&new, AUDIENCE))).await;
    let message = "unauthenticated: the token is not signed by a trusted key";
    let refused = token(&other, AUDIENCE);
    assert_rejected(&agent, Some(&refused), Code::Unauthenticated, message).await;
}
