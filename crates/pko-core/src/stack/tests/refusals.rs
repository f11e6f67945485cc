//! Specs that can't be carried out: told by field, once.

use super::*;

fn refusal(given: Given) -> String {
    let lines = given.told().lines();
    let [rule, status, event, settled] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    let message = status.strip_prefix("status Stalled SpecInvalid: ").unwrap();
    assert_eq!(event, &format!("event! StackConfigInvalid: {message}"));
    assert_eq!(settled, "settled");
    let message = message.to_owned();
    let again = given.seen_before().told().lines();
    assert_eq!(again, [rule.as_str(), "settled"], "told once");
    message
}

#[test]
fn a_field_that_is_not_supported_is_named() {
    for (fields, field) in [
        (json!({ "projectRepo": "https://x/y" }), "projectRepo"),
        (json!({ "branch": "main" }), "branch"),
        (json!({ "commit": "abc" }), "commit"),
        (json!({ "repoDir": "a" }), "repoDir"),
        (json!({ "shallow": true }), "shallow"),
        (json!({ "gitAuthSecret": "s" }), "gitAuthSecret"),
        (json!({ "gitAuth": {} }), "gitAuth"),
        (
            json!({ "fluxSource": { "sourceRef": { "apiVersion": "a/v1", "kind": "K", "name": "n" } } }),
            "fluxSource",
        ),
    ] {
        assert_eq!(
            refusal(given().spec(fields)),
            format!(
                "spec.{field} is not supported by this version of the operator: remove it or use another version"
            )
        );
    }
}

#[test]
fn a_field_that_says_nothing_is_not_used() {
    let empty = json!({
        "projectRepo": "", "branch": "", "commit": "", "repoDir": "", "gitAuthSecret": "", "shallow": false,
        "prerequisites": [],
    });
    assert_eq!(given().spec(empty).told().plan.rule, "launch");
}

#[test]
fn a_reference_that_no_workspace_could_follow_is_named() {
    let secret = |namespace: &str| json!({ "type": "Secret", "secret": { "namespace": namespace, "name": "s", "key": "k" } });
    for (fields, message) in [
        (
            json!({ "envRefs": { "A": { "type": "Env" } } }),
            "ref type \"Env\" is deprecated (spec.envRefs.A)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "FS" } } }),
            "ref type \"FS\" is deprecated (spec.envRefs.A)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "Env" } } }),
            "ref type \"Env\" is deprecated (spec.secretsRef.a)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "FS" } } }),
            "ref type \"FS\" is deprecated (spec.secretsRef.a)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "Vault" } } }),
            "ref type \"Vault\" is unknown here: use Secret or ConfigMap or Literal (spec.envRefs.A)",
        ),
        (
            json!({ "secretsRef": { "a": { "type": "ConfigMap", "configMap": { "name": "c", "key": "k" } } } }),
            "ref type \"ConfigMap\" is unknown here: use Secret or Literal (spec.secretsRef.a)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "Secret", "literal": { "value": "x" } } } }),
            "ref type \"Secret\" needs its selector (spec.envRefs.A)",
        ),
        (
            json!({ "envRefs": { "A": { "type": "Literal" } } }),
            "ref type \"Literal\" needs its selector (spec.envRefs.A)",
        ),
        (
            json!({ "envRefs": { "A": secret("other") } }),
            "cross-namespace refs are not allowed (spec.envRefs.A)",
        ),
        (
            json!({ "secretsRef": { "a": secret("other") } }),
            "cross-namespace refs are not allowed (spec.secretsRef.a)",
        ),
    ] {
        assert_eq!(refusal(given().spec(fields)), message);
    }
    for namespace in ["", "shop"] {
        let fields = json!({ "envRefs": { "A": secret(namespace) }, "secretsRef": { "a": secret(namespace) } });
        assert_eq!(
            given().spec(fields).told().plan.rule,
            "launch",
            "the Stack's own namespace"
        );
    }
}

#[test]
fn a_name_that_is_given_twice_is_named() {
    let literal = json!({ "type": "Literal", "literal": { "value": "x" } });
    for (fields, message) in [
        (
            json!({ "backend": "file:///x", "envRefs": { "PULUMI_BACKEND_URL": literal } }),
            "spec.envRefs.PULUMI_BACKEND_URL and spec.backend set the same variable: keep one",
        ),
        (
            json!({ "accessTokenSecret": "s", "envRefs": { "PULUMI_ACCESS_TOKEN": literal } }),
            "spec.envRefs.PULUMI_ACCESS_TOKEN and spec.accessTokenSecret set the same variable: keep one",
        ),
        (
            json!({ "config": { "a": 1, "b": 2 }, "secretsRef": { "b": literal } }),
            "spec.config and spec.secretsRef both set \"b\": keep one",
        ),
        (
            json!({ "configRefs": { "b": { "name": "c", "key": "k" } }, "secrets": { "b": "x" } }),
            "spec.configRef and spec.secrets both set \"b\": keep one",
        ),
    ] {
        assert_eq!(refusal(given().spec(fields)), message);
    }
    let once = json!({
        "backend": "", "envRefs": { "PULUMI_BACKEND_URL": literal },
        "config": { "a": 1 }, "secrets": { "b": "x" }, "secretsRef": { "c": literal },
        "configRef": { "d": { "name": "c", "key": "k" } }, "configRefs": { "d": { "name": "c", "key": "k" } },
    });
    assert_eq!(given().spec(once).told().plan.rule, "launch");
}

#[test]
fn a_source_that_is_not_there_stalls_for_a_while() {
    let given = given().source(unavailable("unable to retrieve program for stack"));
    assert_eq!(
        given.told().lines(),
        [
            "source",
            "status Stalled SourceUnavailable: unable to retrieve program for stack",
            "again in 30s"
        ]
    );
    assert_eq!(given.told().questions(), ["source"]);
    assert_eq!(
        given.seen_before().told().lines(),
        ["source", "again in 30s"]
    );
}
