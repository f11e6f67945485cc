//! The template of an Update over what the operator makes.

use super::*;

fn with_template(template: Value) -> StackFixture {
    fixture().spec(json!({ "updateTemplate": template }))
}

fn created(fixture: &StackFixture) -> Value {
    serde_json::to_value(fixture.decide().created()).unwrap()
}

/// A Stack that is deleted after an update.
fn deleted(fixture: StackFixture) -> StackFixture {
    fixture
        .spec(json!({ "destroyOnFinalize": true }))
        .last(json!({ "generation": 2 }))
        .deleting()
}

/// 8, 39
#[test]
fn update_template_sets_ttl() {
    let template = || with_template(json!({ "spec": { "ttlAfterCompleted": "42m" } }));
    for (fixture, operation) in [
        (template(), "up"),
        (template().spec(json!({ "preview": true })), "preview"),
        (deleted(template()), "destroy"),
    ] {
        let spec = &created(&fixture)["spec"];
        assert_eq!(spec["ttlAfterCompleted"], "42m");
        assert_eq!(spec["type"], operation);
    }
}

#[test]
fn options_of_the_template_are_laid_over_the_stacks() {
    let template = json!({
        "parallel": 4, "message": "mine", "expectNoChanges": true, "replace": ["urn:r"], "target": ["urn:t"],
        "targetDependents": true, "refresh": true, "continueOnError": true, "remove": true, "runProgram": true,
        "timeoutSeconds": 60,
    });
    let fixture = with_template(json!({ "spec": template }))
        .spec(json!({ "targets": ["urn:a"], "timeoutSeconds": 5 }));
    let mut expected = json!({
        "workspaceName": "demo", "stackName": "dev", "type": "up", "ttlAfterCompleted": "24h0m0s",
    });
    merge(&mut expected, template);
    assert_eq!(created(&fixture)["spec"], expected);
}

#[test]
fn empty_template_changes_nothing() {
    let plain = created(&fixture());
    for template in [
        json!({}),
        json!({ "metadata": {}, "spec": {}, "status": { "message": "x" }, "apiVersion": "v1", "kind": "Pod" }),
        json!({ "metadata": { "name": "" }, "spec": { "target": [], "type": "", "stackName": "" } }),
        json!({ "spec": { "type": "up", "stackName": "dev", "workspaceName": "demo" } }),
    ] {
        assert_eq!(
            created(&with_template(template.clone())),
            plain,
            "{template}"
        );
    }
}

#[test]
fn update_template_cannot_change_identity() {
    let fixture = with_template(json!({ "metadata": {
        "namespace": "other", "uid": "1", "generateName": "x-", "resourceVersion": "1",
        "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b" }],
        "labels": { "pulumi.com/component": "mine", "pulumi.com/stack-name": "other", "team": "shop" },
        "annotations": { "auto.pulumi.com/urgency": "request", "note": "kept" },
        "finalizers": ["example.com/hold"],
    } }));
    let mut metadata = created(&fixture)["metadata"].clone();
    let labels = metadata["labels"].as_object_mut().unwrap();
    assert_eq!(labels.remove("team"), Some(json!("shop")));
    let annotations = metadata["annotations"].as_object_mut().unwrap();
    assert_eq!(annotations.remove("note"), Some(json!("kept")));
    let finalizers = metadata["finalizers"].as_array_mut().unwrap();
    finalizers.retain(|name| name != "example.com/hold");
    assert_eq!(metadata, created(&super::fixture())["metadata"]);
}

/// With a type or a name from the template, a destroy would never finish, or the Update would exist
/// already.
#[test]
fn update_template_cannot_change_purpose() {
    let fixed_to = |field: &str, due: &str| {
        format!(
            "spec.updateTemplate.spec.{field}: the Stack sets this to \"{due}\"; remove the field"
        )
    };
    for (template, message) in [
        (
            json!({ "spec": { "type": "destroy" } }),
            fixed_to("type", "up"),
        ),
        (
            json!({ "spec": { "type": "preview" } }),
            fixed_to("type", "up"),
        ),
        (
            json!({ "spec": { "stackName": "prod" } }),
            fixed_to("stackName", "dev"),
        ),
        (
            json!({ "spec": { "workspaceName": "other" } }),
            fixed_to("workspaceName", "demo"),
        ),
        (
            json!({ "metadata": { "name": "mine" } }),
            "spec.updateTemplate.metadata.name: the operator names each Update; remove the field"
                .to_owned(),
        ),
    ] {
        let outcome = with_template(template).decide();
        assert_eq!(
            outcome.request_names(),
            ["source"],
            "no pod is started for it"
        );
        let lines = outcome.lines();
        assert_eq!(
            lines,
            [
                "workspace".to_owned(),
                format!("status Stalled SpecInvalid: {message}"),
                format!("event! StackConfigInvalid: {message}"),
                "settled".to_owned(),
            ]
        );
    }
    let preview =
        with_template(json!({ "spec": { "type": "up" } })).spec(json!({ "preview": true }));
    let shown = state(preview.decide().status().unwrap());
    assert_eq!(
        shown,
        format!("Stalled SpecInvalid: {}", fixed_to("type", "preview"))
    );
}

#[test]
fn invalid_update_template_does_not_block_destroy() {
    let fixture = deleted(with_template(json!({
        "metadata": { "name": "mine" },
        "spec": { "type": "up", "stackName": "prod", "workspaceName": "other", "remove": true },
    })));
    let update = created(&fixture);
    assert_ne!(update["metadata"]["name"], "mine");
    assert_eq!(
        update["spec"],
        json!({
            "workspaceName": "demo", "stackName": "dev", "type": "destroy", "ttlAfterCompleted": "24h0m0s",
            "message": "Stack marked for deletion", "runProgram": false, "remove": true,
        })
    );
}

/// A refresh that comes first is there to fail if something changed, and is no `up`.
#[test]
fn update_template_keeps_pre_update_refresh() {
    let fixture =
        with_template(json!({ "spec": { "type": "up", "expectNoChanges": false, "parallel": 2 } }))
            .spec(json!({ "expectNoRefreshChanges": true }));
    let spec = &created(&fixture)["spec"];
    assert_eq!(spec["type"], "refresh");
    assert_eq!(spec["expectNoChanges"], true);
    assert_eq!(spec["parallel"], 2);
}

#[test]
fn metadata_that_is_none_is_named() {
    let outcome = with_template(json!({ "metadata": { "labels": { "a": 1 } } })).decide();
    let shown = state(outcome.status().unwrap());
    assert!(
        shown.starts_with("Stalled SpecInvalid: spec.updateTemplate.metadata.labels.a: 1: "),
        "{shown}"
    );
}
