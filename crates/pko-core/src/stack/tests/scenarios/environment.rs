//! The environment and the config of a Workspace.

use super::*;

/// The number, the scenario, the Stack's spec, a place in the Workspace's spec, and what is there.
fn check(table: &[(u16, &str, Value, &str, Value)]) {
    for (number, sentence, spec, place, expected) in table {
        let workspace = workspace(&fixture().spec(spec.clone()));
        let found = workspace["spec"].pointer(place);
        assert_eq!(found, Some(expected), "{number}: {sentence}");
    }
}

fn literal(value: &str) -> Value {
    json!({ "type": "Literal", "literal": { "value": value } })
}

fn secret(name: &str, key: &str) -> Value {
    json!({ "type": "Secret", "secret": { "name": name, "key": key } })
}

#[test]
fn scenarios_60_to_62_variables() {
    check(&[
        (
            60,
            "a whole ConfigMap",
            json!({ "envs": ["cm"] }),
            "/envFrom",
            json!([{ "configMapRef": { "name": "cm" } }]),
        ),
        (
            61,
            "a whole Secret",
            json!({ "envSecrets": ["s"] }),
            "/envFrom",
            json!([{ "secretRef": { "name": "s" } }]),
        ),
        (
            62,
            "references, sorted",
            json!({ "envRefs": { "c": literal("value"), "b": secret("s", "k") } }),
            "/env",
            json!([
                { "name": "b", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                { "name": "c", "value": "value" },
            ]),
        ),
    ]);
}

/// Upstream reports only the first half, without the reference.
#[test]
fn scenarios_63_64_70_and_71_unresolvable_references() {
    let env = json!({ "type": "Env", "env": { "name": "HOME" } });
    let file = json!({ "type": "FS", "filesystem": { "path": "/etc/passwd" } });
    for (number, fields, message) in [
        (
            63,
            json!({ "envRefs": { "a": env } }),
            "ref type \"Env\" is deprecated (spec.envRefs.a: use Secret or ConfigMap or Literal)",
        ),
        (
            64,
            json!({ "envRefs": { "a": file } }),
            "ref type \"FS\" is deprecated (spec.envRefs.a: use Secret or ConfigMap or Literal)",
        ),
        (
            70,
            json!({ "secretsRef": { "a": env } }),
            "ref type \"Env\" is deprecated (spec.secretsRef.a: use Secret or Literal)",
        ),
        (
            71,
            json!({ "secretsRef": { "a": file } }),
            "ref type \"FS\" is deprecated (spec.secretsRef.a: use Secret or Literal)",
        ),
    ] {
        let lines = fixture().spec(fields).decide().lines();
        assert_eq!(
            lines[1..],
            [
                format!("status Stalled SpecInvalid: {message}"),
                format!("event! StackConfigInvalid: {message}"),
                "settled".to_owned(),
            ],
            "{number}"
        );
    }
}

#[test]
fn scenarios_65_to_69_and_72_the_stack_and_its_config() {
    let file = "/var/run/secrets/stacks.pulumi.com/secrets/s";
    let referred = || json!({ "secretsRef": { "c": literal("value"), "b": secret("s", "k") } });
    check(&[
        (
            65,
            "the stack",
            json!({}),
            "/stacks",
            json!([{ "name": "dev", "create": true }]),
        ),
        (
            66,
            "config, sorted",
            json!({ "config": { "c": { "deep": [1] }, "b": "text" } }),
            "/stacks/0/config",
            json!([
                { "key": "b", "value": "text", "secret": false },
                { "key": "c", "value": { "deep": [1] }, "secret": false },
            ]),
        ),
        (
            67,
            "environments of ESC",
            json!({ "environment": ["test/test"] }),
            "/stacks/0/environment",
            json!(["test/test"]),
        ),
        (
            68,
            "secrets, sorted",
            json!({ "secrets": { "c": "3", "b": "2" } }),
            "/stacks/0/config",
            json!([
                { "key": "b", "value": "2", "secret": true },
                { "key": "c", "value": "3", "secret": true },
            ]),
        ),
        (
            69,
            "references to secrets, sorted",
            referred(),
            "/stacks/0/config",
            json!([
                { "key": "b", "valueFrom": { "path": format!("{file}/k") }, "secret": true },
                { "key": "c", "value": "value", "secret": true },
            ]),
        ),
        (
            69,
            "the volume",
            referred(),
            "/podTemplate/spec/volumes",
            json!([{ "name": "secret-s", "secret": { "secretName": "s" } }]),
        ),
        (
            69,
            "and where it is mounted",
            referred(),
            "/podTemplate/spec/containers/0/volumeMounts",
            json!([{ "name": "secret-s", "mountPath": file }]),
        ),
        (
            72,
            "the service account",
            json!({ "serviceAccountName": "runner" }),
            "/serviceAccountName",
            json!("runner"),
        ),
    ]);
}
