//! The form in which a Workspace is stored: nothing is lost, and nothing is written otherwise than
//! upstream writes it.

use super::{templates::merged, *};

/// What our types do not know is kept: the pod's spec stays JSON.
#[test]
fn template_fields_are_kept() {
    let template = json!({
        "serviceAccountName": "runner", "securityProfile": "baseline", "image": "i", "imagePullPolicy": "Always",
        "env": [
            { "name": "F", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name", "apiVersion": "v1" } } },
            { "name": "K", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k", "optional": true } } },
        ],
        "envFrom": [{ "prefix": "P_", "configMapRef": { "name": "c", "optional": true } }],
        "resources": { "claims": [{ "name": "gpu", "request": "one" }], "requests": { "cpu": "1" } },
        "podTemplate": {
            "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
            "spec": {
                "containers": [
                    { "name": "side", "image": "s", "resources": {}, "fromTheFuture": { "deep": [1] } },
                    { "name": "pulumi", "resources": {}, "lifecycle": { "preStop": { "sleep": { "seconds": 5 } } } },
                ],
                "fromTheFuture": true, "runtimeClassName": "gvisor", "hostUsers": false,
                "terminationGracePeriodSeconds": 0, "tolerations": [{ "operator": "Exists" }],
                "affinity": {}, "nodeSelector": { "disk": "" },
            },
        },
        "serviceTemplate": { "metadata": { "labels": { "e": "f" } } },
        "pulumiLogLevel": 11, "idleTimeout": "30m0s",
        "initContainers": [{ "name": "first", "image": "f" }],
        "stacks": [{
            "name": "other", "create": true, "secretsProvider": "", "environment": ["e"],
            "config": [{ "key": "k", "path": true, "secret": true, "valueFrom": { "env": "E", "json": false } }],
        }],
    });
    let mut expected = template.clone();
    expected["flux"] = json!({ "url": "http://operator/3", "digest": "sha256:1" });
    let stacks = expected["stacks"].as_array_mut().unwrap();
    stacks.push(json!({ "name": "dev", "create": true }));
    assert_eq!(merged(template), expected);
}

#[test]
fn pod_template_has_stored_shape() {
    let quantities =
        |cpu: Value, memory: &str| json!({ "limits": { "cpu": cpu, "memory": memory } });
    let claim = |more: Value| {
        let mut claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"] } });
        merge(&mut claim, more);
        json!({ "name": "claim", "ephemeral": { "volumeClaimTemplate": claim } })
    };
    let field = |divisor: Value| json!({ "resource": "limits.cpu", "divisor": divisor });
    let bare = json!({ "resource": "limits.cpu" });
    let spec = merged(json!({
        "resources": quantities(json!(2), "1024Mi"),
        "env": [{ "name": "E", "value": "" }, { "name": "F", "valueFrom": { "resourceFieldRef": bare } }],
        "podTemplate": { "spec": {
            "containers": [
                { "name": "pulumi", "resources": { "requests": {} }, "volumeMounts": [
                    { "name": "a", "mountPath": "/a", "readOnly": false },
                    { "name": "b", "mountPath": "/b", "readOnly": true },
                ] },
                { "name": "side", "env": [{ "name": "G", "value": "" }, { "name": "H", "valueFrom": { "resourceFieldRef": field(json!("1000m")) } }] },
            ],
            "initContainers": [{ "name": "first", "resources": quantities(json!("0.5"), "1.5Gi") }],
            "ephemeralContainers": [{ "name": "look" }],
            "overhead": { "cpu": "1000m" },
            "volumes": [
                { "name": "folder", "emptyDir": { "sizeLimit": "2048Mi" } },
                claim(json!({})),
                { "name": "self", "downwardAPI": { "items": [{ "path": "p", "resourceFieldRef": bare }] } },
                { "name": "all", "projected": { "sources": [{ "downwardAPI": { "items": [{ "path": "p", "resourceFieldRef": bare }] } }] } },
            ],
        } },
    }));
    let items = json!([{ "path": "p", "resourceFieldRef": field(json!("0")) }]);
    assert_eq!(spec["resources"], quantities(json!("2"), "1Gi"));
    assert_eq!(
        spec["env"],
        json!([{ "name": "E" }, { "name": "F", "valueFrom": { "resourceFieldRef": field(json!("0")) } }])
    );
    assert_eq!(
        spec["podTemplate"],
        json!({ "metadata": {}, "spec": {
            "containers": [
                { "name": "pulumi", "resources": {}, "volumeMounts": [
                    { "name": "a", "mountPath": "/a" }, { "name": "b", "mountPath": "/b", "readOnly": true },
                ] },
                { "name": "side", "resources": {}, "env": [{ "name": "G" }, { "name": "H", "valueFrom": { "resourceFieldRef": field(json!("1")) } }] },
            ],
            "initContainers": [{ "name": "first", "resources": quantities(json!("500m"), "1536Mi") }],
            "ephemeralContainers": [{ "name": "look", "resources": {} }],
            "overhead": { "cpu": "1" },
            "volumes": [
                { "name": "folder", "emptyDir": { "sizeLimit": "2Gi" } },
                claim(json!({ "metadata": {}, "spec": { "resources": {} } })),
                { "name": "self", "downwardAPI": { "items": items } },
                { "name": "all", "projected": { "sources": [{ "downwardAPI": { "items": items } }] } },
            ],
        } })
    );
}

/// A Stack of upstream's has the shape already; one that is applied again from git does not. Both
/// want the same Workspace.
#[test]
fn stored_template_gives_same_workspace() {
    let template = |container: Value| {
        merged(json!({ "podTemplate": { "spec": { "containers": [container] } } }))
    };
    let written = json!({ "name": "pulumi", "resources": { "limits": { "memory": "1024Mi" } }, "env": [{ "name": "A", "value": "" }] });
    let stored = json!({ "name": "pulumi", "resources": { "limits": { "memory": "1Gi" } }, "env": [{ "name": "A" }] });
    assert_eq!(template(written), template(stored));
}

/// An empty value of a variable of the Stack itself is stored as upstream does, too.
#[test]
fn empty_literal_is_variable_without_value() {
    let literal = json!({ "type": "Literal", "literal": { "value": "" } });
    let spec = &workspace(&fixture().spec(json!({ "envRefs": { "A": literal } })))["spec"];
    assert_eq!(spec["env"], json!([{ "name": "A" }]));
}

/// Go's types don't write what says nothing, and had their say before the template is laid over
/// anything.
#[test]
fn empty_fields_are_not_stored() {
    let pod = |spec: Value| {
        merged(json!({ "podTemplate": { "spec": spec } }))["podTemplate"]["spec"].clone()
    };
    let container = |more: Value| {
        let mut container = json!({ "name": "pulumi", "resources": {} });
        merge(&mut container, more);
        json!({ "containers": [container] })
    };
    let with_main_container = |more: Value| {
        let mut pod = container(json!({}));
        merge(&mut pod, more);
        pod
    };
    for (silent, stored) in [
        (
            json!({ "hostNetwork": false, "nodeName": "", "volumes": [], "nodeSelector": {} }),
            json!({}),
        ),
        (
            json!({ "tolerations": [{ "key": "a", "operator": "", "tolerationSeconds": 0 }] }),
            json!({ "tolerations": [{ "key": "a", "tolerationSeconds": 0 }] }),
        ),
        (
            container(
                json!({ "stdin": false, "command": [], "livenessProbe": { "periodSeconds": 0 } }),
            ),
            container(json!({ "livenessProbe": {} })),
        ),
    ] {
        assert_eq!(pod(silent), with_main_container(stored));
    }
    // These are pointers in Go: what is written is kept.
    let kept = json!({
        "hostUsers": false, "terminationGracePeriodSeconds": 0, "affinity": {}, "securityContext": { "runAsUser": 0 },
        "enableServiceLinks": false, "fromTheFuture": false,
    });
    assert_eq!(pod(kept.clone()), with_main_container(kept));

    let literal = json!({ "type": "Literal", "literal": { "value": "stack" } });
    let template = json!({ "spec": { "env": [{ "name": "A", "value": "" }] } });
    let fixture =
        fixture().spec(json!({ "envRefs": { "A": literal }, "workspaceTemplate": template }));
    assert_eq!(
        workspace(&fixture)["spec"]["env"],
        json!([{ "name": "A", "value": "stack" }]),
        "an empty text takes nothing away"
    );
}
