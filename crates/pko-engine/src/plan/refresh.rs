//! Refresh: built-in resources are all in the state, so there is nothing to read elsewhere. Pure.

use super::{Action, Operation, Plan, Selection, Step};
use crate::resource::Resource;

/// Plans a refresh.
#[must_use]
pub fn plan(old: &[Resource], selection: &Selection) -> Plan {
    let actions = old
        .iter()
        .filter(|resource| !resource.delete && selection.includes(&resource.urn))
        .map(|resource| {
            let mut new = resource.clone();
            // as Pulumi has it: properties without dependencies are not listed after a refresh
            new.property_dependencies
                .retain(|_, urns| urns.as_ref().is_some_and(|urns| !urns.is_empty()));
            let step = Step::new(Operation::Refresh, Some(resource.clone()), Some(new));
            Action::Step(Box::new(step))
        })
        .collect();
    Plan {
        actions,
        warnings: Vec::new(),
    }
}
