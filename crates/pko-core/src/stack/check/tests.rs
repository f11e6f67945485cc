//! Each check: a spec and its message.
#![expect(
    clippy::needless_pass_by_value,
    reason = "a table of `json!` reads better without `&`"
)]

use serde_json::{Value, json};

use super::*;

fn stack(spec: Value) -> Stack {
    let mut stack = json!({
        "metadata": { "name": "demo", "namespace": "shop" }, "spec": { "stack": "dev" },
    });
    let fields = spec.as_object().unwrap().clone();
    stack["spec"].as_object_mut().unwrap().extend(fields);
    serde_json::from_value(stack).unwrap()
}

fn spec_problem(spec: Value) -> Option<String> {
    problem(&ObservedStack::new(stack(spec)))
}

fn said_when_deleting(spec: Value) -> Option<String> {
    let mut stack = stack(spec);
    let deleted = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    stack.metadata.deletion_timestamp = Some(deleted);
    problem(&ObservedStack::new(stack))
}

fn refused<const N: usize>(table: [(Value, &str); N]) {
    for (spec, message) in table {
        let shown = spec.to_string();
        assert_eq!(spec_problem(spec).as_deref(), Some(message), "{shown}");
    }
}

fn taken<const N: usize>(table: [Value; N]) {
    for spec in table {
        let shown = spec.to_string();
        assert_eq!(spec_problem(spec), None, "{shown}");
    }
}

fn literal() -> Value {
    json!({ "type": "Literal", "literal": { "value": "hunter2" } })
}

fn secret(namespace: &str) -> Value {
    json!({ "type": "Secret", "secret": { "namespace": namespace, "name": "s", "key": "k" } })
}

fn config_map() -> Value {
    json!({ "type": "ConfigMap", "configMap": { "name": "c", "key": "k" } })
}

fn program() -> Value {
    json!({ "name": "hello" })
}

fn flux() -> Value {
    json!({ "sourceRef": { "apiVersion": "a/v1", "kind": "K", "name": "n" } })
}

#[test]
fn unresolvable_reference_is_named() {
    refused([
        (
            json!({ "envRefs": { "A": { "type": "Env", "env": { "name": "B" } } } }),
            "ref type \"Env\" is deprecated (spec.envRefs.A: use Secret or ConfigMap or Literal)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "FS", "filesystem": { "path": "/b" } } } }),
            "ref type \"FS\" is deprecated (spec.envRefs.A: use Secret or ConfigMap or Literal)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "Env" } } }),
            "ref type \"Env\" is deprecated (spec.secretsRef.a: use Secret or Literal)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "FS" } } }),
            "ref type \"FS\" is deprecated (spec.secretsRef.a: use Secret or Literal)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "Vault" } } }),
            "ref type \"Vault\" is unknown here (spec.envRefs.A: use Secret or ConfigMap or Literal)",
        ),
        (
            json!({ "secretsRef": { "a": config_map() } }),
            "ref type \"ConfigMap\" is unknown here (spec.secretsRef.a: use Secret or Literal)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "Secret", "literal": { "value": "x" } } } }),
            "ref type \"Secret\" needs its selector (spec.envRefs.A: add `secret`)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "ConfigMap" } } }),
            "ref type \"ConfigMap\" needs its selector (spec.envRefs.A: add `configMap`)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "Literal" } } }),
            "ref type \"Literal\" needs its selector (spec.secretsRef.a: add `literal`)",
        ),
        (
            json!({ "envRefs": { "A": secret("other") } }),
            "cross-namespace refs are not allowed (spec.envRefs.A: namespace \"other\" is not the Stack's own, remove it)",
        ),
        (
            json!({ "secretsRef": { "a": secret("other") } }),
            "cross-namespace refs are not allowed (spec.secretsRef.a: namespace \"other\" is not the Stack's own, remove it)",
        ),
    ]);
}

#[test]
fn resolvable_reference_is_accepted() {
    taken([
        json!({ "envRefs": { "A": secret(""), "B": secret("shop"), "C": config_map(), "D": literal() } }),
        json!({ "secretsRef": { "a": secret(""), "b": secret("shop"), "c": literal() } }),
    ]);
}

#[test]
fn invalid_variable_name_is_rejected() {
    refused([
        (
            json!({ "envRefs": { "": literal() } }),
            "spec.envRefs has \"\", which is not a valid variable name: rename it",
        ),
        (
            json!({ "envRefs": { "A=B": literal() } }),
            "spec.envRefs has \"A=B\", which is not a valid variable name: rename it",
        ),
    ]);
    taken([json!({ "envRefs": { "a.b-c d": literal() } })]);
}

#[test]
fn duplicate_variable_is_named() {
    refused([
        (
            json!({ "backend": "file:///x", "envRefs": { "PULUMI_BACKEND_URL": literal() } }),
            "spec.envRefs.PULUMI_BACKEND_URL and spec.backend set the same variable: keep one",
        ),
        (
            json!({ "accessTokenSecret": "s", "envRefs": { "PULUMI_ACCESS_TOKEN": literal() } }),
            "spec.envRefs.PULUMI_ACCESS_TOKEN and spec.accessTokenSecret set the same variable: keep one",
        ),
    ]);
    taken([
        json!({ "backend": "", "envRefs": { "PULUMI_BACKEND_URL": literal() } }),
        json!({ "accessTokenSecret": "", "envRefs": { "PULUMI_ACCESS_TOKEN": literal() } }),
    ]);
}

#[test]
fn duplicate_config_key_names_both_fields() {
    let fields = [
        ("config", json!(1)),
        ("configRef", json!({ "name": "c", "key": "k" })),
        ("configRefs", json!({ "name": "d", "key": "k" })),
        ("secrets", json!("hunter2")),
        ("secretsRef", literal()),
    ];
    for (index, (field, value)) in fields.iter().enumerate() {
        for (other, another) in &fields[index + 1..] {
            let twice = spec_problem(json!({
                *field: { "a": value, "twice": value }, *other: { "twice": another, "z": another },
            }));
            assert_eq!(
                twice.unwrap(),
                format!("spec.{field} and spec.{other} both set \"twice\": keep one")
            );
            assert_eq!(
                spec_problem(json!({ *field: { "a": value }, *other: { "b": another } })),
                None,
                "{field} and {other} with a key each"
            );
        }
    }
}

#[test]
fn prerequisite_duration_must_be_positive() {
    let within = |duration: &str| {
        let requirement = json!({ "succeededWithinDuration": duration });
        json!({ "prerequisites": [{ "name": "a" }, { "name": "b", "requirement": requirement }] })
    };
    for duration in ["0", "0s", "-1h"] {
        assert_eq!(
            spec_problem(within(duration)).unwrap(),
            format!(
                "spec.prerequisites[1].requirement.succeededWithinDuration is \"{duration}\", \
                 which is not a positive duration: write it like `10m` or `1h30m`, or remove it"
            )
        );
    }
    taken([
        within("1ns"),
        within("1h30m"),
        json!({ "prerequisites": [{ "name": "a", "requirement": {} }] }),
    ]);
}

#[test]
fn outputs_go_to_objects_and_keys_that_can_be() {
    let target = |name: &str, keys: Value| json!({ "outputsTo": [{ "kind": "Secret", "name": name, "keys": keys }] });
    for name in [
        "",
        "Upper",
        "under_score",
        "-a",
        "a-",
        "a..b",
        ".a",
        "a.",
        "ä",
    ] {
        assert_eq!(
            spec_problem(target(name, json!({}))).unwrap(),
            format!(
                "spec.outputsTo[0].name is {name:?}, which is not a valid object name: use lowercase letters, digits, `-` and `.`"
            )
        );
    }
    assert!(spec_problem(target(&"n".repeat(254), json!({}))).is_some());
    for key in ["", "a b", "a/b", ".", "..", "..a", "ä"] {
        assert_eq!(
            spec_problem(target("good", json!({ key: "url" }))).unwrap(),
            format!(
                "spec.outputsTo[0].keys has {key:?}, which is not a valid key: use letters, digits, `-`, `_` and `.`"
            )
        );
    }
    assert!(spec_problem(target("good", json!({ "k".repeat(254): "url" }))).is_some());
    assert_eq!(
        spec_problem(target("good", json!({ "URL": "" }))).unwrap(),
        "spec.outputsTo[0].keys.URL has no output: name one or remove the key"
    );
    taken([
        target("a", json!({})),
        target(
            "a.b-c.d9",
            json!({ "A_b-c.d": "any output: name", ".dot": "x" }),
        ),
        target(&"n".repeat(253), json!({ "k".repeat(253): "url" })),
    ]);
}

#[test]
fn outputs_do_not_go_where_the_stack_reads() {
    let to = |kind: &str, name: &str| json!([{ "kind": kind, "name": "other" }, { "kind": kind, "name": name }]);
    for (field, value, kind, name) in [
        ("envs", json!(["x"]), "ConfigMap", "x"),
        ("envSecrets", json!(["x"]), "Secret", "x"),
        ("accessTokenSecret", json!("x"), "Secret", "x"),
        ("gitAuthSecret", json!("x"), "Secret", "x"),
        (
            "configRef",
            json!({ "a": { "name": "x", "key": "k" } }),
            "ConfigMap",
            "x",
        ),
        (
            "configRefs",
            json!({ "a": { "name": "x", "key": "k" } }),
            "ConfigMap",
            "x",
        ),
        ("envRefs", json!({ "A": secret("") }), "Secret", "s"),
        ("envRefs", json!({ "A": config_map() }), "ConfigMap", "c"),
        ("secretsRef", json!({ "a": secret("") }), "Secret", "s"),
    ] {
        assert_eq!(
            spec_problem(json!({ field: value, "outputsTo": to(kind, name) })).unwrap(),
            format!(
                "spec.outputsTo[1] writes the {kind} \"{name}\" that spec.{field} reads: choose another name"
            )
        );
        let another = if kind == "Secret" {
            "ConfigMap"
        } else {
            "Secret"
        };
        let spec = json!({ field: value, "outputsTo": to(another, name) });
        assert_eq!(spec_problem(spec), None, "the same name of another kind");
    }
}

#[test]
fn deleting_stack_skips_checks_it_does_not_need() {
    assert_eq!(
        said_when_deleting(json!({ "outputsTo": [{ "kind": "Secret", "name": "UPPER" }] })),
        None
    );
    let requirement = json!({ "succeededWithinDuration": "0s" });
    let spec = json!({ "prerequisites": [{ "name": "b", "requirement": requirement }] });
    assert_eq!(said_when_deleting(spec), None);
    // A destroy needs its workspace as an update does.
    let twice = json!({ "config": { "a": 1 }, "secrets": { "a": "x" } });
    assert!(said_when_deleting(twice).is_some());
}

#[test]
fn several_sources_are_remarked_on_and_one_is_used() {
    for (spec, expected) in [
        (json!({}), None),
        (json!({ "programRef": program() }), None),
        (json!({ "fluxSource": flux() }), None),
        (
            json!({ "projectRepo": "https://x/y/z", "branch": "main", "repoDir": "a" }),
            None,
        ),
        // Empty fields are no source: upstream's first write used to leave them behind.
        (
            json!({
                "programRef": program(), "projectRepo": "", "branch": "", "commit": "", "repoDir": "",
                "gitAuthSecret": "", "shallow": false,
            }),
            None,
        ),
        (
            json!({ "projectRepo": "https://x/y/z", "programRef": program() }),
            Some(
                "spec.programRef is not used, because spec.projectRepo comes first: keep one source",
            ),
        ),
        (
            json!({ "fluxSource": flux(), "programRef": program() }),
            Some(
                "spec.programRef is not used, because spec.fluxSource comes first: keep one source",
            ),
        ),
        (
            json!({ "shallow": true, "fluxSource": flux(), "programRef": program() }),
            Some(
                "spec.fluxSource and spec.programRef are not used, because spec.shallow comes first: keep one source",
            ),
        ),
    ] {
        let shown = spec.to_string();
        assert_eq!(spec_problem(spec.clone()), None, "{shown}");
        assert_eq!(remark(&stack(spec)).as_deref(), expected, "{shown}");
    }
}

#[test]
fn several_credentials_are_listed_in_order_of_use() {
    let ssh = json!({ "sshPrivateKey": secret("") });
    let basic = json!({ "userName": secret(""), "password": secret("") });
    let app =
        json!({ "appID": secret(""), "installationID": secret(""), "privateKey": secret("") });
    for (spec, expected) in [
        (json!({ "gitAuthSecret": "s" }), None),
        (json!({ "gitAuth": { "sshAuth": ssh } }), None),
        (
            json!({ "gitAuthSecret": "", "gitAuth": { "basicAuth": basic } }),
            None,
        ),
        (json!({ "gitAuthSecret": "s", "gitAuth": {} }), None),
        (
            json!({ "gitAuthSecret": "s", "gitAuth": { "accessToken": secret("") } }),
            Some(
                "several credentials: only spec.gitAuthSecret is used, not spec.gitAuth.accessToken; keep one",
            ),
        ),
        (
            json!({ "gitAuth": { "basicAuth": basic, "githubApp": app, "accessToken": secret(""), "sshAuth": ssh } }),
            Some(
                "several credentials: only spec.gitAuth.sshAuth is used, not spec.gitAuth.accessToken, \
                 spec.gitAuth.githubApp and spec.gitAuth.basicAuth; keep one",
            ),
        ),
    ] {
        let shown = spec.to_string();
        assert_eq!(remark(&stack(spec)).as_deref(), expected, "{shown}");
    }
}

#[test]
fn several_remarks_are_joined() {
    let spec = json!({
        "projectRepo": "https://x/y/z", "programRef": program(),
        "gitAuthSecret": "s", "gitAuth": { "accessToken": secret("") },
    });
    let remark = remark(&stack(spec)).unwrap();
    assert_eq!(remark.matches("keep one").count(), 2, "{remark}");
}

#[test]
fn check_messages_hide_secret_values() {
    let spec = json!({
        "secrets": { "a": "hunter2" }, "secretsRef": { "a": literal() },
        "envRefs": { "A=": literal() }, "outputsTo": [{ "kind": "Secret", "name": "UPPER" }],
    });
    let stack = stack(spec);
    for check in WORKSPACE_CHECKS.iter().chain(UPDATE_CHECKS).chain(REMARKS) {
        let text = check(&stack).unwrap_or_default();
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn long_list_or_map_is_rejected() {
    let list = |entries: usize| vec![json!({ "name": "A", "value": "1" }); entries];
    let map = |entries: usize| -> Value {
        let fields = (0..entries).map(|number| (format!("key{number}"), json!("v")));
        Value::Object(fields.collect())
    };
    for (spec, field, entries) in [
        (
            json!({ "workspaceTemplate": { "spec": { "env": list(20_000) } } }),
            "spec.workspaceTemplate.spec.env",
            20_000,
        ),
        (json!({ "config": map(30_000) }), "spec.config", 30_000),
        (json!({ "secrets": map(1_001) }), "spec.secrets", 1_001),
        (
            json!({ "prerequisites": list(1_001) }),
            "spec.prerequisites",
            1_001,
        ),
    ] {
        let message = format!(
            "{field} has {entries} entries, and at most 1000 are supported: remove some, or bring many values in one \
             ConfigMap or Secret"
        );
        assert_eq!(spec_problem(spec), Some(message));
    }
    for spec in [
        json!({ "workspaceTemplate": { "spec": { "env": list(1_000) } } }),
        json!({ "config": map(1_000), "secretsRef": {} }),
        json!({ "config": { "list": list(5_000) } }),
    ] {
        assert_eq!(spec_problem(spec), None);
    }
}

#[test]
fn config_nested_deeper_than_a_message_is_refused_by_key() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    taken([json!({ "config": { "tree": nested(30) } })]);
    refused([(
        json!({ "config": { "tree": nested(31) } }),
        "spec.config.tree is nested 31 levels deep and the limit is 30: write it flatter, or as a \
         string of JSON",
    )]);
}
