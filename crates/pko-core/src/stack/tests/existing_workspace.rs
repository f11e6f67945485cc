//! Deletion of a Stack together with what it refers to: the destroy uses the running Workspace as
//! it is.

use pko_api::Workspace;

use super::*;

const WAY_OUT: &str = "; to delete the Stack without a destroy, which leaves its resources in place, run: kubectl patch \
    stack demo -n shop --type=merge -p '{\"spec\":{\"destroyOnFinalize\":false}}'";
const NO_TOKENS: &str =
    "unable to get secret shop/tokens: secrets \"tokens\" not found (spec.envRefs.TOKEN)";
const RECREATE_TOKENS: &str = "; no workspace is running to destroy the stack, and a new one can't start: \
    re-create Secret \"tokens\"";

fn stack() -> StackFixture {
    fixture()
        .spec(json!({
            "destroyOnFinalize": true,
            "envs": ["regions"],
            "envRefs": { "TOKEN": { "type": "Secret", "secret": { "name": "tokens", "key": "t" } } },
        }))
        .status(json!({
            "applied": true,
            "projectInfo": { "name": "hello", "runtime": "yaml" },
            "references": { "configMaps": { "regions": "1" }, "secrets": { "tokens": "1" } },
        }))
}

/// The Workspace of [`stack`] after an update, in this state.
fn existing(ready: Value) -> Value {
    let workspace = applied(&stack().decide()).expect("an update needs a Workspace");
    let mut workspace = serde_json::to_value(workspace).unwrap();
    merge(
        &mut workspace,
        json!({
            "metadata": { "uid": "workspace-uid", "generation": 2 },
            "status": { "observedGeneration": 2, "conditions": [ready] },
        }),
    );
    workspace
}

fn ready(status: &str, reason: &str, message: &str, seconds_ago: i64) -> Value {
    let mut ready = condition("Ready", status, reason, message);
    ready["lastTransitionTime"] = json!(ago(seconds_ago));
    ready
}

/// [`stack`] with its Workspace, deleted after an update.
fn deleted(workspace: Option<Value>) -> StackFixture {
    let mut fixture = stack().deleting().last(json!({ "generation": 2 }));
    fixture.existing = workspace;
    fixture
}

fn running() -> Value {
    existing(ready("True", "Succeeded", "", 1_000))
}

/// [`stack`] with a Workspace that runs, deleted after an update.
fn deleted_running() -> StackFixture {
    deleted(Some(running()))
}

/// The Secret, the ConfigMap and the Program are gone.
fn alone(fixture: StackFixture) -> StackFixture {
    let fixture = fixture.without(&["regions"], &["tokens"]);
    fixture.source(unavailable("unable to retrieve program for stack"))
}

fn applied(outcome: &StackOutcome) -> Option<Workspace> {
    outcome.requests.iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => {
            Some(workspace.as_ref().clone())
        }
        _ => None,
    })
}

fn assert_destroys_unchanged(sentence: &str, fixture: &StackFixture) {
    let outcome = fixture.decide();
    assert_eq!(
        outcome.request_names(),
        ["existing workspace", "create"],
        "{sentence}"
    );
    assert_eq!(
        outcome.lines()[..3],
        ["launch", PROCESSING, CREATE_DESTROY],
        "{sentence}"
    );
}

#[test]
fn stack_delete_uses_the_running_workspace_as_it_is() {
    let outdated = existing(ready("True", "Outdated", "", 1_000));
    for (sentence, fixture) in [
        ("everything exists", deleted_running()),
        ("everything else is gone", alone(deleted_running())),
        ("a Secret changed", deleted_running().secret("tokens", "2")),
        (
            "the destroy runs the program",
            alone(deleted_running()).spec(json!({ "runProgram": true })),
        ),
        (
            "the project is unknown",
            alone(deleted_running()).status(json!({ "projectInfo": null })),
        ),
        (
            "the pod is of another operator version",
            alone(deleted(Some(outdated))),
        ),
    ] {
        assert_destroys_unchanged(sentence, &fixture);
        let outcome = fixture.decide();
        let (update, status) = outcome.creation().unwrap();
        let owner = &update.metadata.owner_references.clone().unwrap()[0];
        assert_eq!(owner.uid, "workspace-uid", "{sentence}");
        let workspace = update.spec.workspace_name.as_deref();
        assert_eq!(workspace, Some("demo"), "{sentence}");
        let current = status.current_update.clone().unwrap();
        assert_eq!(current.references, status.references, "{sentence}");
    }
}

#[test]
fn stack_delete_keeps_the_revision_of_the_running_workspace() {
    let commit = |fixture: &StackFixture| {
        let current = fixture.decide().status().unwrap().current_update.clone();
        current.unwrap().commit.unwrap()
    };
    let fixture = || alone(deleted_running());
    assert_eq!(commit(&fixture()), "", "no program is run");
    assert_eq!(commit(&fixture().spec(json!({ "runProgram": true }))), "3");
    let unknown = fixture().status(json!({ "projectInfo": null }));
    assert_eq!(commit(&unknown), "3");
}

#[test]
fn stack_delete_waits_for_a_workspace_that_gets_ready() {
    for reason in ["ConnectionFailed", "Installing", "Initializing"] {
        let young = Some(existing(ready("False", reason, "", 20)));
        let outcome = alone(deleted(young)).decide();
        assert_eq!(outcome.request_names(), ["existing workspace"], "{reason}");
        assert_eq!(
            outcome.lines(),
            ["workspace", WAITING, "again in 20s"],
            "{reason}"
        );
        let old = Some(existing(ready("False", reason, "", 61)));
        let outcome = deleted(old).decide();
        let project = applied(&outcome).unwrap().spec.project_info;
        assert!(project.is_some(), "{reason}: a new one may do better");
    }
}

/// Each state in which no pod runs that the destroy could use.
fn not_running() -> Vec<(&'static str, Option<Value>)> {
    let with = |over: Value| {
        let mut workspace = running();
        merge(&mut workspace, over);
        Some(workspace)
    };
    let broken = "container \"pulumi\": CreateContainerConfigError: secret \"tokens\" not found";
    vec![
        ("it does not exist", None),
        (
            "its pod can't start",
            Some(existing(ready("False", "WaitingForReplicas", broken, 5))),
        ),
        (
            "its pod is being replaced",
            Some(existing(ready("False", "RollingUpdate", "", 5))),
        ),
        (
            "it is idle",
            Some(existing(ready("True", "Idle", "", 1_000))),
        ),
        (
            "it is being deleted",
            with(json!({ "metadata": { "deletionTimestamp": ago(1) } })),
        ),
        (
            "its status is about another spec",
            with(json!({ "metadata": { "generation": 3 } })),
        ),
        (
            "it belongs to a previous Stack",
            with(json!({ "metadata": { "ownerReferences": [{
                "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "previous",
            }] } })),
        ),
    ]
}

#[test]
fn stack_delete_without_a_running_workspace_names_what_to_recreate() {
    let message = format!("{NO_TOKENS}{RECREATE_TOKENS}{WAY_OUT}");
    for (sentence, workspace) in not_running() {
        let fixture = deleted(workspace.clone()).without(&[], &["tokens"]);
        let outcome = fixture.decide();
        assert_eq!(
            outcome.lines(),
            [
                "inputs".to_owned(),
                format!("status Stalled SpecInvalid: {message}"),
                format!("event! StackConfigInvalid: {message}"),
                "again in 30s".to_owned(),
            ],
            "{sentence}"
        );
        let owned = sentence != "it belongs to a previous Stack";
        if workspace.is_some() && owned {
            assert_eq!(applied(&outcome), None, "{sentence}: it is left alone");
        }
        let recreated = fixture.secret("tokens", "2").decide();
        let project = applied(&recreated).unwrap().spec.project_info;
        assert!(project.is_some(), "{sentence}: the program is not needed");
    }
}

#[test]
fn stack_delete_without_a_running_workspace_names_its_program() {
    let program = unavailable("unable to retrieve program for stack");
    let fixture = deleted(None).source(program);
    let fixture = fixture.spec(json!({ "runProgram": true }));
    let message = format!(
        "unable to retrieve program for stack; no workspace is running to destroy the stack, and a new one can't start: \
         re-create or repair Program \"hello\"{WAY_OUT}"
    );
    assert_eq!(
        fixture.decide().lines(),
        [
            "source".to_owned(),
            format!("status Stalled SourceUnavailable: {message}"),
            "again in 30s".to_owned(),
        ]
    );
    let reference = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "name": "repo",
    });
    let flux =
        fixture.spec(json!({ "programRef": null, "fluxSource": { "sourceRef": reference } }));
    let outcome = flux.decide().lines().join("\n");
    assert!(
        outcome.contains("re-create or repair GitRepository \"repo\""),
        "{outcome}"
    );
}

#[test]
fn stack_delete_reports_a_workspace_whose_pod_can_not_start() {
    let account = "no pod could be made: serviceaccount \"deployer\" not found";
    let stuck = |seconds: i64| {
        let ready = ready("False", "WaitingForReplicas", account, seconds);
        let fixture = deleted(None).workspace(json!({ "status": { "conditions": [ready] } }));
        fixture.decide().lines()
    };
    let problem = format!("waiting for workspace readiness (WaitingForReplicas: {account})");
    let stalled = format!("status Stalled WorkspaceFailed: {problem}{WAY_OUT}");
    assert_eq!(stuck(61), ["workspace", &stalled, "again in 60s"]);
    let reconciling = format!("status Reconciling StackProcessing: {problem}");
    assert_eq!(stuck(60), ["workspace", &reconciling, "again in 60s"]);
}

/// [`deleted`] after a destroy in the running Workspace that failed long ago.
fn failed_destroy() -> StackFixture {
    let fixture = deleted_running().failed(0, 3_600);
    fixture.status(json!({ "lastUpdate": { "type": "destroy", "lastAttemptedCommit": "" } }))
}

#[test]
fn destroy_that_failed_takes_up_what_has_changed() {
    let spec = |fixture: StackFixture| {
        let applied = applied(&fixture.decide()).expect("a Workspace is applied");
        serde_json::to_value(applied.spec).unwrap()
    };
    let before = running()["spec"].clone();
    assert_eq!(spec(failed_destroy()), before, "nothing has changed");

    let changed = failed_destroy().secret("tokens", "2");
    let created = changed.decide().created().spec.message.clone();
    let cause = "Referenced Secret changed: \"tokens\"";
    assert_eq!(created.as_deref(), Some(cause));
    let changed = spec(changed);
    let mark = &changed["podTemplate"]["metadata"]["annotations"]["pulumi.com/references"];
    assert!(mark.is_string(), "{changed}");
    assert_eq!(changed["flux"], before["flux"], "the source stays");

    let backend = spec(failed_destroy().spec(json!({ "backend": "s3://states" })));
    assert_eq!(backend["env"][0]["value"], "s3://states");

    let repaired = failed_destroy().source(Ok(revision("4")));
    let repaired = spec(repaired.spec(json!({ "runProgram": true })));
    assert_eq!(repaired["flux"]["url"], "http://operator/4");
}

#[test]
fn destroy_that_failed_keeps_the_workspace_if_something_is_gone() {
    let fixture = failed_destroy().without(&[], &["tokens"]);
    let fixture = fixture.spec(json!({ "backend": "s3://states" }));
    let outcome = fixture.decide();
    assert_eq!(applied(&outcome), None, "a new pod could not start");
    let (_, status) = outcome.creation().unwrap();
    let current = status.current_update.clone().unwrap();
    assert_eq!(current.references, status.references);
    let programless = failed_destroy().spec(json!({ "runProgram": true }));
    let programless = programless.source(unavailable("unable to retrieve program for stack"));
    assert_eq!(programless.decide().plan.rule, "launch");
}

#[test]
fn foreground_delete_takes_the_running_workspace_from_the_collector() {
    let foreground = json!({ "metadata": {
        "finalizers": ["finalizer.stack.pulumi.com", "foregroundDeletion"],
    } });
    let fixture = alone(deleted_running().with(foreground));
    let outcome = fixture.decide();
    assert_eq!(outcome.plan.rule, "launch");
    let workspace = applied(&outcome).unwrap();
    let existing: Workspace = serde_json::from_value(running()).unwrap();
    assert_eq!(workspace.spec, existing.spec);
    assert_eq!(workspace.metadata.owner_references, None);
    let annotations = workspace.metadata.annotations.unwrap();
    assert_eq!(annotations["auto.pulumi.com/destroys"], "stack-uid");
    assert_eq!(workspace.metadata.labels, existing.metadata.labels);
}

/// The current Update, waiting for its Workspace since a long time.
fn waiting_update(operation: &str) -> Value {
    json!({
        "metadata": { "name": "demo-2", "namespace": "shop" },
        "spec": { "type": operation },
        "status": { "conditions": [condition("Progressing", "False", "WorkspaceNotReady", "")] },
    })
}

#[test]
fn destroy_that_waits_for_its_workspace_names_what_to_recreate() {
    let message = format!("{NO_TOKENS}{RECREATE_TOKENS}{WAY_OUT}");
    for (sentence, workspace) in not_running() {
        let fixture = deleted(workspace).without(&[], &["tokens"]);
        let outcome = fixture.current(waiting_update("destroy")).decide();
        assert_eq!(
            outcome.lines(),
            [
                "update-workspace".to_owned(),
                format!("status Stalled SpecInvalid: {message}"),
                format!("event! StackConfigInvalid: {message}"),
                "again in 30s".to_owned(),
            ],
            "{sentence}"
        );
        assert_eq!(applied(&outcome), None, "{sentence}: it is left alone");
    }
    let running = alone(deleted_running()).current(waiting_update("destroy"));
    let outcome = running.decide();
    assert_eq!(outcome.request_names(), ["update", "existing workspace"]);
    assert_eq!(
        outcome.lines(),
        ["update-workspace", PROCESSING, "again in 60s"]
    );
}

#[test]
fn stack_delete_cancels_pending_update() {
    let canceled: &[&str] = &[
        "unneeded-update",
        PROCESSING,
        "delete demo-2",
        "again in 300s",
    ];
    let unwanted = || deleted_running().spec(json!({ "destroyOnFinalize": false }));
    check([
        (
            "an update",
            deleted_running().current(waiting_update("up")),
            canceled,
        ),
        (
            "an update, and no destroy is requested",
            unwanted().current(waiting_update("up")),
            canceled,
        ),
        (
            "a destroy that is unwanted by now",
            unwanted().current(waiting_update("destroy")),
            canceled,
        ),
    ]);
    let waits: &[&str] = &["update-in-flight", PROCESSING, "again in 300s"];
    let begun = json!({ "status": { "workspaceInstance": "pod-1" } });
    let deleting = json!({ "metadata": { "deletionTimestamp": ago(1) } });
    for (sentence, fields) in [("it has begun", begun), ("it is canceled", deleting)] {
        let mut update = waiting_update("up");
        merge(&mut update, fields);
        let outcome = deleted_running().current(update).decide();
        assert_eq!(outcome.lines(), waits, "{sentence}");
    }
    let mut alive = fixture().current(waiting_update("up"));
    alive.existing = Some(running());
    let outcome = alive.decide().lines().join(" ");
    assert!(
        !outcome.contains("delete"),
        "the Stack is not deleted: {outcome}"
    );
}
