//! The Workspace that an update needs, and the Update.

use super::*;
use crate::workspace::{WAITING_FOR_AGENT, pod};

/// The status that is published before the Workspace is applied.
fn published(outcome: &StackOutcome) -> String {
    let status = outcome.requests.iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(_, status)) => Some(state(status)),
        _ => None,
    });
    status.unwrap()
}

fn not_ready(conditions: Value) -> StackFixture {
    fixture().workspace(json!({ "status": { "conditions": conditions } }))
}

fn stalled(reason: &str) -> StackFixture {
    not_ready(json!([
        condition("Ready", "False", reason, "no network"),
        condition("Stalled", "True", reason, "no network"),
    ]))
}

#[test]
fn update_waits_for_workspace() {
    let in_a_moment: &[&str] = &["workspace", "again in 20s"];
    check([
        (
            "it is not ready",
            not_ready(json!([condition("Ready", "False", "Installing", "")])),
            in_a_moment,
        ),
        ("it has no status", not_ready(json!([])), in_a_moment),
        (
            "it was ready for another spec",
            fixture().workspace(json!({ "metadata": { "generation": 3 } })),
            in_a_moment,
        ),
        (
            "it is being deleted",
            fixture().workspace(json!({ "metadata": { "deletionTimestamp": ago(1) } })),
            in_a_moment,
        ),
        (
            "it was stalled for another spec",
            stalled("InstallationFailed").workspace(json!({ "metadata": { "generation": 3 } })),
            in_a_moment,
        ),
        (
            "it was stalled once",
            not_ready(json!([condition(
                "Stalled",
                "False",
                "InstallationFailed",
                ""
            )])),
            in_a_moment,
        ),
    ]);
    let waiting_for = |message: &str, seconds: i64| {
        let mut ready = condition("Ready", "False", "WaitingForReplicas", message);
        ready["lastTransitionTime"] = json!(ago(seconds));
        not_ready(json!([ready]))
    };
    for seconds in [0, 20, 3600] {
        check([(
            "a problem is reported at once",
            waiting_for("no node takes the pod", seconds),
            &[
                "workspace",
                "status Reconciling StackProcessing: waiting for workspace readiness (WaitingForReplicas: no node takes the pod)",
                "again in 60s",
            ],
        )]);
    }
    for usual in [pod::WAITING, WAITING_FOR_AGENT] {
        let young = waiting_for(usual, 20).decide();
        assert_eq!(young.lines(), in_a_moment, "a usual start");
        let old = waiting_for(usual, 21).decide().lines().join(" ");
        assert!(old.contains(usual), "it takes unusually long: {old}");
    }
    let outcome = not_ready(json!([])).decide();
    assert_eq!(outcome.request_names(), ["source", "workspace"]);
    assert_eq!(
        format!("status {}", published(&outcome)),
        WAITING,
        "published with the question"
    );
}

#[test]
fn stalled_workspace_stalls_stack() {
    check([
        (
            "packages can't be installed, which may pass",
            stalled("InstallationFailed"),
            &[
                "workspace",
                "status Stalled WorkspaceFailed: InstallationFailed: no network",
                "again in 60s",
            ],
        ),
        (
            "a stack can't be selected",
            stalled("InitializationFailed"),
            &[
                "workspace",
                "status Stalled WorkspaceFailed: InitializationFailed: no network",
                "again in 60s",
            ],
        ),
        (
            "the CLI is too old",
            stalled("IncompatibleConfiguration"),
            &[
                "workspace",
                "status Stalled PulumiVersionTooLow: IncompatibleConfiguration: no network",
                "settled",
            ],
        ),
        (
            "the API server refuses it",
            fixture().workspace_refused(Refusal::Invalid("bad".into())),
            &[
                "workspace",
                "status Stalled WorkspaceFailed: bad",
                "again in 120s",
            ],
        ),
        (
            "the API server can't take it",
            fixture().workspace_refused(Refusal::Failed("busy".into())),
            &[
                "workspace",
                "status Stalled WorkspaceFailed: busy",
                "again in 30s",
            ],
        ),
    ]);
}

#[test]
fn stall_is_stable_across_reconciles() {
    let again = stalled("InstallationFailed").seen_before();
    assert_eq!(
        published(&again.decide()),
        "Stalled WorkspaceFailed: InstallationFailed: no network"
    );
    assert_eq!(again.decide().lines(), ["workspace", "again in 60s"]);

    let edited = stalled("InstallationFailed")
        .seen_before()
        .with(json!({ "metadata": { "generation": 4 } }));
    assert_eq!(
        format!("status {}", published(&edited.decide())),
        WAITING,
        "an edit may have repaired it"
    );
    let requested = stalled("InstallationFailed").seen_before().request("now");
    assert_eq!(
        format!("status {}", published(&requested.decide())),
        WAITING
    );

    let mut repaired = stalled("InstallationFailed").seen_before();
    repaired.workspace = fixture().workspace;
    assert_eq!(repaired.decide().plan.rule, "launch");
    let mut starting = stalled("InstallationFailed").seen_before();
    starting.workspace = not_ready(json!([])).workspace;
    assert_eq!(
        starting.decide().lines(),
        ["workspace", WAITING, "again in 20s"]
    );
}

#[test]
fn status_names_update_before_creation() {
    let outcome = fixture()
        .last(json!({ "generation": 2, "name": "demo-1" }))
        .decide();
    assert_eq!(
        outcome.lines(),
        [
            "launch",
            PROCESSING,
            CREATE_UP,
            // In case a crash came before this could be done with its result.
            "release demo-1",
            "event StackUpdateDetected: New stack generation: 3",
            IN_FIVE_MINUTES,
        ]
    );
    assert_eq!(outcome.request_names(), ["source", "workspace", "create"]);
    let status = outcome.status().unwrap();
    assert_eq!(
        serde_json::to_value(&status.current_update).unwrap(),
        json!({
            "generation": 3, "reconcileRequest": "", "commit": "3", "attempt": 0,
            "name": outcome.created().metadata.name.clone().unwrap(),
        })
    );
}

#[test]
fn update_name_derives_from_purpose() {
    let name = |fixture: StackFixture| fixture.decide().created().metadata.name.clone().unwrap();
    let usual = || fixture().last(json!({ "generation": 2 }));
    let one = name(usual());
    let digits = one.strip_prefix("demo-").unwrap();
    assert_eq!(digits.len(), 11, "as many as upstream's");
    assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(one, name(usual()), "the same one is not made twice");
    for (sentence, other) in [
        (
            "another generation",
            usual().with(json!({ "metadata": { "generation": 4 } })),
        ),
        ("another request", usual().request("now")),
        ("another revision", usual().source(Ok(revision("4")))),
        (
            "another Stack of the same name",
            usual().with(json!({ "metadata": { "uid": "other" } })),
        ),
        (
            "after another Update",
            fixture().last(json!({ "generation": 2, "name": "demo-9" })),
        ),
        (
            "after another result of it",
            fixture().last(json!({ "generation": 2, "lastResyncTime": ago(1) })),
        ),
        (
            "another operation",
            usual().spec(json!({ "preview": true })),
        ),
    ] {
        assert_ne!(name(other), one, "{sentence}");
    }
}

#[test]
fn rejected_update_leaves_no_trace() {
    for (sentence, refusal, condition, requeue) in [
        (
            "a template that makes nonsense of it",
            Refusal::Invalid("spec.ttl: no".into()),
            "Stalled SpecInvalid: the API server rejects the Update from spec.updateTemplate: spec.ttl: no",
            "again in 120s",
        ),
        (
            "a quota",
            Refusal::Failed("forbidden".into()),
            "Reconciling StackProcessing: failed to create the Update; retrying: forbidden",
            "again in 10s",
        ),
    ] {
        let outcome = fixture().update_refused(refusal).decide();
        assert_eq!(
            outcome.lines()[3..],
            [format!("status {condition}"), requeue.to_owned()],
            "{sentence}"
        );
        let status = outcome.status().unwrap();
        assert_eq!(status.current_update, None, "{sentence}");
        assert_eq!(status.applied, Some(false), "{sentence}");
    }
}

#[test]
fn update_is_for_latest_request_and_revision() {
    let outcome = fixture().request("r1").source(Ok(revision("9"))).decide();
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.reconcile_request.as_deref(), Some("r1"));
    assert_eq!(current.commit.as_deref(), Some("9"));
    assert_eq!(
        outcome
            .status()
            .unwrap()
            .observed_reconcile_request
            .as_deref(),
        Some("r1")
    );
}

/// An Update that has waited for so long for its Workspace.
fn waiting_update(operation: &str, reason: &str, seconds: i64) -> Value {
    let mut waits = condition("Progressing", "False", reason, "");
    waits["lastTransitionTime"] = json!(ago(seconds));
    json!({
        "metadata": { "name": "demo-2", "namespace": "shop" },
        "spec": { "type": operation }, "status": { "conditions": [waits] },
    })
}

#[test]
fn update_waiting_for_broken_workspace_allows_its_change() {
    let broken = || {
        not_ready(json!([condition(
            "Ready",
            "False",
            "WaitingForReplicas",
            "no such image"
        )]))
    };
    let waiting = |reason, seconds| {
        let update = waiting_update("up", reason, seconds);
        broken().current(update).seen_before()
    };
    let reported: &[&str] = &[
        "update-workspace",
        "status Reconciling StackProcessing: waiting for workspace readiness (WaitingForReplicas: no such image)",
        "again in 60s",
    ];
    check([
        (
            "that is usual",
            waiting("WorkspaceNotReady", 20),
            &["update-in-flight", "again in 10s"],
        ),
        (
            "it waits for something else",
            waiting("Queued", 1_000),
            &["update-in-flight", "again in 300s"],
        ),
        (
            "its workspace has a problem",
            broken().current(waiting_update("up", "WorkspaceNotReady", 30)),
            reported,
        ),
        (
            "its workspace is gone",
            broken().current(waiting_update("up", "WorkspaceNotFound", 30)),
            reported,
        ),
        (
            "its workspace is in order now",
            fixture()
                .current(waiting_update("up", "WorkspaceNotReady", 30))
                .seen_before(),
            &["update-workspace", "again in 60s"],
        ),
        (
            "the source is away",
            waiting("WorkspaceNotReady", 30).source(unavailable("no route to host")),
            &[
                "update-workspace",
                "status Reconciling StackProcessing: stack is being processed",
                "again in 60s",
            ],
        ),
    ]);

    let newer = broken()
        .current(waiting_update("up", "WorkspaceNotReady", 30))
        .source(Ok(revision("4")));
    let outcome = newer.decide();
    assert_eq!(outcome.request_names(), ["update", "source", "workspace"]);
    let applied = outcome.requests.iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => {
            workspace.spec.flux.as_ref()?.url.clone()
        }
        _ => None,
    });
    assert_eq!(applied.as_deref(), Some("http://operator/4"));
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.name.as_deref(), Some("demo-2"), "it stays the same");
}

/// The Workspace of a deletion has no program: an update must not run in it.
#[test]
fn destroy_workspace_is_not_used_by_update() {
    let deleting = |operation| {
        let update = waiting_update(operation, "WorkspaceNotReady", 1_000);
        let fixture = fixture()
            .spec(json!({ "destroyOnFinalize": true }))
            .status(json!({ "projectInfo": { "name": "demo", "runtime": "yaml" } }));
        let outcome = fixture.current(update).deleting().decide();
        outcome.request_names()
    };
    assert_eq!(deleting("up"), ["update"]);
    assert_eq!(
        deleting("destroy"),
        ["update", "existing workspace", "workspace"]
    );
}
