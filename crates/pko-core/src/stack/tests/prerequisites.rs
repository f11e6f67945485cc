//! The Stacks that come first.

use super::*;

/// Waits for `base`, with this requirement.
fn waiting(requirement: Value) -> StackFixture {
    fixture().spec(json!({ "prerequisites": [{ "name": "base", "requirement": requirement }] }))
}

/// `base`, with its last result.
fn base(fixture: StackFixture, last: Value) -> StackFixture {
    let mut result = json!({
        "generation": 1, "name": "base-1", "type": "up", "state": "succeeded", "lastResyncTime": ago(3_600),
    });
    merge(&mut result, last);
    fixture.neighbour("base", json!({ "status": { "lastUpdate": result } }))
}

fn blocked(fixture: &StackFixture) -> String {
    let outcome = fixture.decide();
    let lines = outcome.lines();
    assert_eq!(lines[0], "prerequisites", "{lines:?}");
    assert_eq!(lines.last().unwrap(), "again in 300s");
    let condition = lines[1].strip_prefix("status Reconciling PrerequisiteNotSatisfied: ");
    condition.unwrap_or_else(|| panic!("{lines:?}")).to_owned()
}

fn goes_on(fixture: &StackFixture) -> bool {
    fixture.decide().plan.rule == "launch"
}

/// 42 to 49 of upstream's scenarios.
#[test]
fn stack_waits_for_prerequisites() {
    let mut missing = waiting(json!({}));
    let error = "stacks.pulumi.com \"base\" not found".to_owned();
    missing.prerequisites.insert("base".into(), Err(error));
    assert_eq!(
        blocked(&missing),
        "unable to fetch prerequisite \"base\": stacks.pulumi.com \"base\" not found"
    );

    let unfinished =
        "prerequisite not satisfied for \"base\": prerequisite has not run to completion";
    let never = waiting(json!({})).neighbour("base", json!({}));
    assert_eq!(blocked(&never), unfinished);
    let edited = base(
        waiting(json!({})),
        json!({ "generation": 0, "state": "failed" }),
    );
    assert_eq!(blocked(&edited), unfinished);
    let requested = base(waiting(json!({})), json!({ "reconcileRequest": "before" }));
    assert_eq!(blocked(&requested), unfinished);
    let half = base(waiting(json!({})), json!({ "type": "refresh" }));
    assert_eq!(blocked(&half), unfinished, "only its refresh is done");

    let failed = base(waiting(json!({})), json!({ "state": "failed" }));
    assert_eq!(
        blocked(&failed),
        "prerequisite not satisfied for \"base\": prerequisite failed"
    );
    assert!(goes_on(&base(waiting(json!({})), json!({}))), "an hour ago");
    assert!(goes_on(&base(
        waiting(json!({ "succeededWithinDuration": "1h" })),
        json!({ "lastResyncTime": ago(1_800) })
    )));
}

/// 48: its run is requested once for all dependents.
#[test]
fn outdated_prerequisite_is_requested_to_run() {
    let old = || {
        base(
            waiting(json!({ "succeededWithinDuration": "1h" })),
            json!({ "lastResyncTime": ago(7_200), "name": "update-abcdef" }),
        )
    };
    let message = "prerequisite not satisfied for \"base\": prerequisite is out of date";
    assert_eq!(blocked(&old()), message);
    assert_eq!(
        old().decide().lines()[2],
        "request base after-update-abcdef"
    );
    let requests = old().neighbour(
        "base",
        json!({
            "metadata": { "annotations": { "pulumi.com/reconciliation-request": "after-update-abcdef" } },
            "status": { "lastUpdate": {
                "generation": 1, "state": "succeeded", "name": "update-abcdef", "lastResyncTime": ago(7_200),
                "reconcileRequest": "after-update-abcdef",
            } },
        }),
    );
    assert!(
        !requests
            .decide()
            .lines()
            .iter()
            .any(|line| line.starts_with("request")),
        "it was requested before"
    );
}

#[test]
fn several_are_named() {
    let fixture = fixture()
        .spec(json!({ "prerequisites": [{ "name": "b" }, { "name": "a" }, { "name": "c" }] }))
        .neighbour("a", json!({}))
        .neighbour("b", json!({}))
        .neighbour(
            "c",
            json!({ "status": { "lastUpdate": { "generation": 1, "state": "succeeded" } } }),
        );
    assert_eq!(
        blocked(&fixture),
        "multiple prerequisites were not satisfied b, a"
    );
}

#[test]
fn prerequisite_stall_reason_is_reported() {
    let stalled = json!({ "status": {
        "lastUpdate": { "generation": 1, "state": "failed" },
        "conditions": [condition("Stalled", "True", "UpdateFailed", "up failed 3 times")],
    } });
    let fixture = waiting(json!({})).neighbour("base", stalled);
    assert_eq!(
        blocked(&fixture),
        "prerequisite not satisfied for \"base\": prerequisite failed (it is stalled, UpdateFailed: up failed 3 times)"
    );
}

/// 50: and they are not even read.
#[test]
fn deleting_stack_skips_prerequisites() {
    let fixture = waiting(json!({}))
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting()
        .last(json!({ "generation": 2 }));
    let outcome = fixture.decide();
    assert_eq!(outcome.plan.rule, "launch");
    assert!(!outcome.request_names().contains(&"prerequisites"));
}

#[test]
fn they_are_asked_for_only_when_an_update_is_needed() {
    let outcome = waiting(json!({})).last(json!({})).decide();
    assert_eq!(outcome.request_names(), ["source"]);
    assert_eq!(outcome.lines()[1], "status Ready");
}

#[test]
fn circular_prerequisites_are_named() {
    let cycle = |fixture: &StackFixture| {
        let lines = fixture.decide().lines();
        lines[1]
            .strip_prefix("status Stalled SpecInvalid: ")
            .map(str::to_owned)
    };
    let before = |names: &[&str]| {
        let before: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "spec": { "prerequisites": before } })
    };
    let itself = fixture().with(before(&["demo"]));
    assert_eq!(
        cycle(&itself).unwrap(),
        "spec.prerequisites form a cycle: demo -> demo; remove one of them"
    );
    let three = fixture()
        .with(before(&["a", "b"]))
        .neighbour("a", json!({}))
        .neighbour("b", before(&["a", "c"]))
        .neighbour("c", before(&["demo"]));
    assert_eq!(
        cycle(&three).unwrap(),
        "spec.prerequisites form a cycle: demo -> b -> c -> demo; remove one of them"
    );
    let elsewhere = fixture()
        .with(before(&["a"]))
        .neighbour("a", before(&["b"]))
        .neighbour("b", before(&["a"]));
    assert_eq!(cycle(&elsewhere), None, "it is not in this one");
    assert_eq!(
        blocked(&elsewhere),
        "prerequisite not satisfied for \"a\": prerequisite has not run to completion"
    );
}

/// Longer than the call stack would be deep.
#[test]
fn long_prerequisite_chain_is_followed() {
    const LENGTH: usize = 50_000;
    let before = |number: usize| json!([{ "name": format!("s{}", number + 1) }]);
    let mut fixture = fixture().spec(json!({ "prerequisites": before(0) }));
    for number in 1..LENGTH {
        let stack = json!({
            "metadata": { "name": format!("s{number}"), "namespace": "shop" },
            "spec": { "stack": "dev", "prerequisites": before(number) },
        });
        let stack = serde_json::from_value(stack).unwrap();
        fixture
            .prerequisites
            .insert(format!("s{number}"), Ok(stack));
    }
    assert!(blocked(&fixture).contains("prerequisite has not run to completion"));
}
