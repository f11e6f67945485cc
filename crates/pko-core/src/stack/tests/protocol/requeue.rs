//! When a Stack is reconciled again.

use super::*;

/// Upstream waits for events alone in most of these rows, and hangs where one is missed; here
/// whatever waits names a time, and only what needs the user does not.
#[test]
fn requeue_delays_match_situation() {
    let resync = json!({ "continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600 });
    let branch =
        json!({ "programRef": null, "projectRepo": "https://git.test/a/b", "branch": "main" });
    let out_of_date = waiting_for_base().neighbour("base", json!({}));
    let destroyed = |failures, seconds| {
        fixture()
            .deleting()
            .spec(json!({ "destroyOnFinalize": true }))
            .failed(failures, seconds)
            .status(json!({ "lastUpdate": { "type": "destroy" } }))
    };
    for (situation, fixture, expected) in [
        ("already released", fixture().deleting().unheld(), "settled"),
        (
            "the current Update runs",
            fixture().current(running()),
            "again in 300s",
        ),
        // Upstream waits for ever; see `vanished_update_is_created_again`.
        (
            "the current Update is gone, and another is made",
            fixture().vanished(),
            "again in 300s",
        ),
        (
            "the spec is wrong",
            fixture().spec(json!({ "envRefs": { "A": { "type": "Env" } } })),
            "settled",
        ),
        // Upstream never retries, not even after the missing Secret was created.
        (
            "what the spec names is wrong",
            invalid_source(),
            "again in 30s",
        ),
        (
            "the Workspace failed",
            unready("InstallationFailed", true),
            "again in 60s",
        ),
        (
            "the CLI is too old",
            unready("IncompatibleConfiguration", true),
            "settled",
        ),
        ("another Stack comes first", out_of_date, "again in 300s"),
        (
            "the Workspace is not ready",
            unready("Installing", false).workspace(json!({ "status": { "conditions": [] } })),
            "again in 20s",
        ),
        ("an Update was made", fixture(), "again in 300s"),
        (
            "the source is not there",
            fixture().source(unavailable("Flux source has no artifact")),
            "again in 30s",
        ),
        (
            "the namespace is terminating",
            awaiting_destroy().workspace_refused(Refusal::NamespaceTerminating),
            "again in 30s",
        ),
        (
            "it failed twice, half a minute ago",
            fixture().failed(2, 30),
            "again in 60s",
        ),
        (
            "it failed, and is due in a moment",
            fixture()
                .failed(0, 0)
                .status(json!({ "lastUpdate": { "lastResyncTime": "2023-11-14T22:13:10.100Z" } })),
            "again in 1s",
        ),
        (
            "it succeeded, and is resynced",
            fixture()
                .spec(resync)
                .last(json!({ "lastResyncTime": ago(100) })),
            "again in 500s",
        ),
        ("it succeeded", fixture().last(json!({})), "settled"),
        // Upstream asks the server from here once in each resync period; here that is done apart,
        // and wakes the Stack.
        (
            "it succeeded, and follows a branch",
            fixture().last(json!({})).spec(branch),
            "settled",
        ),
        ("a destroy failed once", destroyed(1, 10), "again in 20s"),
        // Upstream reconciles every second from then on, and never retries.
        (
            "a destroy failed too often",
            destroyed(4, 10),
            "again in 800s",
        ),
    ] {
        let outcome = fixture.decide();
        assert_eq!(outcome.lines().last().unwrap(), expected, "{situation}");
    }
}
