//! Flux's own CRDs accept the testkit's sources, and artifacts match their status.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use pko_testkit::flux::{self, Artifact, ArtifactServer, SourceKind, SourceState, TestSource};
use pko_testkit::{ControlPlane, with_namespace};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

#[tokio::test]
async fn flux_source_kinds_accept_all_states() {
    let plane = ControlPlane::shared().await.unwrap();
    flux::install(&plane).await.unwrap();
    let server = ArtifactServer::start().unwrap();
    with_namespace(&plane, async |namespace| {
        for kind in SourceKind::ALL {
            let source = TestSource::new(kind, namespace.name(), "infra");
            let created = namespace.create_object(source.object()).await.unwrap();
            assert_eq!(
                created["spec"],
                merge(&created["spec"], &source.object()["spec"])
            );
            let artifact = server.publish(
                &source,
                &source.revision("one"),
                &[("Pulumi.yaml", "name: a")],
            );
            for (state, expected) in states(&artifact) {
                let written = source.write(&namespace.client(), &state).await.unwrap();
                let status = &written.data["status"];
                assert_eq!(
                    status.get("artifact"),
                    expected.as_ref(),
                    "{kind:?} {state:?}"
                );
                assert_eq!(status["conditions"][0]["observedGeneration"], 1);
            }
        }
    })
    .await;
}

/// States in the order in which a source meets them, and the artifact that is there then.
fn states(artifact: &Artifact) -> Vec<(SourceState, Option<Value>)> {
    let there = Some(json!(artifact));
    let failed = |stored: Option<&Artifact>| SourceState::Failed {
        stored: stored.cloned(),
        message: "no route to host".to_owned(),
    };
    vec![
        (SourceState::Progressing, None),
        (failed(None), None),
        (SourceState::Ready(artifact.clone()), there.clone()),
        (
            SourceState::Outdated {
                stored: artifact.clone(),
                seen: "main@sha1:22".to_owned(),
            },
            there.clone(),
        ),
        (failed(Some(artifact)), there),
        (SourceState::Progressing, None),
    ]
}

/// The fields of one object that are in another are the same there: defaults may be added.
fn merge(stored: &Value, given: &Value) -> Value {
    let mut stored = stored.clone();
    for (name, value) in given.as_object().unwrap() {
        stored[name] = value.clone();
    }
    stored
}

#[tokio::test]
async fn flux_source_kind_can_be_installed_alone() {
    let plane = ControlPlane::builder().start().await.unwrap();
    flux::install_kind(&plane, SourceKind::Bucket)
        .await
        .unwrap();
    let client = plane.client().unwrap();
    let group = client
        .list_api_group_resources("source.toolkit.fluxcd.io/v1")
        .await
        .unwrap();
    let kinds = group
        .resources
        .iter()
        .filter(|found| !found.name.contains('/'));
    let kinds: Vec<&str> = kinds.map(|found| found.kind.as_str()).collect();
    assert_eq!(kinds, ["Bucket"]);
}

#[test]
fn artifact_matches_digest_and_size() {
    let server = ArtifactServer::start().unwrap();
    let source = TestSource::new(SourceKind::GitRepository, "shop", "infra");
    let one = server.publish(&source, &source.revision("one"), &[("a.txt", "1")]);
    let two = server.publish(&source, &source.revision("two"), &[("a.txt", "2")]);
    assert_ne!(one.digest, two.digest);
    for artifact in [&one, &two] {
        let body = get(&artifact.url).unwrap();
        assert_eq!(u64::try_from(body.len()).unwrap(), artifact.size);
        let digest = hex::encode(Sha256::digest(&body));
        assert_eq!(format!("sha256:{digest}"), artifact.digest);
    }
    server.corrupt(&two);
    assert_eq!(get(&two.url).unwrap(), b"not what was stored");
    server.withdraw(&one);
    assert_eq!(get(&one.url), None);
    assert_eq!((server.requests(&one), server.requests(&two)), (2, 2));
}

/// The body of an answer, if it is a good one.
fn get(url: &str) -> Option<Vec<u8>> {
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    head.starts_with("HTTP/1.1 200")
        .then(|| answer[end + 4..].to_vec())
}
