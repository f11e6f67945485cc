//! The end of a Stack.

use super::*;

fn awaiting_destroy() -> StackFixture {
    fixture()
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting()
}

fn destroyed() -> Value {
    json!({ "type": "destroy", "lastAttemptedCommit": "", "lastSuccessfulCommit": "" })
}

#[test]
fn stack_delete_without_destroy_is_immediate() {
    let free: &[&str] = &[
        "release",
        "status Ready",
        "release demo-1",
        "remove finalizer",
        "settled",
    ];
    check([
        (
            "no destroy is requested",
            fixture().deleting().last(json!({})),
            free,
        ),
        (
            "it only ever previewed",
            awaiting_destroy()
                .spec(json!({ "preview": true }))
                .last(json!({ "type": "preview" })),
            free,
        ),
        (
            "nothing was ever run",
            fixture().deleting(),
            &["release", "status Ready", "remove finalizer", "settled"],
        ),
        (
            "its spec is not supported",
            fixture()
                .deleting()
                .spec(json!({ "branch": "main" }))
                .last(json!({})),
            free,
        ),
        (
            "our finalizer is gone",
            awaiting_destroy().unheld().vanished(),
            &["already-released", "settled"],
        ),
    ]);
    assert_eq!(
        awaiting_destroy()
            .unheld()
            .vanished()
            .decide()
            .request_names(),
        [""; 0]
    );
}

#[test]
fn stack_delete_runs_destroy() {
    let destroy = |message| {
        let detected = format!("event StackUpdateDetected: {message}");
        vec![
            "launch".to_owned(),
            PROCESSING.into(),
            CREATE_DESTROY.into(),
            "release demo-1".into(),
            detected,
            IN_FIVE_MINUTES.into(),
        ]
    };
    let marked = "Stack marked for deletion";
    for (sentence, fixture, message) in [
        (
            "deletion made a new generation",
            awaiting_destroy().last(json!({ "generation": 2 })),
            marked,
        ),
        (
            "an up of this generation",
            awaiting_destroy().last(json!({})),
            marked,
        ),
        (
            "the last result is unknown",
            awaiting_destroy().last(json!({ "state": "odd", "type": "destroy" })),
            marked,
        ),
        (
            "the last destroy failed long ago",
            awaiting_destroy().failed(0, 3_600),
            "Backoff time elapsed: 10s",
        ),
        (
            "the last destroy failed often, and a day ago",
            awaiting_destroy().failed(9, 86_400),
            "Backoff time elapsed: 24h0m0s",
        ),
        (
            "the program of the destroy was repaired",
            awaiting_destroy().failed(9, 1).source(Ok(revision("4"))),
            "New commit detected: \"4\"",
        ),
        (
            "a request came",
            awaiting_destroy().failed(9, 1).request("now"),
            "Sync request: \"now\"",
        ),
    ] {
        assert_eq!(fixture.decide().lines(), destroy(message), "{sentence}");
    }
    let first = awaiting_destroy().decide();
    assert_eq!(
        first.lines()[2..4],
        [
            CREATE_DESTROY,
            "event StackUpdateDetected: Initial stack update"
        ]
    );
}

#[test]
fn failed_destroy_is_retried_forever() {
    let waits = |failures: i64, message: &str, requeue| {
        let fixture = awaiting_destroy()
            .failed(failures, 0)
            .last(json!({ "state": "failed", "type": "destroy", "lastResyncTime": ago(0) }));
        let message = format!("status {message}, or when the spec or source changes");
        assert_eq!(
            fixture.decide().lines(),
            ["in-sync", message.as_str(), requeue]
        );
    };
    waits(
        0,
        "Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 2023-11-14T22:13:30Z",
        "again in 10s",
    );
    waits(
        3,
        "Stalled UpdateFailed: destroy failed 3 times; next attempt at 2023-11-14T22:17:50Z",
        "again in 270s",
    );
    waits(
        20,
        "Stalled UpdateFailed: destroy failed 20 times; next attempt at 2023-11-15T22:13:20Z",
        "again in 86400s",
    );
}

#[test]
fn destroyed_stack_loses_finalizer() {
    let gone: &[&str] = &[
        "in-sync",
        "status Ready",
        "release demo-1",
        "delete workspace",
        "remove finalizer",
        "settled",
    ];
    check([
        (
            "the destroy succeeded",
            awaiting_destroy().last(destroyed()),
            gone,
        ),
        (
            "the destroy succeeded with the program, which has changed since",
            awaiting_destroy()
                .last(json!({ "type": "destroy" }))
                .source(Ok(revision("4"))),
            gone,
        ),
    ]);
}

#[test]
fn destroy_result_is_recorded_before_finalizer_goes() {
    let update = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "destroy" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    });
    let outcome = awaiting_destroy()
        .last(json!({ "generation": 2 }))
        .current(update)
        .decide();
    assert_eq!(
        outcome.lines(),
        [
            "in-sync",
            "status Ready",
            "release demo-2",
            "delete workspace",
            "remove finalizer",
            "event StackDestroyed: Successfully destroyed stack",
            "settled",
        ]
    );
    let last = outcome.status().unwrap().last_update.clone().unwrap();
    assert_eq!(last.operation.unwrap().as_str(), "destroy");
}

#[test]
fn destroy_needs_no_source_with_project_info() {
    let project = json!({ "projectInfo": { "name": "hello", "runtime": "yaml" } });
    let gone = || unavailable("unable to retrieve program for stack");
    let sourceless = || {
        awaiting_destroy()
            .last(json!({ "generation": 2 }))
            .source(gone())
    };
    let known = sourceless().status(project.clone()).decide();
    assert_eq!(known.plan.rule, "launch");
    assert_eq!(
        known.request_names(),
        ["existing workspace", "workspace", "create"]
    );
    let StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) = &known.requests[1] else {
        panic!("{:?}", known.requests)
    };
    assert_eq!(workspace.spec.project_info.clone().unwrap().name, "hello");
    assert_eq!(workspace.spec.flux, None);
    let current = known.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.commit.as_deref(), Some(""));

    let unavailable: &[&str] = &[
        "source",
        "status Stalled SourceUnavailable: unable to retrieve program for stack",
        "again in 30s",
    ];
    let needed = "status Stalled SourceUnavailable: unable to retrieve program for stack; no workspace is running to \
        destroy the stack, and a new one can't start: re-create or repair Program \"hello\"; to delete the Stack without \
        a destroy, which leaves its resources in place, run: kubectl patch stack demo -n shop --type=merge \
        -p '{\"spec\":{\"destroyOnFinalize\":false}}'";
    let needed: &[&str] = &["source", needed, "again in 30s"];
    check([
        ("the project is not known", sourceless(), needed),
        (
            "the destroy runs the program",
            sourceless()
                .status(project.clone())
                .spec(json!({ "runProgram": true })),
            needed,
        ),
        (
            "the Stack is not deleted",
            fixture().status(project).last(json!({})).source(gone()),
            unavailable,
        ),
    ]);
}

#[test]
fn never_applied_stack_delete_is_immediate_when_blocked() {
    let released = ["status Ready", "remove finalizer", "settled"];
    for (sentence, fixture) in [
        (
            "a repository without an address",
            awaiting_destroy().spec(json!({ "branch": "main" })),
        ),
        (
            "a bad reference",
            awaiting_destroy().spec(json!({ "envRefs": { "A": { "type": "Env" } } })),
        ),
        ("no source", awaiting_destroy().source(unavailable("gone"))),
        (
            "a namespace that ends",
            awaiting_destroy().workspace_refused(Refusal::NamespaceTerminating),
        ),
        (
            "a workspace that failed",
            awaiting_destroy().workspace(stalled("InstallationFailed")),
        ),
        (
            "a workspace whose CLI is too old",
            awaiting_destroy().workspace(stalled("IncompatibleConfiguration")),
        ),
    ] {
        assert_eq!(fixture.decide().lines()[1..], released, "{sentence}");
        let ran = fixture.last(json!({ "generation": 2 })).decide();
        assert!(
            !ran.plan.effects.contains(&StackEffect::RemoveFinalizer),
            "{sentence}: something was run"
        );
    }
    let pending = SourceError::Pending("busy".into());
    let lines = awaiting_destroy().source(Err(pending)).decide().lines();
    assert_eq!(
        lines[1..],
        ["status Reconciling StackProcessing: busy", "again in 30s"],
        "that passes"
    );
}

fn stalled(reason: &str) -> Value {
    json!({ "status": { "conditions": [condition("Stalled", "True", reason, "")] } })
}
