//! The template of a Workspace over what the operator makes.

use pko_api::Stack;

use super::*;

const LABELS: [&str; 2] = ["pulumi.com/component", "pulumi.com/stack-name"];

fn with_template(template: Value) -> StackFixture {
    fixture().spec(json!({ "workspaceTemplate": template }))
}

/// The spec of the Workspace under this template.
pub(super) fn merged(template: Value) -> Value {
    workspace(&with_template(json!({ "spec": template })))["spec"].clone()
}

/// The message, with nothing applied.
fn refusal(fixture: &StackFixture) -> String {
    let outcome = fixture.decide();
    assert_eq!(outcome.request_names(), ["source"], "nothing is applied");
    let shown = state(outcome.status().unwrap());
    let message = shown.strip_prefix("Stalled SpecInvalid: ").unwrap();
    message.to_owned()
}

/// 115
#[test]
fn template_is_merged_with_stack() {
    let fixture = with_template(json!({
        "metadata": { "labels": { "team": "shop" } },
        "spec": {
            "image": "registry/pulumi:1",
            "serviceAccountName": "runner",
            "podTemplate": {
                "metadata": { "annotations": { "example.com/a": "b" } },
                "spec": {
                    "containers": [{ "name": "pulumi", "volumeMounts": [{ "name": "foo", "mountPath": "/foo" }] }],
                    "volumes": [{ "name": "foo", "emptyDir": {} }],
                },
            },
        },
    }))
    .spec(json!({
        "secretsRef": { "a": { "type": "Secret", "secret": { "name": "secret-name", "key": "k" } } },
    }));
    assert_eq!(
        workspace(&fixture),
        json!({
            "apiVersion": "auto.pulumi.com/v1alpha1",
            "kind": "Workspace",
            "metadata": {
                "name": "demo",
                "namespace": "shop",
                "labels": { "pulumi.com/component": "stack", "pulumi.com/stack-name": "demo", "team": "shop" },
                "ownerReferences": [{
                    "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "stack-uid",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "flux": { "url": "http://operator/3", "digest": "sha256:1" },
                "image": "registry/pulumi:1",
                "serviceAccountName": "runner",
                "resources": {},
                "podTemplate": {
                    "metadata": { "annotations": { "example.com/a": "b" } },
                    "spec": {
                        "containers": [{
                            "name": "pulumi", "resources": {},
                            "volumeMounts": [
                                { "name": "foo", "mountPath": "/foo" },
                                { "name": "secret-secret-name", "mountPath": "/var/run/secrets/stacks.pulumi.com/secrets/secret-name" },
                            ],
                        }],
                        "volumes": [
                            { "name": "foo", "emptyDir": {} },
                            { "name": "secret-secret-name", "secret": { "secretName": "secret-name" } },
                        ],
                    },
                },
                "stacks": [{
                    "name": "dev", "create": true,
                    "config": [{
                        "key": "a", "secret": true,
                        "valueFrom": { "path": "/var/run/secrets/stacks.pulumi.com/secrets/secret-name/k" },
                    }],
                }],
            },
        })
    );
}

#[test]
fn empty_template_changes_nothing() {
    let plain = workspace(&fixture());
    for template in [
        json!({}),
        json!({ "metadata": {} }),
        json!({ "spec": {} }),
        json!({ "apiVersion": "v1", "kind": "Pod", "status": { "address": "elsewhere" } }),
        json!({ "metadata": { "name": "", "labels": {} }, "spec": { "env": [], "stacks": [], "envFrom": [] } }),
    ] {
        assert_eq!(
            workspace(&with_template(template.clone())),
            plain,
            "{template}"
        );
    }
}

#[test]
fn template_cannot_change_stack_identity() {
    let fixture = with_template(json!({
        "metadata": {
            "namespace": "other", "uid": "1", "resourceVersion": "2", "generateName": "x-", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b" }],
            "labels": { "pulumi.com/component": "mine", "pulumi.com/stack-name": "other", "team": "shop" },
            "annotations": { "note": "kept" },
            "finalizers": ["example.com/hold"],
        },
    }));
    let mut metadata = workspace(&fixture)["metadata"].clone();
    let labels = metadata["labels"].as_object_mut().unwrap();
    assert_eq!(labels.remove("team"), Some(json!("shop")));
    let fields = metadata.as_object_mut().unwrap();
    assert_eq!(
        fields.remove("annotations"),
        Some(json!({ "note": "kept" }))
    );
    assert_eq!(
        fields.remove("finalizers"),
        Some(json!(["example.com/hold"]))
    );
    assert_eq!(metadata, workspace(&super::fixture())["metadata"]);
}

#[test]
fn template_can_name_workspace() {
    let fixture = with_template(json!({ "metadata": { "name": "place" } }));
    let stack: Stack = serde_json::from_value(fixture.stack.clone()).unwrap();
    assert_eq!(workspace_name(&stack), "place");
    let workspace = workspace(&fixture);
    assert_eq!(workspace["metadata"]["name"], "place");
    assert_eq!(
        workspace["metadata"]["labels"][LABELS[1]], "demo",
        "found by its label"
    );

    let fixture = fixture.workspace(json!({ "metadata": { "name": "place" } }));
    let outcome = fixture.decide();
    let update = outcome.created();
    assert_eq!(update.spec.workspace_name.as_deref(), Some("place"));
    let owners = update.metadata.owner_references.as_ref().unwrap();
    assert_eq!(owners[0].name, "place");

    let plain: Stack = serde_json::from_value(super::fixture().stack).unwrap();
    assert_eq!(workspace_name(&plain), "demo");
}

#[test]
fn scalars_are_overridden_and_objects_merged() {
    let spec = merged(json!({
        "serviceAccountName": "other", "securityProfile": "baseline", "imagePullPolicy": "Always",
        "pulumiLogLevel": 5, "flux": { "dir": "deep" }, "resources": { "limits": { "cpu": "2" } },
    }));
    assert_eq!(spec["serviceAccountName"], "other");
    assert_eq!(spec["securityProfile"], "baseline");
    assert_eq!(spec["imagePullPolicy"], "Always");
    assert_eq!(spec["pulumiLogLevel"], 5);
    assert_eq!(
        spec["flux"],
        json!({ "url": "http://operator/3", "digest": "sha256:1", "dir": "deep" })
    );
    assert_eq!(spec["resources"], json!({ "limits": { "cpu": "2" } }));
}

#[test]
fn template_variables_merge_by_name() {
    let fixture = with_template(json!({ "spec": {
        "env": [{ "name": "PULUMI_BACKEND_URL", "value": "file:///mine" }, { "name": "NEW", "value": "1" }],
        "envFrom": [{ "secretRef": { "name": "from-template" } }],
    } }))
    .spec(json!({
        "backend": "s3://state", "accessTokenSecret": "cloud",
        "envs": ["a"], "envSecrets": ["b"],
    }));
    let spec = &workspace(&fixture)["spec"];
    assert_eq!(
        spec["env"],
        json!([
            { "name": "PULUMI_BACKEND_URL", "value": "file:///mine" },
            { "name": "NEW", "value": "1" },
            { "name": "PULUMI_ACCESS_TOKEN", "valueFrom": { "secretKeyRef": { "name": "cloud", "key": "accessToken" } } },
        ])
    );
    assert_eq!(
        spec["envFrom"],
        json!([
            { "secretRef": { "name": "from-template" } },
            { "configMapRef": { "name": "a" } },
            { "secretRef": { "name": "b" } },
        ])
    );
}

#[test]
fn template_stacks_precede_own_stack() {
    let spec =
        merged(json!({ "stacks": [{ "name": "other", "create": false }, { "name": "third" }] }));
    assert_eq!(
        spec["stacks"],
        json!([{ "name": "other", "create": false }, { "name": "third" }, { "name": "dev", "create": true }])
    );
}

#[test]
fn template_overrides_own_stack_entry() {
    let fixture = with_template(json!({ "spec": { "stacks": [
        { "name": "dev", "secretsProvider": "passphrase", "config": [
            { "key": "deep.down", "path": true, "value": 1 },
            { "key": "file", "value": "not any more" },
        ] },
        { "name": "other" },
    ] } }))
    .spec(json!({
        "config": { "kept": null, "a": [null] }, "secretsProvider": "awskms://k", "environment": ["org/a"],
        "configRef": { "file": { "name": "c", "key": "k" } },
    }));
    assert_eq!(
        workspace(&fixture)["spec"]["stacks"],
        json!([
            { "name": "other" },
            {
                "name": "dev", "create": true, "secretsProvider": "passphrase", "environment": ["org/a"],
                "config": [
                    { "key": "deep.down", "path": true, "value": 1 },
                    { "key": "file", "value": "not any more" },
                    { "key": "a", "value": [null], "secret": false },
                    { "key": "kept", "value": null, "secret": false },
                ],
            },
        ])
    );
}

#[test]
fn volume_with_second_source_keeps_both() {
    let fixture = with_template(json!({ "spec": { "podTemplate": { "spec": {
        "containers": [{ "name": "pulumi" }],
        "volumes": [{ "name": "secret-s", "emptyDir": {} }],
    } } } }))
    .spec(json!({ "secretsRef": { "a": { "type": "Secret", "secret": { "name": "s", "key": "k" } } } }));
    let volumes = &workspace(&fixture)["spec"]["podTemplate"]["spec"]["volumes"];
    assert_eq!(
        *volumes,
        json!([{ "name": "secret-s", "emptyDir": {}, "secret": { "secretName": "s" } }]),
        "which the API server rejects"
    );
}

#[test]
fn stack_without_source_uses_template_source() {
    let git = json!({ "url": "https://example.com/a.git", "ref": "main" });
    let fixture =
        with_template(json!({ "spec": { "git": git } })).spec(json!({ "programRef": null }));
    let spec = &workspace(&fixture)["spec"];
    assert_eq!(spec["git"], git);
    assert_eq!(spec.get("flux"), None);
}

#[test]
fn two_sources_are_rejected() {
    let message = |sources: &str| {
        format!("spec.workspaceTemplate.spec: the program has several sources: {sources}; keep one")
    };
    for (template, sources) in [
        (json!({ "git": { "url": "https://x/y" } }), "git and flux"),
        (json!({ "local": { "dir": "/app" } }), "flux and local"),
        (
            json!({ "projectInfo": { "name": "a", "runtime": "yaml" } }),
            "flux and projectInfo",
        ),
        (json!({ "git": {}, "local": {} }), "git and flux and local"),
    ] {
        let fixture = with_template(json!({ "spec": template }));
        assert_eq!(refusal(&fixture), message(sources));
    }
    let fixture = with_template(json!({ "spec": { "git": {}, "local": {} } }));
    let sourceless = fixture.spec(json!({ "programRef": null })).decide();
    let shown = state(sourceless.status().unwrap());
    assert_eq!(
        shown,
        format!("Stalled SpecInvalid: {}", message("git and local"))
    );
}

/// 91, with sources from the template: what a destroy works on is the state.
#[test]
fn destroy_without_program_has_no_source() {
    let project = json!({ "name": "hello", "runtime": "yaml" });
    for source in [
        json!({}),
        json!({ "git": { "url": "https://x/y" } }),
        json!({ "flux": { "url": "http://x", "digest": "sha256:2" } }),
        json!({ "local": { "dir": "/app" } }),
        json!({ "git": {}, "flux": {}, "local": {}, "projectInfo": { "name": "other" } }),
    ] {
        let mut template = json!({ "image": "i" });
        merge(&mut template, source);
        let deleted = with_template(json!({ "spec": template }))
            .spec(json!({ "destroyOnFinalize": true }))
            .last(json!({ "generation": 2 }))
            .status(json!({ "projectInfo": project }))
            .deleting();
        assert_eq!(deleted.decide().plan.rule, "launch");
        let spec = &workspace(&deleted)["spec"];
        assert_eq!(spec["projectInfo"], project);
        assert_eq!(spec["image"], "i", "the rest of the template counts");
        for field in ["git", "flux", "local"] {
            assert_eq!(spec.get(field), None, "{template}");
        }
    }
}

#[test]
fn unmergeable_template_is_named() {
    let containers = |containers: Value| json!({ "spec": { "podTemplate": { "spec": { "containers": containers } } } });
    for (template, message) in [
        (
            containers(json!([{ "image": "x" }])),
            "spec.workspaceTemplate.spec.podTemplate.spec.containers: an item lacks the merge key `name`; add it",
        ),
        (
            containers(json!(["pulumi"])),
            "spec.workspaceTemplate.spec.podTemplate.spec.containers: an item is not an object",
        ),
        (
            json!({ "spec": { "stacks": [{ "name": "dev", "config": [{ "value": 1 }] }] } }),
            "spec.workspaceTemplate.spec.stacks[name=dev].config: an item lacks the merge key `key`; add it",
        ),
    ] {
        // Config that both have is what merges.
        let fixture = with_template(template).spec(json!({ "config": { "a": 1 } }));
        assert_eq!(refusal(&fixture), message);
    }
}

#[test]
fn invalid_merged_workspace_is_named() {
    for (template, message) in [
        (
            json!({ "pulumiLogLevel": -1 }),
            "spec.workspaceTemplate.spec.pulumiLogLevel: -1: ",
        ),
        (
            json!({ "stacks": [{ "create": true }] }),
            "spec.workspaceTemplate.spec.stacks[0]: missing field `name`",
        ),
        (
            json!({ "image": 1 }),
            "spec.workspaceTemplate.spec.image: 1: ",
        ),
        (
            json!({ "podTemplate": "x" }),
            "spec.workspaceTemplate.spec.podTemplate: \"x\": ",
        ),
        (
            json!({ "idleTimeout": "soon" }),
            "spec.workspaceTemplate.spec.idleTimeout: \"soon\": not a duration",
        ),
    ] {
        let outcome = refusal(&with_template(json!({ "spec": template })));
        assert!(outcome.starts_with(message), "{outcome}");
    }
}

/// A Stack that never ran anything is released in spite of its template.
#[test]
fn invalid_template_does_not_block_stack_delete() {
    let fixture = with_template(json!({ "spec": { "image": 1 } }))
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting();
    assert!(
        fixture
            .decide()
            .lines()
            .contains(&"remove finalizer".to_owned())
    );
}
