//! The Update that a Stack wants.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pko_api::{
    GoDuration, Stack, Update,
    auto::v1alpha1::{OperationType, UpdateSpec},
    names::finalizers,
};

use super::{owner, stack_labels};
use crate::{Known, stack::World, workspace::owner_reference};

/// How long an Update stays after its end.
const UPDATE_LIFETIME: Duration = Duration::from_hours(24);

/// The name of a new Update: the Stack's, and the time in hexadecimal milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateName(String);

impl UpdateName {
    /// The name of an Update that is made now.
    #[must_use]
    pub fn at(stack: &Stack, now: Timestamp) -> Self {
        let name = stack.metadata.name.as_deref().unwrap_or_default();
        Self(format!("{name}-{:x}", now.as_millisecond()))
    }
}

/// What the next Update does.
pub(in crate::stack) fn operation(world: &World) -> OperationType {
    if world.is_deleting() {
        OperationType::Destroy
    } else if world.stack.spec.preview.unwrap_or(false) {
        OperationType::Preview
    } else {
        OperationType::Up
    }
}

/// An Update of a Stack.
pub(in crate::stack) fn update(world: &World, message: &str, name: &UpdateName) -> Update {
    let stack = &world.stack;
    Update {
        metadata: ObjectMeta {
            name: Some(name.0.clone()),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(stack_labels(stack)),
            finalizers: Some(vec![finalizers::STACK.to_owned()]),
            owner_references: Some(owners(world)),
            ..ObjectMeta::default()
        },
        spec: update_spec(world, message),
        status: None,
    }
}

fn update_spec(world: &World, message: &str) -> UpdateSpec {
    let spec = &world.stack.spec;
    let operation = operation(world);
    let common = UpdateSpec {
        workspace_name: world.stack.metadata.name.clone(),
        stack_name: Some(spec.stack.clone()),
        ttl_after_completed: Some(GoDuration::from(UPDATE_LIFETIME)),
        message: Some(message.to_owned()),
        operation: Some(operation.clone()),
        ..UpdateSpec::default()
    };
    if operation == OperationType::Destroy {
        return UpdateSpec {
            run_program: Some(spec.run_program.unwrap_or(false)),
            ..common
        };
    }
    UpdateSpec {
        target: spec.targets.clone(),
        target_dependents: Some(spec.target_dependents.unwrap_or(false)),
        refresh: Some(spec.refresh.unwrap_or(false)),
        ..common
    }
}

/// The Workspace runs an Update, so it is the controller; the Stack keeps it as history.
fn owners(world: &World) -> Vec<OwnerReference> {
    let workspace = match &world.workspace {
        Known::Known(Ok(workspace)) => Some(owner_reference(workspace)),
        _ => None,
    };
    let stack = owner(&world.stack, false);
    workspace.into_iter().chain([stack]).collect()
}
