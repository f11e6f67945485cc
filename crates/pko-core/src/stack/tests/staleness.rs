//! A source that does not answer for a while.

use super::*;

fn unreachable(seconds: i64) -> Result<ProgramSource, SourceError> {
    Err(SourceError::Unreachable {
        since: now() - SignedDuration::from_secs(seconds),
        message: "listing: no route to host".to_owned(),
    })
}

fn pending() -> Result<ProgramSource, SourceError> {
    Err(SourceError::Pending("waiting for the server".to_owned()))
}

/// A Stack that is up to date and Ready.
fn ready() -> StackFixture {
    fixture().last(json!({})).seen_before()
}

#[test]
fn current_stack_stays_ready_for_a_while() {
    let stale = ready().source(unreachable(60));
    assert_eq!(
        stale.decide().lines(),
        [
            "source",
            "status Ready SourceUnavailable: the stack was up to date when its source last responded; it \
             has not responded since 2023-11-14T22:12:20Z: listing: no route to host",
            "again in 30s",
        ]
    );
    let again = stale.seen_before();
    assert_eq!(
        again.decide().lines(),
        ["source", "again in 30s"],
        "reported once"
    );
    let long = again.source(unreachable(600));
    assert_eq!(
        long.decide().lines(),
        [
            "source",
            "status Stalled SourceUnavailable: listing: no route to host",
            "again in 30s",
        ]
    );
    let back = long.seen_before().source(Ok(revision("3")));
    assert_eq!(
        back.decide().lines(),
        ["in-sync", "status Ready", "settled"]
    );
}

#[test]
fn outdated_stack_reports_source_problem_at_once() {
    let stalled = "status Stalled SourceUnavailable: listing: no route to host";
    for (sentence, fixture) in [
        ("never run", fixture()),
        (
            "edited since",
            ready().with(json!({ "metadata": { "generation": 4 } })),
        ),
        ("a run was requested", ready().request("now")),
        ("failed", fixture().failed(1, 5).seen_before()),
    ] {
        let outcome = fixture.source(unreachable(1)).decide();
        assert_eq!(outcome.lines()[1], stalled, "{sentence}");
    }
}

#[test]
fn pending_source_keeps_conditions() {
    for (sentence, fixture) in [
        ("ready", ready()),
        ("failing", fixture().failed(1, 5).seen_before()),
        ("stalled", fixture().failed(5, 5).seen_before()),
    ] {
        let restarted = fixture.source(pending());
        let lines = restarted.decide().lines();
        assert_eq!(lines, ["source", "again in 30s"], "{sentence}");
    }
    assert_eq!(
        fixture().source(pending()).decide().lines(),
        [
            "source",
            "status Reconciling StackProcessing: waiting for the server",
            "again in 30s",
        ]
    );
    let ended = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    });
    let result = ready().current(ended).source(pending()).decide();
    assert!(
        result.lines().contains(&"release demo-2".to_owned()),
        "a result is recorded all the same"
    );
}

#[test]
fn invalid_source_is_rechecked() {
    let missing = SourceError::Invalid("unable to get secret shop/token: not found".to_owned());
    let fixture = fixture().source(Err(missing));
    assert_eq!(
        fixture.decide().lines(),
        [
            "source",
            "status Stalled SpecInvalid: unable to get secret shop/token: not found",
            "event! StackConfigInvalid: unable to get secret shop/token: not found",
            "again in 30s",
        ]
    );
    assert_eq!(
        fixture.seen_before().decide().lines(),
        ["source", "again in 30s"]
    );
}

#[test]
fn fluxs_own_request_is_a_request_too() {
    let flux = |value: &str| json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": value } } });
    let requests = fixture().last(json!({})).with(flux("noon"));
    let outcome = requests.decide();
    assert!(
        outcome
            .lines()
            .contains(&"event StackUpdateDetected: Sync request: \"noon\"".to_owned()),
        "{:?}",
        outcome.lines()
    );
    let served = fixture()
        .last(json!({ "reconcileRequest": "noon" }))
        .with(flux("noon"));
    assert_eq!(served.decide().lines()[1], "status Ready");
    let both = fixture()
        .last(json!({ "reconcileRequest": "noon" }))
        .with(flux("noon"))
        .request("now");
    let outcome = both.decide();
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.reconcile_request.as_deref(), Some("now noon"));
}
