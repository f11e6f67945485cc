//! The events on a Stack, each once for a fact. No event tells of what a condition says alone: a
//! source that is away, a Stack that comes first, a Workspace that failed.

use super::*;
use pko_api::names::events::StackEvent;

/// The events of a look.
fn events(fixture: &StackFixture) -> Vec<String> {
    let lines = fixture.decide().lines();
    let events = lines.into_iter().filter(|line| line.starts_with("event"));
    events.collect()
}

/// The events that there are, their texts, and when they come.
fn rows() -> Vec<(StackEvent, &'static str, StackFixture)> {
    let reclaimed = fixture()
        .spec(json!({ "workspaceReclaimPolicy": "Delete" }))
        .last(json!({}));
    let mut unpublished = fixture()
        .spec(json!({ "outputsTo": [{ "kind": "Secret", "name": "o" }] }))
        .current(ended(false));
    unpublished.update.as_mut().unwrap()["status"]["outputs"] = json!("demo-2-stack-outputs");
    unpublished.published = Err("the Secret \"o\" belongs to another owner".to_owned());
    let destroyed = |failed| {
        let mut fixture = awaiting_destroy().current(ended(failed));
        fixture.update.as_mut().unwrap()["spec"]["type"] = json!("destroy");
        fixture
    };
    vec![
        (
            StackEvent::StackUpdateDetected,
            "event StackUpdateDetected: Initial stack update",
            fixture(),
        ),
        (
            StackEvent::StackCreated,
            "event StackCreated: Successfully updated stack",
            fixture().current(ended(false)),
        ),
        (
            StackEvent::StackUpdateFailure,
            "event! StackUpdateFailure: Failed to update stack: no such region",
            fixture().current(ended(true)),
        ),
        (
            StackEvent::StackConfigInvalid,
            "event! StackConfigInvalid: missing \"commit\" or \"branch\"",
            invalid_source(),
        ),
        (
            StackEvent::StackConfigInvalid,
            "event! StackConfigInvalid: ref type \"Env\" is deprecated (spec.envRefs.100%d: use Secret or ConfigMap or Literal)",
            fixture().spec(json!({ "envRefs": { "100%d": { "type": "Env" } } })),
        ),
        (
            StackEvent::WorkspaceDeleted,
            "event WorkspaceDeleted: Workspace deleted per reclaim policy",
            reclaimed,
        ),
        // Ours: upstream defines it, and reports a destroy as an update.
        (
            StackEvent::StackDestroyed,
            "event StackDestroyed: Successfully destroyed stack",
            destroyed(false),
        ),
        (
            StackEvent::StackUpdateFailure,
            "event! StackUpdateFailure: Failed to destroy stack: no such region",
            destroyed(true),
        ),
        // Ours: upstream defines it, and has no outputs that could not be written.
        (
            StackEvent::StackOutputRetrievalFailure,
            "event! StackOutputRetrievalFailure: the Secret \"o\" belongs to another owner",
            unpublished,
        ),
    ]
}

#[test]
fn events_have_upstreams_text() {
    for (event, text, fixture) in rows() {
        let events = events(&fixture);
        assert!(events.contains(&text.to_owned()), "{event}: {events:?}");
    }
}

/// Upstream repeats that an update is wanted at each look until the Workspace is ready, and that
/// the Workspace was deleted at each look from then on.
#[test]
fn events_are_not_repeated() {
    let waiting = unready("Installing", false);
    assert_eq!(
        events(&waiting),
        [""; 0],
        "an update is reported when it starts"
    );
    for (event, text, fixture) in rows() {
        let mut again = fixture.seen_before();
        again.update = Some(running());
        assert_eq!(events(&again), [""; 0], "{event}: {text}");
    }
}

#[test]
fn condition_only_facts_have_no_event() {
    let away = fixture().source(unavailable("Flux source has no artifact"));
    let deleted = fixture().deleting().last(json!({}));
    for (sentence, fixture) in [
        ("the source is away", away),
        ("another comes first", waiting_for_base()),
        ("the Workspace failed", unready("InstallationFailed", true)),
        ("it failed too often", failed_just_now("up", 3, None)),
        (
            "the namespace is terminating",
            awaiting_destroy().workspace_refused(Refusal::NamespaceTerminating),
        ),
        ("it is released", deleted),
    ] {
        assert_eq!(events(&fixture), [""; 0], "{sentence}");
    }
}

/// Upstream defines these and never emits them.
#[test]
fn events_have_table_rows_or_are_unused() {
    let never = [
        StackEvent::StackInitializationFailure,
        StackEvent::StackGitAuthenticationFailure,
        StackEvent::StackUpdateConflictDetected,
        StackEvent::StackNotFound,
    ];
    let rows = rows();
    for event in StackEvent::ALL {
        let outcome = rows.iter().any(|(other, ..)| other == event);
        assert_ne!(outcome, never.contains(event), "{event}");
    }
}
