//! Specs that can't be carried out are reported once, by field.

use super::*;

fn refusal(fixture: StackFixture) -> String {
    let lines = fixture.decide().lines();
    let [rule, status, event, settled] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    let message = status.strip_prefix("status Stalled SpecInvalid: ").unwrap();
    assert_eq!(event, &format!("event! StackConfigInvalid: {message}"));
    assert_eq!(settled, "settled");
    let message = message.to_owned();
    let again = fixture.seen_before().decide().lines();
    assert_eq!(again, [rule.as_str(), "settled"], "reported once");
    message
}

/// Upstream's words for invalid sources.
#[test]
fn invalid_source_is_rejected() {
    let flux = json!({ "sourceRef": { "apiVersion": "a/b/c", "kind": "K", "name": "n" } });
    for (fields, message) in [
        (json!({ "branch": "main" }), "missing \"projectRepo\""),
        (
            json!({ "projectRepo": "https://git.test/a/b" }),
            "missing \"commit\" or \"branch\"",
        ),
        (
            json!({ "fluxSource": flux }),
            "cannot process source reference: unexpected GroupVersion string: a/b/c",
        ),
    ] {
        assert_eq!(refusal(fixture().spec(fields)), message);
    }
}

#[test]
fn empty_field_is_ignored() {
    let empty = json!({
        "projectRepo": "", "branch": "", "commit": "", "repoDir": "", "gitAuthSecret": "", "shallow": false,
        "prerequisites": [],
    });
    assert_eq!(fixture().spec(empty).decide().plan.rule, "launch");
}

/// Each check has its own table, beside it.
#[test]
fn invalid_spec_is_rejected_without_reads() {
    let twice = fixture().spec(json!({ "config": { "a": 1 }, "secrets": { "a": "x" } }));
    assert_eq!(twice.decide().plan.rule, "spec");
    assert_eq!(twice.decide().request_names(), [""; 0]);
    assert_eq!(
        refusal(twice),
        "spec.config and spec.secrets both set \"a\": keep one"
    );
}

#[test]
fn unused_spec_fields_are_reported_when_ready() {
    let flux = json!({ "sourceRef": { "apiVersion": "a/v1", "kind": "K", "name": "n" } });
    let ready_text = |fixture: StackFixture, summary: &Summary| {
        let observed = ObservedStack::new(serde_json::from_value(fixture.stack).unwrap());
        let evaluation =
            crate::stack::finished_update::fold_finished_update(&observed, now()).unwrap();
        let status = evaluation.status_with(summary);
        let ready = find(&status.conditions, Ready).unwrap();
        format!("{} {}: {}", ready.status, ready.reason, ready.message)
    };
    let both = || fixture().spec(json!({ "fluxSource": flux }));
    let up_to_date =
        "True ProcessingCompleted: the stack has been processed and is up to date".to_owned();
    assert_eq!(ready_text(fixture(), &Summary::Ready), up_to_date);
    assert_eq!(
        ready_text(both(), &Summary::Ready),
        format!(
            "{up_to_date}; spec.programRef is not used, because spec.fluxSource comes first: keep one source"
        )
    );
    assert_eq!(ready_text(both().deleting(), &Summary::Ready), up_to_date);
    let waiting = Summary::Reconciling(StackReason::StackProcessing, "waiting".to_owned());
    assert_eq!(
        ready_text(both(), &waiting),
        "False NotReadyInProgress: reconciliation is in progress"
    );
}

#[test]
fn missing_source_stalls_with_retry() {
    let fixture = fixture().source(unavailable("unable to retrieve program for stack"));
    assert_eq!(
        fixture.decide().lines(),
        [
            "source",
            "status Stalled SourceUnavailable: unable to retrieve program for stack",
            "again in 30s"
        ]
    );
    assert_eq!(fixture.decide().request_names(), ["source"]);
    assert_eq!(
        fixture.seen_before().decide().lines(),
        ["source", "again in 30s"]
    );
}
