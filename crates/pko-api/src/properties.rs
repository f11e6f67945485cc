//! Any value of any kind comes back equal when it was written and read.

use std::{fmt::Debug, thread};

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Decoded, Program, Stack, StoredKind, Update, Workspace, pulumi::v1alpha1};

/// Through text, as it goes over the wire, and through [`Decoded`], as it comes from a watch.
fn comes_back<K>(object: &K) -> Result<(), TestCaseError>
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

/// Tries many values. A derived generator is as large as its type is nested, and a Stack's does not
/// fit into the stack of a test's thread.
fn every_value_comes_back<K>()
where
    K: StoredKind + Serialize + DeserializeOwned + PartialEq + Debug + Arbitrary,
{
    let config = ProptestConfig::with_cases(100);
    let check = || proptest!(config, |(object in any::<K>())| comes_back(&object)?);
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(64 << 20)
            .spawn_scoped(scope, check);
        thread.unwrap().join().unwrap();
    });
}

#[test]
fn stack_round_trips() {
    every_value_comes_back::<Stack>();
}

#[test]
fn legacy_stack_round_trips() {
    every_value_comes_back::<v1alpha1::Stack>();
}

#[test]
fn program_round_trips() {
    every_value_comes_back::<Program>();
}

#[test]
fn workspace_round_trips() {
    every_value_comes_back::<Workspace>();
}

#[test]
fn update_round_trips() {
    every_value_comes_back::<Update>();
}
