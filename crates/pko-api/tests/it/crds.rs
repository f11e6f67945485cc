//! The committed CRDs: `kubectl` applies them, and they are interchangeable with upstream's.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use pko_api::{Decoded, Program, Stack, StoredKind, Update, Workspace};
use pko_testkit::{ControlPlane, eventually, fixtures, shared_folder, skip};
use serde_json::Value;

use crate::plane::kubectl;

/// `kubectl apply` stores the object in an annotation; this is the limit for all annotations.
const ANNOTATION_BYTES: usize = 256 * 1024;

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn crds_apply_with_plain_kubectl() {
    let plane = ControlPlane::builder().start().await.unwrap();
    for crd in std::fs::read_dir(committed()).unwrap() {
        let file = crd.unwrap().path();
        let (applied, output) = kubectl(&plane, &["apply", "-f", path(&file)]);
        assert!(applied, "{}: {output}", file.display());
        let established = eventually("the CRD to be established", async || {
            let is = [
                "wait",
                "--for=condition=Established",
                "--timeout=1s",
                "-f",
                path(&file),
            ];
            let (established, output) = kubectl(&plane, &is);
            if established { Ok(()) } else { Err(output) }
        });
        established.await.unwrap();
        // A second apply changes nothing.
        let (_, output) = kubectl(&plane, &["apply", "-f", path(&file)]);
        assert!(output.trim_end().ends_with("unchanged"), "{output}");
    }
}

#[test]
fn crd_fits_into_last_applied_annotation() {
    for crd in pko_api::crd::all() {
        let bytes = crd.to_string().len();
        assert!(
            bytes < ANNOTATION_BYTES,
            "{}: {bytes} bytes",
            crd["metadata"]["name"]
        );
    }
}

#[test]
fn committed_crds_match_types() {
    let mut committed: Vec<Value> = fixtures::load(&committed()).unwrap();
    let mut ours = pko_api::crd::all();
    for crds in [&mut committed, &mut ours] {
        crds.sort_by_key(|crd| crd["metadata"]["name"].to_string());
    }
    assert!(committed == ours, "run `cargo xtask generate`");
}

/// Replaces `PyYAML`: the documents are JSON, which is YAML.
const YAML_MODULE: &str = "\
import json
SafeLoader = None
def load_all(text, Loader):
    return [json.loads(text)]
";

/// Writes each CRD to its own file, as JSON.
fn write_json(folder: &Path, crds: &[Value]) {
    std::fs::create_dir_all(folder).unwrap();
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let file = folder.join(format!("{name}.yaml"));
        std::fs::write(file, crd.to_string()).unwrap();
    }
}

#[test]
fn crd_accepts_what_upstream_accepts() {
    let (Some(tools), Some(upstream)) = (shared_folder("tools"), shared_folder("upstream-crds"))
    else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crd-superset");
    let _left = std::fs::remove_dir_all(&folder);
    let (ours, theirs) = (folder.join("ours"), folder.join("theirs"));
    write_json(&ours, &fixtures::load(&committed()).unwrap());
    write_json(&theirs, &fixtures::load(&upstream).unwrap());
    std::fs::write(folder.join("yaml.py"), YAML_MODULE).unwrap();
    let compared = Command::new("python3")
        .arg(tools.join("crd-superset"))
        .args([&ours, &theirs])
        .env("PYTHONPATH", &folder)
        .output();
    let Ok(compared) = compared else {
        return skip("python3 is not installed: apt-get install python3");
    };
    let printed = String::from_utf8(compared.stdout).unwrap();
    assert!(
        printed.ends_with("4 CRDs compared, 0 differences\n"),
        "{printed}"
    );
}

fn samples() -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/samples");
    fixtures::load(&folder).unwrap()
}

fn api_of(client: &kube::Client, object: &Value) -> Api<DynamicObject> {
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    let kind = object["kind"].as_str().unwrap();
    let kind = GroupVersionKind::gvk(group, version, kind);
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// Decodes the object as its kind.
fn decodes(object: Value) -> Result<(), String> {
    fn as_kind<K: StoredKind>(object: Value) -> Result<(), String> {
        let decoded = Decoded::<K>::from_value(object).map_err(|error| error.to_string())?;
        decoded
            .as_result()
            .map(drop)
            .map_err(|bad| bad.error.to_string())
    }
    match object["kind"].as_str().unwrap() {
        "Stack" => as_kind::<Stack>(object),
        "Program" => as_kind::<Program>(object),
        "Workspace" => as_kind::<Workspace>(object),
        "Update" => as_kind::<Update>(object),
        other => panic!("not one of ours: {other}"),
    }
}

/// The objects as stored, by name, without fields that the API server increments.
async fn read_objects(client: &kube::Client, objects: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let stored = api_of(client, object).get(name).await.unwrap();
        let mut stored = serde_json::to_value(stored).unwrap();
        stored["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        decodes(stored.clone()).unwrap();
        found.push(stored);
    }
    found
}

#[tokio::test]
async fn crds_are_interchangeable_with_upstream() {
    let Some(upstream) = shared_folder("upstream-crds") else {
        return;
    };
    let Some(cluster) = shared_folder("fixtures/upstream-cluster") else {
        return;
    };
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.client().unwrap();
    let upstream = fixtures::load(&upstream).unwrap();
    let ours = pko_api::crd::all();

    // Objects that upstream's operator left behind, and objects created under our CRDs.
    let mut theirs = fixtures::load(&cluster).unwrap();
    theirs.retain(is_ours);
    let samples: Vec<Value> = samples().into_iter().map(in_default_namespace).collect();

    plane.install_crds(&upstream).await.unwrap();
    fixtures::restore(&plane, &theirs).await.unwrap();
    let before = read_objects(&client, &theirs).await;
    assert_eq!(before.len(), theirs.len());

    plane.install_crds(&ours).await.unwrap();
    assert_eq!(
        read_objects(&client, &theirs).await,
        before,
        "ours over upstream's"
    );
    for sample in &samples {
        let object: DynamicObject = serde_json::from_value(sample.clone()).unwrap();
        api_of(&client, sample)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    plane.install_crds(&upstream).await.unwrap();
    assert_eq!(read_objects(&client, &theirs).await, before, "and back");
    // Upstream's CRDs hide fields that only ours have, not the objects.
    assert_eq!(read_objects(&client, &samples).await.len(), samples.len());
}

fn is_ours(object: &Value) -> bool {
    object["apiVersion"]
        .as_str()
        .is_some_and(|version| version.contains("pulumi.com/"))
}

fn in_default_namespace(mut sample: Value) -> Value {
    sample["metadata"]["namespace"] = "default".into();
    sample
}
