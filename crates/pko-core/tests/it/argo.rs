//! The health that Argo CD derives from a Stack's conditions.
//!
//! Argo CD runs a script in Lua 5.1 on the object. `argo/health.lua` is ours, with the same rules.
//! With `PKO_ARGO_CD`, the path of a checkout of Argo CD, its own script runs.

use std::{fs, path::Path};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use mlua::{Lua, LuaOptions, LuaSerdeExt as _, StdLib, Table, serde::SerializeOptions};
use pko_api::names::{
    conditions::{ConditionStatus, ConditionType},
    reasons::StackReason,
};
use pko_core::condition_set::{ConditionSet, Summary};
use serde_json::{Value, json};

const MESSAGE: &str = "what a user should read";

fn script() -> String {
    let Some(checkout) = std::env::var_os("PKO_ARGO_CD") else {
        return include_str!("argo/health.lua").to_owned();
    };
    let path = Path::new(&checkout).join("resource_customizations/pulumi.com/Stack/health.lua");
    fs::read_to_string(path).unwrap()
}

/// Runs the script as Argo CD does: the object is the global `obj`, with a small part of Lua's
/// library.
fn health(object: &Value) -> (String, String) {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING, LuaOptions::new()).unwrap();
    let options = SerializeOptions::new()
        .serialize_none_to_null(false)
        .serialize_unit_to_null(false);
    let object = lua.to_value_with(object, options).unwrap();
    lua.globals().set("obj", object).unwrap();
    let verdict: Table = lua.load(script()).eval().unwrap();
    (
        verdict.get("status").unwrap(),
        verdict.get("message").unwrap(),
    )
}

/// A Stack whose current spec is observed.
fn stack(conditions: &[Condition]) -> Value {
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": { "name": "demo", "generation": 3 },
        "status": { "observedGeneration": 3, "conditions": conditions },
    })
}

fn conditions(stored: &[Condition], summary: &Summary) -> Vec<Condition> {
    let mut set = ConditionSet::new(stored, Timestamp::UNIX_EPOCH);
    set.set_summary(summary);
    set.into_conditions()
}

/// Ready, for a reason of its own.
fn ready_because(reason: &str) -> Vec<Condition> {
    let mut set = ConditionSet::new(&[], Timestamp::UNIX_EPOCH);
    set.set(ConditionType::Ready, ConditionStatus::True, reason, MESSAGE);
    set.into_conditions()
}

fn says(status: &str, message: &str) -> (String, String) {
    (status.to_owned(), message.to_owned())
}

#[test]
fn ready_stack_is_healthy() {
    let up_to_date = "the stack has been processed and is up to date";
    let ready = stack(&conditions(&[], &Summary::Ready));
    assert_eq!(health(&ready), says("Healthy", up_to_date));
    // Nothing is wrong with what was deployed while the Stack is suspended, or its source is away
    // for a while.
    let reasons = StackReason::ALL.iter().map(|reason| reason.as_str());
    for reason in reasons.chain(["Suspended"]) {
        let found = health(&stack(&ready_because(reason)));
        assert_eq!(found, says("Healthy", MESSAGE), "{reason}");
    }
}

#[test]
fn reconciling_stack_is_progressing() {
    for reason in StackReason::ALL {
        let summary = Summary::Reconciling(*reason, MESSAGE.into());
        let found = health(&stack(&conditions(&[], &summary)));
        assert_eq!(found, says("Progressing", MESSAGE), "{reason}");
    }
}

#[test]
fn stalled_stack_is_degraded() {
    for reason in StackReason::ALL {
        let summary = Summary::Stalled(*reason, MESSAGE.into());
        let found = health(&stack(&conditions(&[], &summary)));
        assert_eq!(found, says("Degraded", MESSAGE), "{reason}");
    }
}

#[test]
fn unobserved_spec_is_progressing() {
    let mut new = stack(&[]);
    new.as_object_mut().unwrap().remove("status");
    assert_eq!(health(&new).0, "Progressing");
    // The CRD's own default, before the first look
    new["status"] = json!({});
    assert_eq!(health(&new).0, "Progressing");
    assert_eq!(health(&stack(&[])).0, "Progressing");

    for summary in summaries() {
        let mut changed = stack(&conditions(&[], &summary));
        changed["metadata"]["generation"] = json!(4);
        assert_eq!(health(&changed).0, "Progressing", "{summary:?}");
    }
}

#[test]
fn health_is_independent_of_condition_order() {
    for before in summaries() {
        for after in summaries() {
            let fresh = conditions(&[], &after);
            let mut changed = conditions(&conditions(&[], &before), &after);
            let expected = health(&stack(&fresh));
            assert_eq!(health(&stack(&changed)), expected, "{before:?} {after:?}");
            changed.reverse();
            assert_eq!(health(&stack(&changed)), expected, "{before:?} {after:?}");
        }
    }
}

fn summaries() -> [Summary; 3] {
    [
        Summary::Ready,
        Summary::Reconciling(StackReason::StackProcessing, MESSAGE.into()),
        Summary::Stalled(StackReason::SpecInvalid, MESSAGE.into()),
    ]
}
