//! Property tests: every value of every kind survives serialization and deserialization.

use std::{fmt::Debug, thread};

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Decoded, Program, Stack, StoredKind, Update, Workspace, pulumi::v1alpha1};

/// Checks the object as text, as it goes over the wire, and as [`Decoded`], as a watch reads it.
fn check_round_trip<K>(object: &K) -> Result<(), TestCaseError>
where
    K: StoredKind + Serialize + DeserializeOwned + PartialEq + Debug,
{
    let text = serde_json::to_string(object).unwrap();
    prop_assert_eq!(
        &serde_json::from_str::<K>(&text).unwrap(),
        object,
        "{}",
        &text
    );
    let decoded: Decoded<K> = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(
        decoded.as_result().map_err(|bad| bad.error.clone()),
        Ok(object),
        "{}",
        text
    );
    Ok(())
}

/// Checks many values. The derived generator of a Stack is too large for the stack of a test
/// thread.
fn check_round_trips<K>()
where
    K: StoredKind + Serialize + DeserializeOwned + PartialEq + Debug + Arbitrary,
{
    let config = ProptestConfig::with_cases(100);
    let check = || proptest!(config, |(object in any::<K>())| check_round_trip(&object)?);
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(64 << 20)
            .spawn_scoped(scope, check);
        thread.unwrap().join().unwrap();
    });
}

#[test]
fn stack_round_trips() {
    check_round_trips::<Stack>();
}

#[test]
fn legacy_stack_round_trips() {
    check_round_trips::<v1alpha1::LegacyStack>();
}

#[test]
fn program_round_trips() {
    check_round_trips::<Program>();
}

#[test]
fn workspace_round_trips() {
    check_round_trips::<Workspace>();
}

#[test]
fn update_round_trips() {
    check_round_trips::<Update>();
}
