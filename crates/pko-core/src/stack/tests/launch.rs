//! The Workspace that an update needs, and the Update.

use super::*;

/// The status that is published before the Workspace is applied.
fn published(told: &Told) -> String {
    let status = told.asked.iter().find_map(|question| match question {
        Question::ApplyWorkspace(_, status) => Some(state(status)),
        _ => None,
    });
    status.unwrap()
}

fn not_ready(conditions: Value) -> Given {
    given().workspace(json!({ "status": { "conditions": conditions } }))
}

fn stalled(reason: &str) -> Given {
    not_ready(json!([
        condition("Ready", "False", reason, "no network"),
        condition("Stalled", "True", reason, "no network"),
    ]))
}

#[test]
fn an_update_waits_for_its_workspace() {
    let in_a_minute: &[&str] = &["workspace", "again in 60s"];
    check([
        (
            "it is not ready",
            not_ready(json!([condition("Ready", "False", "Installing", "")])),
            in_a_minute,
        ),
        ("it has no status", not_ready(json!([])), in_a_minute),
        (
            "it was ready for another spec",
            given().workspace(json!({ "metadata": { "generation": 3 } })),
            in_a_minute,
        ),
        (
            "it is being deleted",
            given().workspace(json!({ "metadata": { "deletionTimestamp": ago(1) } })),
            in_a_minute,
        ),
        (
            "it was stalled for another spec",
            stalled("InstallationFailed").workspace(json!({ "metadata": { "generation": 3 } })),
            in_a_minute,
        ),
        (
            "it was stalled once",
            not_ready(json!([condition(
                "Stalled",
                "False",
                "InstallationFailed",
                ""
            )])),
            in_a_minute,
        ),
    ]);
    let told = not_ready(json!([])).told();
    assert_eq!(told.questions(), ["program", "workspace"]);
    assert_eq!(
        format!("status {}", published(&told)),
        WAITING,
        "published with the question"
    );
}

#[test]
fn a_workspace_that_stalls_stalls_the_stack() {
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
            given().workspace_refused(Class::Stall(StackReason::SpecInvalid, "bad".into())),
            &["workspace", "status Stalled SpecInvalid: bad", "settled"],
        ),
        (
            "the namespace ends",
            given().workspace_refused(wait(StackReason::NamespaceTerminating, "ends")),
            &[
                "workspace",
                "status Stalled NamespaceTerminating: ends",
                "again in 30s",
            ],
        ),
    ]);
}

#[test]
fn a_stall_does_not_come_and_go_while_it_is_looked_at() {
    let again = stalled("InstallationFailed").seen_before();
    assert_eq!(
        published(&again.told()),
        "Stalled WorkspaceFailed: InstallationFailed: no network"
    );
    assert_eq!(again.told().lines(), ["workspace", "again in 60s"]);

    let edited = stalled("InstallationFailed")
        .seen_before()
        .with(json!({ "metadata": { "generation": 4 } }));
    assert_eq!(
        format!("status {}", published(&edited.told())),
        WAITING,
        "an edit may have mended it"
    );
    let requested = stalled("InstallationFailed").seen_before().request("now");
    assert_eq!(format!("status {}", published(&requested.told())), WAITING);

    let mut mended = stalled("InstallationFailed").seen_before();
    mended.workspace = given().workspace;
    assert_eq!(mended.told().plan.rule, "launch");
    let mut starting = stalled("InstallationFailed").seen_before();
    starting.workspace = not_ready(json!([])).workspace;
    assert_eq!(
        starting.told().lines(),
        ["workspace", WAITING, "again in 60s"]
    );
}

#[test]
fn the_status_names_the_update_before_it_exists() {
    let told = given()
        .last(json!({ "generation": 2, "name": "demo-1" }))
        .told();
    assert_eq!(
        told.lines(),
        [
            "launch",
            PROCESSING,
            // In case a crash came before this could be done with its result.
            "release demo-1",
            CREATE_UP,
            "event StackUpdateDetected: New stack generation: 3",
            IN_FIVE_MINUTES,
        ]
    );
    assert_eq!(told.questions(), ["program", "workspace"]);
    let status = told.status().unwrap();
    assert_eq!(
        serde_json::to_value(&status.current_update).unwrap(),
        json!({ "generation": 3, "reconcileRequest": "", "name": "demo-18bcfe56800", "commit": "3" })
    );
    let Some(Effect::CreateUpdate { undo, .. }) = told.plan.effects.get(2) else {
        panic!("{:?}", told.plan.effects)
    };
    let mut expected = status.clone();
    expected.current_update = None;
    assert_eq!(**undo, expected, "only that it was started is undone");
}

#[test]
fn an_update_is_for_the_request_and_the_revision_of_now() {
    let told = given().request("r1").source(Ok(revision("9"))).told();
    let current = told.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.reconcile_request.as_deref(), Some("r1"));
    assert_eq!(current.commit.as_deref(), Some("9"));
    assert_eq!(
        told.status().unwrap().observed_reconcile_request.as_deref(),
        Some("r1")
    );
}

#[test]
fn a_failed_start_can_be_undone_and_tried_again() {
    let told = given().told();
    let Some(Effect::CreateUpdate { undo, .. }) = told.plan.effects.get(1) else {
        panic!("{:?}", told.plan.effects)
    };
    let mut again = given();
    again.stack["status"] = serde_json::to_value(undo).unwrap();
    assert_eq!(again.told().plan.rule, "launch");
}
