//! Prerequisites. The requirement is empty unless it is given.

use super::*;

fn waiting(requirement: Value) -> StackFixture {
    fixture().spec(json!({ "prerequisites": [{ "name": "base", "requirement": requirement }] }))
}

/// `base`, whose last Update succeeded an hour ago unless it is said otherwise, with these fields
/// of its own.
fn base(requirement: Value, last: Value, fields: Value) -> StackFixture {
    let mut stack = json!({ "status": { "lastUpdate": {
        "generation": 1, "name": "update-abcdef", "type": "up", "state": "succeeded", "lastResyncTime": ago(3_600),
    } } });
    merge(&mut stack, json!({ "status": { "lastUpdate": last } }));
    merge(&mut stack, fields);
    waiting(requirement).neighbour("base", stack)
}

fn missing() -> StackFixture {
    let mut fixture = waiting(json!({}));
    let error = "stacks.pulumi.com \"base\" not found".to_owned();
    fixture.prerequisites.insert("base".to_owned(), Err(error));
    fixture
}

/// Upstream waits for the other Stack's event alone; we look again in case it was missed.
#[test]
fn scenarios_42_to_46_and_48_a_stack_waits() {
    let request = |value: &str| json!({ "metadata": { "annotations": { "pulumi.com/reconciliation-request": value } } });
    let unfinished = "status Reconciling PrerequisiteNotSatisfied: prerequisite not satisfied for \"base\": prerequisite has not run to completion";
    play([
        (
            42,
            "there is none",
            missing(),
            &[
                "status Reconciling PrerequisiteNotSatisfied: unable to fetch prerequisite \"base\": stacks.pulumi.com \"base\" not found",
                IN_FIVE_MINUTES,
            ],
        ),
        (
            43,
            "it never ran",
            waiting(json!({})).neighbour("base", json!({})),
            &[unfinished, IN_FIVE_MINUTES],
        ),
        (
            44,
            "its spec was edited since it failed",
            base(
                json!({}),
                json!({ "state": "failed" }),
                json!({ "metadata": { "generation": 2 } }),
            ),
            &[unfinished, IN_FIVE_MINUTES],
        ),
        (
            45,
            "a run was requested since",
            base(json!({}), json!({}), request("now")),
            &[unfinished, IN_FIVE_MINUTES],
        ),
        (
            46,
            "it failed",
            base(json!({}), json!({ "state": "failed" }), json!({})),
            &[
                "status Reconciling PrerequisiteNotSatisfied: prerequisite not satisfied for \"base\": prerequisite failed",
                IN_FIVE_MINUTES,
            ],
        ),
        (
            48,
            "it succeeded two hours ago, and that should be one",
            base(
                json!({ "succeededWithinDuration": "1h" }),
                json!({ "lastResyncTime": ago(7_200) }),
                json!({}),
            ),
            &[
                "status Reconciling PrerequisiteNotSatisfied: prerequisite not satisfied for \"base\": prerequisite is out of date",
                "request base after-update-abcdef",
                IN_FIVE_MINUTES,
            ],
        ),
    ]);
}

#[test]
fn scenarios_47_and_49_stack_continues() {
    let started: &[&str] = &[
        PROCESSING,
        CREATE_UP,
        "event StackUpdateDetected: Initial stack update",
        IN_FIVE_MINUTES,
    ];
    play([
        (
            47,
            "it succeeded an hour ago",
            base(json!({}), json!({}), json!({})),
            started,
        ),
        (
            49,
            "it succeeded half an hour ago, and that may be one",
            base(
                json!({ "succeededWithinDuration": "1h" }),
                json!({ "lastResyncTime": ago(1_800) }),
                json!({}),
            ),
            started,
        ),
    ]);
}

#[test]
fn scenario_50_deleting_stack_skips_prerequisites() {
    play([(
        50,
        "it is destroyed, and the other is gone",
        missing()
            .spec(json!({ "destroyOnFinalize": true }))
            .deleting()
            .last(json!({ "generation": 2 })),
        &[
            PROCESSING,
            CREATE_DESTROY,
            "release demo-1",
            "event StackUpdateDetected: Stack marked for deletion",
            IN_FIVE_MINUTES,
        ],
    )]);
}
