//! The Workspace and the Update that a Stack wants, as they are written. Numbers in comments are
//! those of upstream's own scenarios, in the order in which its tests have them.

mod names;
mod shapes;
mod templates;
mod update_templates;
mod upstream;

use super::*;

fn workspace(fixture: &StackFixture) -> Value {
    let requests = fixture.decide().requests;
    let workspace = requests.into_iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => Some(workspace),
        _ => None,
    });
    serde_json::to_value(workspace.unwrap()).unwrap()
}

/// 65
#[test]
fn minimal_workspace_is_built() {
    assert_eq!(
        workspace(&fixture()),
        json!({
            "apiVersion": "auto.pulumi.com/v1alpha1",
            "kind": "Workspace",
            "metadata": {
                "name": "demo",
                "namespace": "shop",
                "labels": { "pulumi.com/component": "stack", "pulumi.com/stack-name": "demo" },
                "ownerReferences": [{
                    "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "stack-uid",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "flux": { "url": "http://operator/3", "digest": "sha256:1" },
                "resources": {},
                "podTemplate": {
                    "metadata": {},
                    "spec": { "containers": [{ "name": "pulumi", "resources": {} }] },
                },
                "stacks": [{ "name": "dev", "create": true }],
            },
        })
    );
}

/// 51
#[test]
fn workspace_without_source_is_built() {
    let none = workspace(&fixture().with(json!({ "spec": { "programRef": null } })));
    assert_eq!(none["spec"].get("flux"), None);
    assert_eq!(none["spec"].get("projectInfo"), None);
}

/// 58, 116 to 120: what was found is what the workspace gets, its credentials by reference.
#[test]
fn workspace_commit_is_unchanged() {
    let selector = |key: &str| json!({ "name": "deploy", "key": key });
    for auth in [
        json!({ "sshPrivateKey": selector("id"), "password": selector("password") }),
        json!({ "token": selector("token") }),
        json!({ "username": selector("user"), "password": selector("password") }),
        json!(null),
    ] {
        let mut git = json!({ "url": "https://example.com/a.git", "ref": "0".repeat(40), "dir": "deep", "shallow": true });
        if !auth.is_null() {
            git["auth"] = auth;
        }
        let source = ProgramSource {
            revision: "0".repeat(40),
            location: Location::Git(serde_json::from_value(git.clone()).unwrap()),
        };
        let spec = &workspace(&fixture().source(Ok(source)))["spec"];
        assert_eq!(spec["git"], git);
        assert_eq!(spec.get("flux"), None);
    }
}

/// 60, 61, 62
#[test]
fn variables_are_in_upstreams_order() {
    let spec = json!({
        "backend": "s3://state",
        "accessTokenSecret": "cloud",
        "envRefs": {
            "C": { "type": "Literal", "literal": { "value": "plain" }, "secret": { "name": "not", "key": "this" } },
            "B": { "type": "Secret", "secret": { "namespace": "shop", "name": "s", "key": "k" } },
            "A": { "type": "ConfigMap", "configMap": { "name": "c", "key": "k" } },
        },
        "envs": ["z", "y"],
        "envSecrets": ["b", "a"],
    });
    let workspace = workspace(&fixture().spec(spec));
    assert_eq!(
        workspace["spec"]["env"],
        json!([
            { "name": "PULUMI_BACKEND_URL", "value": "s3://state" },
            { "name": "PULUMI_ACCESS_TOKEN", "valueFrom": { "secretKeyRef": { "name": "cloud", "key": "accessToken" } } },
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } },
            { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
            { "name": "C", "value": "plain" },
        ])
    );
    assert_eq!(
        workspace["spec"]["envFrom"],
        json!([
            { "configMapRef": { "name": "z" } },
            { "configMapRef": { "name": "y" } },
            { "secretRef": { "name": "b" } },
            { "secretRef": { "name": "a" } },
        ])
    );
}

/// 66, 68, 69
#[test]
fn config_is_in_upstreams_order() {
    let spec = json!({
        "config": { "b": { "deep": [1, true, null] }, "a": "text" },
        "configRef": { "d": { "name": "cm", "key": "k", "json": true }, "c": { "name": "cm", "key": "l" } },
        "secrets": { "f": "inline", "e": "inline too" },
        "secretsRef": {
            "h": { "type": "Literal", "literal": { "value": "written" } },
            "g": { "type": "Secret", "secret": { "name": "s", "key": "k" }, "literal": { "value": "not this" } },
        },
    });
    let secrets = "/var/run/secrets/stacks.pulumi.com/secrets";
    let config_maps = "/var/run/configmaps/stacks.pulumi.com/configmaps";
    let workspace = workspace(&fixture().spec(spec));
    assert_eq!(
        workspace["spec"]["stacks"][0]["config"],
        json!([
            { "key": "a", "value": "text", "secret": false },
            { "key": "b", "value": { "deep": [1, true, null] }, "secret": false },
            { "key": "c", "valueFrom": { "path": format!("{config_maps}/cm/l") }, "secret": false },
            { "key": "d", "valueFrom": { "path": format!("{config_maps}/cm/k"), "json": true }, "secret": false },
            { "key": "e", "value": "inline too", "secret": true },
            { "key": "f", "value": "inline", "secret": true },
            { "key": "g", "valueFrom": { "path": format!("{secrets}/s/k") }, "secret": true },
            { "key": "h", "value": "written", "secret": true },
        ])
    );
}

/// 69
#[test]
fn referenced_objects_are_mounted_once_in_order() {
    let secret =
        |name: &str, key: &str| json!({ "type": "Secret", "secret": { "name": name, "key": key } });
    let spec = json!({
        "secretsRef": { "a": secret("z", "1"), "b": secret("a", "1"), "c": secret("z", "2") },
        "configRef": { "d": { "name": "z", "key": "k" } },
    });
    let pod = workspace(&fixture().spec(spec))["spec"]["podTemplate"]["spec"].clone();
    assert_eq!(
        pod,
        json!({
            "volumes": [
                { "name": "configmap-z", "configMap": { "name": "z" } },
                { "name": "secret-z", "secret": { "secretName": "z" } },
                { "name": "secret-a", "secret": { "secretName": "a" } },
            ],
            "containers": [{ "name": "pulumi", "resources": {}, "volumeMounts": [
                { "name": "configmap-z", "mountPath": "/var/run/configmaps/stacks.pulumi.com/configmaps/z" },
                { "name": "secret-z", "mountPath": "/var/run/secrets/stacks.pulumi.com/secrets/z" },
                { "name": "secret-a", "mountPath": "/var/run/secrets/stacks.pulumi.com/secrets/a" },
            ] }],
        })
    );
}

/// 67, 72
#[test]
fn stack_options_reach_workspace() {
    let full = workspace(&fixture().spec(json!({
        "serviceAccountName": "runner", "secretsProvider": "awskms://k", "environment": ["org/b", "org/a"],
        "useLocalStackOnly": true,
    })));
    assert_eq!(full["spec"]["serviceAccountName"], "runner");
    assert_eq!(
        full["spec"]["stacks"],
        json!([{ "name": "dev", "create": false, "secretsProvider": "awskms://k", "environment": ["org/b", "org/a"] }])
    );
    let empty = json!({ "serviceAccountName": "", "secretsProvider": "", "backend": "", "accessTokenSecret": "" });
    assert_eq!(
        workspace(&fixture().spec(empty)),
        workspace(&fixture()),
        "an empty text is ignored"
    );
}

/// 38
#[test]
fn created_update_is_complete() {
    let spec = json!({ "targets": ["urn:b", "urn:a"], "targetDependents": true, "refresh": true, "runProgram": true });
    let outcome = fixture().spec(spec).decide();
    assert_eq!(
        serde_json::to_value(outcome.created()).unwrap(),
        json!({
            "apiVersion": "auto.pulumi.com/v1alpha1",
            "kind": "Update",
            "metadata": {
                "name": outcome.created().metadata.name.clone(),
                "namespace": "shop",
                "annotations": { "auto.pulumi.com/urgency": "change" },
                "labels": { "pulumi.com/component": "stack", "pulumi.com/stack-name": "demo" },
                "finalizers": ["finalizer.stack.pulumi.com"],
                "ownerReferences": [
                    {
                        "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "name": "demo",
                        "uid": "workspace-uid", "controller": true, "blockOwnerDeletion": true,
                    },
                    {
                        "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "stack-uid",
                        "blockOwnerDeletion": true,
                    },
                ],
            },
            "spec": {
                "workspaceName": "demo", "stackName": "dev", "type": "up", "ttlAfterCompleted": "24h0m0s",
                "message": "Initial stack update",
                "target": ["urn:b", "urn:a"], "targetDependents": true, "refresh": true,
            },
        })
    );
}

/// 5, 38, 40
#[test]
fn operation_options_match_operation() {
    let update =
        |fixture: StackFixture| serde_json::to_value(&fixture.decide().created().spec).unwrap();
    let common = |operation: &str, rest: Value| {
        let mut spec = json!({
            "workspaceName": "demo", "stackName": "dev", "type": operation, "ttlAfterCompleted": "24h0m0s",
            "message": "Initial stack update",
        });
        merge(&mut spec, rest);
        spec
    };
    let none = json!({ "targetDependents": false, "refresh": false });
    assert_eq!(update(fixture()), common("up", none.clone()));
    assert_eq!(
        update(fixture().spec(json!({ "preview": true }))),
        common("preview", none)
    );

    let awaiting_destroy = || {
        fixture()
            .spec(json!({ "destroyOnFinalize": true, "targets": ["urn:a"], "refresh": true }))
            .deleting()
    };
    assert_eq!(
        update(awaiting_destroy()),
        common("destroy", json!({ "runProgram": false }))
    );
    let with_program = awaiting_destroy().spec(json!({ "runProgram": true }));
    assert_eq!(
        update(with_program),
        common("destroy", json!({ "runProgram": true }))
    );
}
