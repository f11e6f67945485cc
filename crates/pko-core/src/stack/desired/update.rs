//! The next Update of a Stack.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pko_api::{
    GoDuration, Stack, Update,
    auto::v1alpha1::{OperationType, UpdateSpec},
    names::{annotations, finalizers, urgencies::Urgency},
    pulumi::v1::{CurrentUpdate, LastUpdate, StackStatus},
};
use sha2::{Digest as _, Sha256};

use super::{owner, stack_labels, update_template};
use crate::{
    stack::{ObservedStack, finished_update},
    workspace::owner_reference,
};

/// Upstream has this many: the time in milliseconds.
const NAME_DIGITS: usize = 11;
/// How long an Update is kept after its end.
const UPDATE_LIFETIME: Duration = Duration::from_hours(24);

/// The name of a new Update: the Stack's name and eleven hexadecimal digits, as upstream's. The
/// digits derive from the Update's purpose and from the Update before it, so that no Update is
/// created twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateName(String);

impl UpdateName {
    /// The name of the Update that comes after this one.
    #[must_use]
    pub fn of(
        stack: &Stack,
        last: Option<&LastUpdate>,
        operation: &OperationType,
        current: &CurrentUpdate,
    ) -> Self {
        let time = last.and_then(|last| last.last_resync_time.as_ref());
        let parts = [
            stack.metadata.uid.clone(),
            last.and_then(|last| last.name.clone()),
            time.map(|time| time.0.to_string()),
            Some(operation.to_string()),
            current.generation.map(|generation| generation.to_string()),
            current.reconcile_request.clone(),
            current.commit.clone(),
            current.attempt.map(|attempt| attempt.to_string()),
        ];
        let mut digest = Sha256::new();
        for part in parts {
            // The length keeps the parts apart.
            let part = part.unwrap_or_default();
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        let digits: String = hex::encode(digest.finalize())
            .chars()
            .take(NAME_DIGITS)
            .collect();
        let name = stack.metadata.name.as_deref().unwrap_or_default();
        Self(format!("{name}-{digits}"))
    }
}

/// The operation of the next Update.
pub(in crate::stack) fn operation(
    observed: &ObservedStack,
    status: &StackStatus,
    current: &CurrentUpdate,
) -> OperationType {
    let spec = &observed.stack.spec;
    if observed.is_deleting() {
        OperationType::Destroy
    } else if spec.preview.unwrap_or(false) {
        OperationType::Preview
    } else if spec.expect_no_refresh_changes.unwrap_or(false) && !is_refreshed(status, current) {
        OperationType::Refresh
    } else {
        OperationType::Up
    }
}

/// Whether the refresh before an update has succeeded for the same spec, request and revision.
fn is_refreshed(status: &StackStatus, current: &CurrentUpdate) -> bool {
    status.last_update.as_ref().is_some_and(|last| {
        finished_update::is_pre_update_refresh(last)
            && last.generation == current.generation
            && last.reconcile_request == current.reconcile_request
            && last.last_attempted_commit == current.commit
    })
}

/// What the next Update is for.
pub(in crate::stack) struct DesiredUpdate<'trigger> {
    pub(in crate::stack) operation: OperationType,
    pub(in crate::stack) message: &'trigger str,
    pub(in crate::stack) urgency: Urgency,
    pub(in crate::stack) name: UpdateName,
}

/// The next Update of a Stack.
///
/// # Errors
/// The template is invalid.
pub(in crate::stack) fn update(
    observed: &ObservedStack,
    desired: &DesiredUpdate,
) -> Result<Update, String> {
    if let Some(problem) = update_template::problem(observed) {
        return Err(problem);
    }
    update_template::merge(generate(observed, desired), &observed.stack.spec)
}

fn generate(observed: &ObservedStack, desired: &DesiredUpdate) -> Update {
    let stack = &observed.stack;
    let urgency = desired.urgency.as_str().to_owned();
    Update {
        metadata: ObjectMeta {
            name: Some(desired.name.0.clone()),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(stack_labels(stack)),
            annotations: Some(BTreeMap::from([(annotations::URGENCY.to_owned(), urgency)])),
            finalizers: Some(vec![finalizers::STACK.to_owned()]),
            owner_references: Some(owners(observed)),
            ..ObjectMeta::default()
        },
        spec: update_spec(observed, desired),
        status: None,
    }
}

fn update_spec(observed: &ObservedStack, desired: &DesiredUpdate) -> UpdateSpec {
    let spec = &observed.stack.spec;
    let common = UpdateSpec {
        workspace_name: workspace_name(observed),
        stack_name: Some(spec.stack.clone()),
        ttl_after_completed: Some(GoDuration::from(UPDATE_LIFETIME)),
        message: Some(desired.message.to_owned()),
        operation: Some(desired.operation.clone()),
        timeout_seconds: spec.timeout_seconds,
        ..UpdateSpec::default()
    };
    match desired.operation {
        OperationType::Destroy => UpdateSpec {
            run_program: Some(spec.run_program.unwrap_or(false)),
            remove: spec.remove_stack_on_destroy.filter(|remove| *remove),
            ..common
        },
        OperationType::Refresh => UpdateSpec {
            target: spec.targets.clone(),
            target_dependents: Some(spec.target_dependents.unwrap_or(false)),
            expect_no_changes: Some(true),
            ..common
        },
        _ => UpdateSpec {
            target: spec.targets.clone(),
            target_dependents: Some(spec.target_dependents.unwrap_or(false)),
            refresh: Some(spec.refresh.unwrap_or(false)),
            ..common
        },
    }
}

/// The name of the Workspace, which a template may have changed.
pub(super) fn workspace_name(observed: &ObservedStack) -> Option<String> {
    match observed.workspace_of_run() {
        Some(workspace) => workspace.metadata.name.clone(),
        None => Some(super::workspace_name(&observed.stack).to_owned()),
    }
}

/// The Workspace is the controller of its Updates. The Stack owns them as its history.
fn owners(observed: &ObservedStack) -> Vec<OwnerReference> {
    let workspace = observed.workspace_of_run().map(owner_reference);
    let stack = owner(&observed.stack, false);
    workspace.into_iter().chain([stack]).collect()
}
