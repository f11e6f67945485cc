//! Manifests from the public documents.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use pko_api::Stack;
use pko_testkit::{ControlPlane, eventually, fixtures};

use crate::plane::{kubectl, with_our_crds};

/// Our manifests, one for each form in the public documents.
fn manifests(folder: &str) -> PathBuf {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/manifests");
    manifests.join(folder)
}

/// The API server creates the namespace `default` only after it is ready.
async fn default_namespace(plane: &ControlPlane) {
    let namespaces: Api<Namespace> = Api::all(plane.client().unwrap());
    let metadata = ObjectMeta {
        name: Some("default".into()),
        ..ObjectMeta::default()
    };
    let _exists = namespaces
        .create(
            &PostParams::default(),
            &Namespace {
                metadata,
                ..Namespace::default()
            },
        )
        .await;
}

#[tokio::test]
async fn documented_manifests_pass_strict_validation() {
    let plane = with_our_crds().await;
    default_namespace(&plane).await;
    let folder = manifests("accepted");
    let (accepted, output) = kubectl(
        &plane,
        &[
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            folder.to_str().unwrap(),
        ],
    );
    assert!(accepted, "{output}");
    let objects = fixtures::load(&folder).unwrap();
    assert!(objects.len() > 20, "{}", objects.len());
    for object in objects {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let name = object["metadata"]["name"].as_str().unwrap();
        let named = |line: &&str| line.contains(&kind) && line.contains(&format!("/{name} "));
        assert_eq!(output.lines().filter(named).count(), 1, "{name}: {output}");
    }
}

#[tokio::test]
async fn documented_python_form_is_rejected_with_right_names() {
    let plane = with_our_crds().await;
    default_namespace(&plane).await;
    let file = manifests("refused/v1alpha1-snake-case.yaml");
    let file = file.to_str().unwrap();
    // Also for a client without strict validation, which would silently lose the fields.
    for validation in ["--validate=strict", "--validate=ignore"] {
        let (accepted, output) = kubectl(&plane, &["apply", validation, "-f", file]);
        assert!(!accepted, "{output}");
        for (wrong, right) in [
            ("access_token_secret", "accessTokenSecret"),
            ("init_on_create", "initOnCreate"),
            ("project_repo", "projectRepo"),
            ("destroy_on_finalize", "destroyOnFinalize"),
        ] {
            assert!(
                output.contains(&format!("{wrong} is spelled {right}")),
                "{output}"
            );
        }
    }
}

#[tokio::test]
async fn kubectl_explain_names_the_right_spelling() {
    let plane = with_our_crds().await;
    // The API server publishes a schema shortly after it serves the kind.
    let explained = eventually("kubectl explain", async || {
        let (explained, output) = kubectl(&plane, &["explain", "stacks.spec"]);
        if explained { Ok(output) } else { Err(output) }
    });
    let explained = explained.await.unwrap();
    let lines: Vec<&str> = explained.lines().map(str::trim).collect();
    let field = |line: &str| {
        let (name, _type) = line.split_once('\t')?;
        Some(name.to_owned()).filter(|name| name.contains('_'))
    };
    let mut snake_case = 0;
    for (line, next) in lines.iter().zip(lines.iter().skip(1)) {
        if let Some(field) = field(line) {
            assert!(next.starts_with("misspelled; use "), "{field}: {next}");
            snake_case += 1;
        }
    }
    assert!(snake_case > 30, "{explained}");
    let one = "access_token_secret\t<string>\n    misspelled; use accessTokenSecret\n";
    assert!(explained.contains(one), "{explained}");
}

#[tokio::test]
async fn fields_from_documents_only_are_stored_and_decoded() {
    let plane = with_our_crds().await;
    pko_testkit::with_namespace(&plane, async |namespace| {
        let stack = serde_json::json!({
            "apiVersion": "pulumi.com/v1alpha1",
            "kind": "Stack",
            "metadata": { "name": "documented" },
            "spec": {
                "stack": "dev",
                "initOnCreate": false,
                "configRefs": { "database": { "name": "settings", "key": "database.json", "json": true } },
                "envRefs": { "REGION": { "type": "ConfigMap", "configMap": { "name": "settings", "key": "region" } } },
                "workspaceTemplate": { "spec": {
                    "initContainers": [{ "name": "setup", "image": "busybox" }],
                    "podTemplate": { "spec": { "nodeSelector": { "disk": "ssd" } } },
                } },
            },
        });
        namespace.create_object(stack).await.unwrap();
        // Written in one version, read in the other.
        let stack = namespace.api::<Stack>().get("documented").await.unwrap();
        assert!(!stack.spec.may_create_stack());
        assert_eq!(stack.spec.config_map_refs()["database"].key, "database.json");
        assert_eq!(stack.spec.env_refs["REGION"].config_map.as_ref().unwrap().name, "settings");
        let template = serde_json::to_value(&stack.spec.workspace_template).unwrap();
        assert_eq!(template["spec"]["initContainers"][0]["name"], "setup");
        assert_eq!(template["spec"]["podTemplate"]["spec"]["nodeSelector"]["disk"], "ssd");
    })
    .await;
}

const STACK_FIELDS: &str = include_str!("../../../../docs/stack-fields.md");

#[test]
fn stack_fields_are_documented() {
    let stack = serde_json::json!(pko_api::crd::all()[0]);
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = stack.pointer(fields).unwrap().as_object().unwrap();
    // Fields with an underscore exist only to be rejected.
    for field in fields.keys().filter(|field| !field.contains('_')) {
        let row = format!("\n| `{field}` | ");
        assert_eq!(STACK_FIELDS.matches(&row).count(), 1, "{field}");
    }
    let rows = STACK_FIELDS.matches("\n| `").count();
    let all = fields.keys().filter(|field| !field.contains('_')).count();
    assert_eq!(rows, all, "no row is about a field that is none");
}

#[tokio::test]
async fn our_examples_are_accepted_by_strict_validation() {
    let plane = with_our_crds().await;
    default_namespace(&plane).await;
    let examples: Vec<&str> = STACK_FIELDS
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 4);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stack-fields.yaml");
    std::fs::write(&file, examples.join("---\n")).unwrap();
    let dry = kubectl(
        &plane,
        &[
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            file.to_str().unwrap(),
        ],
    );
    assert!(dry.0, "{}", dry.1);
}
