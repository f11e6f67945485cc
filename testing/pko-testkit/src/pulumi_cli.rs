//! Pulumi's own CLI, which tests run beside the embedded engine.

use std::env;
use std::path::PathBuf;

use crate::components::{BuildEnvironment, Component, Components, ComponentsError};

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
    let environment = BuildEnvironment {
        assets: None,
        ..BuildEnvironment::from_process()
    };
    let components = Components::new(&environment)?;
    components.prepare(&Component::PULUMI)?;
    components.path(Component::Pulumi)
}
