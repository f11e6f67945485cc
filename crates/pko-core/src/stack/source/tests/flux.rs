//! Objects with artifacts: the reference, the artifact, and its changes.

use serde_json::{Value, json};

use super::{SourceRef, source_ref};
use crate::stack::{Artifact, FluxSourceRef, Location, SourceError, flux_source};

fn reference(api_version: &str, kind: &str, name: &str) -> Value {
    json!({ "fluxSource": { "sourceRef": { "apiVersion": api_version, "kind": kind, "name": name } } })
}

fn flux(fields: &Value) -> FluxSourceRef {
    match source_ref(fields) {
        Ok(Some(SourceRef::Flux(flux))) => *flux,
        other => panic!("{other:?}"),
    }
}

fn any() -> FluxSourceRef {
    flux(&reference(
        "source.toolkit.fluxcd.io/v1",
        "GitRepository",
        "infra",
    ))
}

#[test]
fn flux_reference_accepts_kinds_of_other_groups() {
    for (api_version, group, version) in [
        (
            "source.toolkit.fluxcd.io/v1",
            "source.toolkit.fluxcd.io",
            "v1",
        ),
        ("example.test/v1beta2", "example.test", "v1beta2"),
        ("v1", "", "v1"),
    ] {
        let found = flux(&reference(api_version, "Thing", "x"));
        assert_eq!((&*found.group, &*found.version), (group, version));
        assert_eq!((&*found.kind, &*found.name), ("Thing", "x"));
        assert_eq!(found.api_version(), api_version);
    }
}

#[test]
fn invalid_reference_has_upstreams_error() {
    for api_version in ["a/b/c", "", "group/", "/"] {
        assert_eq!(
            source_ref(&reference(api_version, "Bucket", "x")).unwrap_err(),
            format!(
                "cannot process source reference: unexpected GroupVersion string: {api_version}"
            )
        );
    }
    let empty = |kind, name| source_ref(&reference("a/v1", kind, name)).unwrap_err();
    let field = "cannot process source reference: spec.fluxSource.sourceRef";
    assert_eq!(empty("", "x"), format!("{field}.kind is empty"));
    assert_eq!(empty("Bucket", ""), format!("{field}.name is empty"));
}

fn artifact(revision: &str) -> Value {
    json!({
        "digest": "sha256:feed", "lastUpdateTime": "2026-01-01T00:00:00Z", "revision": revision,
        "path": "gitrepository/shop/infra/1.tar.gz", "size": 4242,
        "url": "http://source-controller.flux-system/gitrepository/shop/infra/1.tar.gz",
    })
}

fn object(status: &Value) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": { "name": "infra", "generation": 1 }, "status": status,
    })
}

fn progressing() -> Value {
    json!([{ "type": "Reconciling", "status": "True", "reason": "Progressing", "message": "building artifact" }])
}

/// The life of a `GitRepository`, as source-controller writes it: before anything, looking, in
/// trouble, ready, ready while it looks again, with news of its spec only, with a new commit.
fn life() -> [(&'static str, Value); 7] {
    let ready = json!([{ "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact" }]);
    let failed = json!([{ "type": "Ready", "status": "False", "reason": "GitOperationFailed", "message": "no route" }]);
    [
        ("nothing", json!({})),
        (
            "progressing",
            object(&json!({ "observedGeneration": -1, "conditions": progressing() })),
        ),
        ("failed", object(&json!({ "conditions": failed }))),
        (
            "ready",
            object(&json!({ "conditions": ready, "artifact": artifact("main@sha1:1") })),
        ),
        (
            "looking again",
            object(&json!({ "conditions": progressing(), "artifact": artifact("main@sha1:1") })),
        ),
        (
            "another spec",
            object(
                &json!({ "observedGeneration": 2, "conditions": ready, "artifact": artifact("main@sha1:1") }),
            ),
        ),
        (
            "new commit",
            object(&json!({ "conditions": ready, "artifact": artifact("main@sha1:2") })),
        ),
    ]
}

/// 133.
#[test]
fn flux_artifact_is_used_once_stored() {
    let found: Vec<bool> = life()
        .iter()
        .map(|(_, object)| Artifact::of(object).is_some())
        .collect();
    assert_eq!(found, [false, false, false, true, true, true, true]);
    let (_, ready) = &life()[3];
    let source = flux_source(Artifact::of(ready).as_ref(), &any()).unwrap();
    assert_eq!(source.revision, "main@sha1:1");
    let Location::Artifact(found) = source.location else {
        panic!("an artifact")
    };
    assert_eq!(
        serde_json::to_value(found).unwrap(),
        json!({
            "url": "http://source-controller.flux-system/gitrepository/shop/infra/1.tar.gz",
            "digest": "sha256:feed",
        }),
        "no folder is the root"
    );
}

/// 134.
#[test]
fn news_are_the_first_artifact_and_another_revision() {
    let mut before = None;
    let mut changes = Vec::new();
    for (state, object) in life() {
        let after = Artifact::of(&object);
        if Artifact::is_news(before.as_ref(), after.as_ref()) {
            changes.push(state);
        }
        before = after;
    }
    assert_eq!(changes, ["ready", "new commit"]);
    assert!(!Artifact::is_news(before.as_ref(), None), "a loss is none");
    assert!(!Artifact::is_news(None, None));
}

#[test]
fn undecodable_flux_artifact_is_rejected() {
    let with = |field: &str, value: Value| {
        let mut artifact = artifact("main@sha1:1");
        artifact[field] = value;
        Artifact::of(&object(&json!({ "artifact": artifact })))
    };
    for (field, value) in [
        ("url", json!("")),
        ("url", json!(7)),
        ("url", Value::Null),
        ("revision", json!("")),
        ("revision", json!({})),
        ("digest", json!(1)),
    ] {
        assert_eq!(with(field, value.clone()), None, "{field}: {value}");
    }
    for artifact in [json!([]), json!("text"), Value::Null] {
        let found = Artifact::of(&object(&json!({ "artifact": artifact })));
        assert_eq!(found, None, "{artifact}");
    }
}

#[test]
fn without_an_artifact_or_its_digest_there_is_no_source() {
    let text = |artifact: Option<&Artifact>| match flux_source(artifact, &any()) {
        Err(SourceError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(text(None), "Flux source has no artifact");
    for digest in [json!(""), Value::Null] {
        let mut without = artifact("main@sha1:1");
        without["digest"] = digest;
        let found = Artifact::of(&object(&json!({ "artifact": without })));
        let text = text(found.as_ref());
        assert!(text.contains("without a digest"), "{text}");
    }
}

#[test]
fn flux_source_keeps_folder_and_hides_address() {
    let mut fields = reference("source.toolkit.fluxcd.io/v1", "Bucket", "b");
    fields["fluxSource"]["dir"] = json!("infra/prod");
    let (reference, artifact) = (flux(&fields), Artifact::of(&life()[3].1));
    let source = flux_source(artifact.as_ref(), &reference).unwrap();
    let Location::Artifact(found) = source.location else {
        panic!("an artifact")
    };
    assert_eq!(found.dir.as_deref(), Some("infra/prod"));
    fields["fluxSource"]["dir"] = json!("");
    assert_eq!(flux(&fields).dir, None);
    assert_eq!(format!("{:?}", artifact.unwrap()), "Artifact(main@sha1:1)");
}
