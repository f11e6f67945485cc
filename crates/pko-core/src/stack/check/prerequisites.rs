//! Prerequisites that could never be met. Circles are found where the other Stacks are known.

use pko_api::Stack;

/// A success that may not lie in the past: the other Stack would be asked to run for ever.
pub(super) fn without_time(stack: &Stack) -> Option<String> {
    let wanted = stack.spec.prerequisites.iter().enumerate();
    wanted.into_iter().find_map(|(index, wanted)| {
        let requirement = wanted.requirement.as_ref()?;
        let within = requirement.succeeded_within_duration.as_ref()?;
        within.get().is_zero().then(|| {
            format!(
                "spec.prerequisites[{index}].requirement.succeededWithinDuration is \"{within}\", which no success can \
                 be within: write it like `10m` or `1h30m`, or leave it out"
            )
        })
    })
}
