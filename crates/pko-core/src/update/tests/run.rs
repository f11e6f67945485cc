//! A run starts once, is found again, or is lost.

use super::*;

#[test]
fn run_is_started_and_watched() {
    let new = fixture().decide();
    assert_eq!(
        new.request_names(),
        ["workspace", "admission", "agent", "run"]
    );
    assert_eq!(
        new.published().as_deref(),
        Some(PROGRESSING),
        "before it is started"
    );
    assert_eq!(
        new.lines(),
        ["run", "watch run", "again in 60s"],
        "and not written again"
    );

    let found = fixture().progressing().decide();
    assert_eq!(found.published(), None, "it is stored already");
    assert_eq!(found.lines(), ["run", "watch run", "again in 60s"]);
}

/// The status that is published before an agent receives the run.
fn published(fixture: &UpdateFixture) -> Option<UpdateStatus> {
    let requests = fixture.decide().requests;
    requests.into_iter().find_map(|request| match request {
        UpdateStep::Write(UpdateWrite::StartRun(_, status)) => status.map(|status| *status),
        _ => None,
    })
}

#[test]
fn run_instance_is_published_before_the_run_starts() {
    let status = published(&fixture()).unwrap();
    assert_eq!(status.workspace_instance.as_deref(), Some(HERE));
    let mut update: pko_api::Update = serde_json::from_value(fixture().update).unwrap();
    assert!(!has_begun(&update));
    update.status = Some(status);
    assert!(has_begun(&update));
    for waiting in ["TransientFailure", "WorkspaceNotReady", "Queued"] {
        let update = fixture().waiting(waiting).update;
        assert!(
            !has_begun(&serde_json::from_value(update).unwrap()),
            "{waiting}"
        );
    }
    let upstream = fixture()
        .progressing()
        .with(json!({ "status": { "workspaceInstance": null } }));
    assert!(has_begun(&serde_json::from_value(upstream.update).unwrap()));
}

#[test]
fn unreachable_agent_before_the_run_releases_admission() {
    let transient = waiting("TransientFailure");
    let first = fixture().unreachable(Some(HERE)).decide();
    assert_eq!(
        first.lines(),
        [
            "agent",
            &transient,
            "release admission",
            "warning about the workspace: no route",
            "again in 5s"
        ]
    );
    assert_eq!(
        first.request_names(),
        ["workspace", "admission", "agent"],
        "nothing is begun"
    );
    let message = &first.status().unwrap().conditions[0].message;
    assert_eq!(message, "no route");

    let mut again = fixture().unreachable(None);
    again.update["status"] = serde_json::to_value(first.status()).unwrap();
    assert_eq!(
        again.decide().lines(),
        ["agent", "release admission", "again in 5s"],
        "what is said is said once"
    );
    let reached = again.agent(AgentState::Reachable(HERE.into())).decide();
    assert_eq!(reached.published().as_deref(), Some(PROGRESSING));
    assert_eq!(reached.lines(), ["run", "watch run", "again in 60s"]);
}

#[test]
fn run_with_unreachable_agent_stays_in_progress() {
    let again: &[&str] = &["agent", unreached(), "again in 5s"];
    check([
        (
            "the same pod",
            fixture().progressing().unreachable(Some(HERE)),
            again,
        ),
        (
            "nobody knows which pod: that is no proof",
            fixture().progressing().unreachable(None),
            again,
        ),
        (
            "it answered, and then it did not",
            fixture()
                .progressing()
                .run(Err(RunError::Unreachable("cut off".into()))),
            &["run", unreached(), "again in 5s"],
        ),
        (
            "between the publication and the start",
            fixture().run(Err(RunError::Unreachable("cut off".into()))),
            &["run", unreached(), "again in 5s"],
        ),
    ]);
    let mut back = fixture().progressing();
    let outcome = fixture().progressing().unreachable(Some(HERE)).decide();
    back.update["status"] = serde_json::to_value(outcome.status()).unwrap();
    let progressing = format!("status {PROGRESSING}");
    assert_eq!(
        back.decide().lines(),
        ["run", &progressing, "watch run", "again in 60s"]
    );
}

#[test]
fn run_is_not_started_again_in_another_pod() {
    let replaced = "the workspace's pod was replaced while the operation ran; \
                    completed changes are in the stack's state";
    let replaced = aborted("Aborted", replaced);
    let ended: &[&str] = &["agent", &replaced, FAILED, "settled"];
    check([
        ("another pod", fixture().progressing().replaced(), ended),
        (
            "another pod that does not answer yet",
            fixture().progressing().unreachable(Some("pod-2")),
            ended,
        ),
        (
            "whatever the status said last",
            fixture()
                .conditions(
                    ("False", "TransientFailure"),
                    ("False", "Progressing"),
                    ("False", "Progressing"),
                )
                .with(json!({ "status": { "workspaceInstance": HERE } }))
                .replaced(),
            ended,
        ),
    ]);
    let outcome = fixture().progressing().replaced().decide();
    assert_eq!(outcome.request_names(), ["workspace", "admission", "agent"]);
    let class = outcome.status().unwrap().failure_class.as_deref();
    assert_eq!(class, Some("interrupted"));
}

/// A workspace that gets no new pod must not block the run queue.
#[test]
fn run_whose_pod_is_gone_is_aborted() {
    let gone = "the workspace's pod is gone, and the run with it; what it had done by then is in the stack's state";
    let gone = aborted("Aborted", gone);
    check([(
        "no pod at all",
        fixture().progressing().agent(AgentState::Gone),
        &["agent", &gone, FAILED, "settled"],
    )]);
}

#[test]
fn foreign_run_is_not_started_again() {
    let upstream = fixture()
        .progressing()
        .with(json!({ "status": { "workspaceInstance": null } }));
    let outcome = upstream.decide();
    let message = "another version of the operator started the operation and was stopped while it ran; \
                   completed changes are in the stack's state";
    assert_eq!(
        outcome.lines(),
        [
            "foreign-run",
            &aborted("Aborted", message),
            FAILED,
            "settled"
        ]
    );
    assert_eq!(outcome.requests, []);
}

#[test]
fn foreign_run_ends_after_its_pulumi_must_have() {
    let mut upstream = fixture()
        .progressing()
        .with(json!({ "status": { "workspaceInstance": null } }));
    upstream.leading_since = now();
    let waits = ["foreign-run", "again in 15s"];
    assert_eq!(upstream.decide().lines(), waits);
    upstream.leading_since = now() - SignedDuration::from_secs(14);
    let waits = ["foreign-run", "again in 1s"];
    assert_eq!(upstream.decide().lines(), waits);
    upstream.leading_since = now() - SignedDuration::from_secs(15);
    assert_eq!(upstream.decide().lines()[3], "settled");
}

#[test]
fn run_unknown_to_its_agent_is_aborted_with_the_cause() {
    let lost = fixture()
        .progressing()
        .run(Err(RunError::Lost("the manager was restarted".into())));
    assert_eq!(
        lost.decide().lines(),
        [
            "run",
            &aborted("Aborted", "the manager was restarted"),
            FAILED,
            "settled"
        ]
    );
}
