//! Prerequisites that can never be satisfied. Cycles are found by the rule that reads the other
//! Stacks.

use pko_api::Stack;

/// Rejects a duration of zero, which would request runs of the other Stack forever.
pub(super) fn zero_duration(stack: &Stack) -> Option<String> {
    let prerequisites = stack.spec.prerequisites.iter().enumerate();
    prerequisites.into_iter().find_map(|(index, prerequisite)| {
        let requirement = prerequisite.requirement.as_ref()?;
        let within = requirement.succeeded_within_duration.as_ref()?;
        within.get().is_zero().then(|| {
            format!(
                "spec.prerequisites[{index}].requirement.succeededWithinDuration is \"{within}\", \
                 which is not a positive duration: write it like `10m` or `1h30m`, or remove it"
            )
        })
    })
}
