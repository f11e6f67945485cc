//! The Workspace and the Update of a Stack, as they should be.

mod config;
mod environment;
mod go_types;
mod quantity;
mod shape;
mod stacks;
mod template;
mod update;
mod update_template;
mod volumes;
mod workspace;

use std::collections::BTreeMap;

use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pko_api::{Stack, names::labels};

pub(super) use environment::{BACKEND_VARIABLE, TOKEN_VARIABLE};
pub use shape::settle_pod;
pub use update::UpdateName;
pub(super) use update::{DesiredUpdate, operation, update};
pub(super) use update_template::problem as update_template_problem;
pub use workspace::workspace_name;
pub(super) use workspace::{without_owner, workspace};

pub(super) fn stack_labels(stack: &Stack) -> BTreeMap<String, String> {
    let name = stack.metadata.name.clone().unwrap_or_default();
    BTreeMap::from([
        (
            labels::STACK_COMPONENT_KEY.to_owned(),
            labels::STACK_COMPONENT.to_owned(),
        ),
        (labels::STACK_NAME.to_owned(), name),
    ])
}

pub(super) fn owner(stack: &Stack, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: Stack::API_VERSION.to_owned(),
        kind: Stack::KIND.to_owned(),
        name: stack.metadata.name.clone().unwrap_or_default(),
        uid: stack.metadata.uid.clone().unwrap_or_default(),
        controller: controller.then_some(true),
        block_owner_deletion: Some(true),
    }
}

/// The text, unless it is empty: upstream ignores an empty one.
fn present(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}
