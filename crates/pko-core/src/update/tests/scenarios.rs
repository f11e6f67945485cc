//! The scenarios of upstream's tests, by their names, with our outcome where it differs on purpose.

use super::*;

fn sets_outcome(fixture: &UpdateFixture) -> Vec<String> {
    fixture.decide().lines()
}

#[test]
fn ttl_unset_keeps() {
    assert_eq!(sets_outcome(&fixture().complete()), ["expire", "settled"]);
}

#[test]
fn ttl_unexpired_requeues() {
    let left = sets_outcome(&fixture().complete().lifetime("1h"));
    assert_eq!(left, ["expire", "again in 2600s"]);
}

#[test]
fn ttl_expired_deletes_and_emits_an_event() {
    let expired = "event UpdateExpired: ttl expired and was deleted";
    let gone = sets_outcome(&fixture().complete().lifetime("10m"));
    assert_eq!(gone, ["expire", "delete", expired, "settled"]);
}

/// Upstream counts from the first reconcile, because it never updates the condition's time.
#[test]
fn ttl_counts_from_completion() {
    let waited = fixture()
        .waiting("WorkspaceNotReady")
        .lifetime("15m")
        .ended(succeeded());
    let outcome = waited.decide();
    let mut over = fixture().lifetime("15m");
    over.update["status"] = serde_json::to_value(outcome.status()).unwrap();
    assert_eq!(sets_outcome(&over), ["expire", "again in 900s"]);
}

#[test]
fn up_success_with_outputs() {
    let output = StackOutput {
        json: b"\"https://x\"".to_vec(),
        secret: false,
    };
    let outcome = RunOutcome {
        outputs: [("url".to_owned(), output)].into(),
        ..succeeded()
    };
    let outcome = fixture().progressing().ended(outcome).decide();
    assert_eq!(
        outcome.status().unwrap().outputs.as_deref(),
        Some("demo-1-stack-outputs")
    );
    let kept = outcome.requests.iter().find_map(|request| match request {
        UpdateStep::Write(UpdateWrite::StoreOutputs(secret)) => {
            Some(serde_json::to_value(secret).unwrap())
        }
        _ => None,
    });
    assert_eq!(
        kept.unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "demo-1-stack-outputs",
                "namespace": "shop",
                "labels": {
                    "auto.pulumi.com/component": "update", "auto.pulumi.com/update-name": "demo-1",
                },
                "annotations": { "pulumi.com/secrets": "[]" },
                "ownerReferences": [{
                    "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "name": "demo-1", "uid": "u",
                }],
            },
            "data": { "url": "Imh0dHBzOi8veCI=" },
            "immutable": true,
            "type": "Opaque",
        })
    );
}

/// Upstream reports a success here.
#[test]
fn explicit_failed_result() {
    let outcome = RunOutcome {
        message: "it broke".into(),
        ..RunOutcome::default()
    };
    let status =
        "status Progressing=False/Complete Failed=True/UpdateFailed Complete=True/Updated it broke";
    assert_eq!(
        sets_outcome(&fixture().progressing().ended(outcome)),
        ["run", status, "acknowledge", FAILED, "settled"]
    );
}

/// Upstream fails the Update, because it cannot know whether the run continues.
#[test]
fn up_call_unavailable() {
    let unavailable = fixture().run(Err(RunError::Unreachable("Unavailable: cut off".into())));
    assert_eq!(
        sets_outcome(&unavailable),
        ["run", unreached(), "again in 5s"]
    );
}

/// The same, for a connection that breaks during a run.
#[test]
fn stream_unavailable() {
    let cut_off = fixture().progressing().unreachable(Some(HERE));
    assert_eq!(
        sets_outcome(&cut_off),
        ["agent", unreached(), "again in 5s"]
    );
}

#[test]
fn update_conflict_detail() {
    let outcome = RunOutcome {
        reason: Some("UpdateConflict".into()),
        message: "Another update is currently in progress".into(),
        ..RunOutcome::default()
    };
    let status = "status Progressing=False/Complete Failed=True/UpdateConflict Complete=True/Updated \
                  Another update is currently in progress";
    assert_eq!(
        sets_outcome(&fixture().progressing().ended(outcome)),
        ["run", status, "acknowledge", FAILED, "settled"]
    );
}

#[test]
fn zero_times_omitted_and_project_info_nil() {
    let outcome = fixture().progressing().ended(succeeded()).decide();
    let status = serde_json::to_value(outcome.status().unwrap()).unwrap();
    for field in ["startTime", "endTime", "projectInfo"] {
        assert!(status.get(field).is_none(), "{field}");
    }
}

/// Upstream loses a wake-up that arrives during a reconcile; here each plan has a requeue.
#[test]
fn workspace_mapping_skips_active_keys() {
    let outcome = fixture().workspace_not_ready().decide();
    assert!(matches!(outcome.plan.requeue, Requeue::After(_)));
}

/// Upstream cancels it.
#[test]
fn update_written_by_hand_is_adopted() {
    let alone = fixture().with(json!({ "metadata": { "ownerReferences": null } }));
    assert_eq!(
        sets_outcome(&alone),
        ["adopt", "adopted by Workspace demo", "again in 30s"]
    );
}
