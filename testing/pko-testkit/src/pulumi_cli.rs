//! Pulumi's own CLI, which tests drive beside the embedded engine.

use std::env;
use std::path::PathBuf;

use crate::components::{Component, Components, ComponentsError, Surroundings};

/// Names another CLI than the pinned one.
pub const PKO_PULUMI: &str = "PKO_PULUMI";

/// Pulumi's CLI: the one that `PKO_PULUMI` names, else the pinned one with its host for YAML
/// programs beside it. It is built if it is not there, which takes minutes.
pub fn pulumi_cli() -> Result<PathBuf, ComponentsError> {
    if let Some(named) = env::var_os(PKO_PULUMI).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        if path.is_file() {
            return Ok(path);
        }
        return Err(ComponentsError::NoPulumi(path));
    }
    let surroundings = Surroundings {
        assets: None,
        ..Surroundings::of_this_process()
    };
    let components = Components::new(&surroundings)?;
    components.prepare(&Component::PULUMI)?;
    components.path(Component::Pulumi)
}
