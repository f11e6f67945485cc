//! Upstream's scenarios for Programs, by their names.

use serde_json::json;

use super::{
    tests::{at, carried_out, edited, observed, plan, shown},
    *,
};

fn artifact(observed: &ObservedProgram, second: i64) -> pko_api::pulumi::v1::Artifact {
    let observed = carried_out(observed, &plan(observed, second, &[], &[]));
    observed.program.status.unwrap().artifact.unwrap()
}

fn demo() -> ObservedProgram {
    observed(&json!({ "outputs": { "greeting": "hi" } }))
}

#[test]
fn artifact_fields_after_create() {
    let artifact = artifact(&demo(), 5);
    assert_eq!(
        artifact.url,
        "http://operator.svc:9090/programs/shop/hello/1"
    );
    assert_eq!(artifact.path, "programs/shop/hello/1.tar.gz");
    assert_eq!(artifact.revision, "1");
    assert_eq!(artifact.last_update_time.0, at(5));
    let archive = archive(&demo().program).unwrap();
    assert_eq!(artifact.digest, Some(archive.digest));
    assert_eq!(artifact.size, i64::try_from(archive.bytes.len()).ok());
}

#[test]
fn artifact_fields_after_spec_change() {
    let published = carried_out(&demo(), &plan(&demo(), 5, &[], &[]));
    let mut changed = edited(&published, 2);
    let greeting = json!("hello");
    let outputs = &mut changed.program.program.outputs;
    outputs.insert("greeting".to_owned(), greeting);
    let (before, after) = (artifact(&demo(), 5), artifact(&changed, 6));
    assert_eq!(after.url, "http://operator.svc:9090/programs/shop/hello/2");
    assert_eq!(
        (after.revision.as_str(), after.last_update_time.0),
        ("2", at(6))
    );
    assert_ne!(after.digest, before.digest);
}

#[test]
fn url_follows_changed_address() {
    let mut moved = carried_out(&demo(), &plan(&demo(), 5, &[], &[]));
    moved.advertised = "https://elsewhere/".into();
    let artifact = artifact(&moved, 6);
    assert_eq!(artifact.url, "https://elsewhere/programs/shop/hello/1");
    assert_eq!(artifact.last_update_time.0, at(6));
}

#[test]
fn http_prefix_added() {
    let mut demo = demo();
    for (advertised, prefix) in [
        ("operator:9090", "http://operator:9090/"),
        ("http://operator:9090", "http://operator:9090/"),
        ("https://operator", "https://operator/"),
    ] {
        demo.advertised = advertised.into();
        assert!(artifact(&demo, 5).url.starts_with(prefix), "{advertised}");
    }
}

fn project(body: &serde_json::Value) -> serde_json::Value {
    let text = artifact::project_file(&observed(body).program).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn packages_included() {
    let packages = json!({ "aws": "https://example.com/aws" });
    assert_eq!(
        project(&json!({ "packages": packages }))["packages"],
        packages
    );
}

#[test]
fn program_to_project_name_runtime_packages() {
    assert_eq!(
        project(
            &json!({ "packages": { "a": "b" }, "variables": { "n": 9_007_199_254_740_993_i64 } })
        ),
        json!({
            "name": "hello", "runtime": "yaml", "packages": { "a": "b" },
            "variables": { "n": 9_007_199_254_740_993_i64 },
        })
    );
}

#[test]
fn status_survives_label_change() {
    let mut published = carried_out(&demo(), &plan(&demo(), 5, &[], &[]));
    let labels = [("new".to_owned(), "label".to_owned())];
    published.program.metadata.labels = Some(labels.into());
    assert_eq!(shown(&plan(&published, 6, &[], &[])), [""; 0]);
}
