//! Plans deletions and their order.

use std::collections::{BTreeSet, HashMap};

use pulumi_engine_model::{resource::Resource, urn::Urn};

use super::{Failure, Operation, Selection, Step};

/// The resources that a destroy deletes; an error for each that would go without having been named.
pub(crate) fn destroyed<'a>(
    old: &[&'a Resource],
    selection: &Selection,
) -> Result<Vec<&'a Resource>, Vec<Failure>> {
    let doomed = doomed(old, selection);
    let unnamed: Vec<_> = old
        .iter()
        .filter(|resource| doomed.contains(resource.urn.as_str()) && !selection.dependents)
        .filter(|resource| !selection.includes(&resource.urn))
        .map(|resource| unnamed_dependent(&resource.urn))
        .collect();
    if unnamed.is_empty() {
        let chosen = old
            .iter()
            .filter(|resource| doomed.contains(resource.urn.as_str()));
        Ok(chosen.copied().collect())
    } else {
        Err(unnamed)
    }
}

/// The targets and all that cannot be without them.
fn doomed<'a>(old: &[&'a Resource], selection: &Selection) -> BTreeSet<&'a str> {
    let mut doomed = BTreeSet::new();
    for resource in old {
        if selection.includes(&resource.urn)
            || resource.references().any(|other| doomed.contains(other))
        {
            doomed.insert(resource.urn.as_str());
        }
    }
    doomed
}

fn unnamed_dependent(urn: &Urn) -> Failure {
    let message = format!(
        "Resource '{urn}' will be destroyed but was not specified in --target list.\n\
         Either include resource in --target list or pass --target-dependents to proceed."
    );
    Failure::new(Some(urn.clone()), message)
}

/// The steps that delete these resources of a state, last first, and for each the steps that must
/// be done before it.
#[must_use]
pub(crate) fn steps(resources: &[&Resource]) -> (Vec<Step>, Vec<Vec<usize>>) {
    let steps = resources
        .iter()
        .rev()
        .map(|resource| Step::new(operation(resource), Some((*resource).clone()), None));
    let mut dependents: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut needs = Vec::new();
    for (number, resource) in resources.iter().rev().enumerate() {
        // only later resources can depend on one; an older one of the same URN cannot
        needs.push(
            dependents
                .get(resource.urn.as_str())
                .cloned()
                .unwrap_or_default(),
        );
        let references: BTreeSet<_> = resource.references().collect();
        for reference in references {
            dependents.entry(reference).or_default().push(number);
        }
    }
    (steps.collect(), needs)
}

fn operation(resource: &Resource) -> Operation {
    match (resource.delete, resource.external) {
        (true, true) => Operation::DiscardReplaced,
        (true, false) => Operation::DeleteReplaced,
        (false, _) if resource.pending_replacement => Operation::RemovePendingReplace,
        (false, true) => Operation::Discard,
        (false, false) => Operation::Delete,
    }
}

/// Why a resource must not be deleted, if so.
#[must_use]
pub(crate) fn refusal(step: &Step) -> Option<String> {
    let old = step.old.as_ref()?;
    (step.operation == Operation::Delete && old.protect).then(|| {
        format!(
            "resource {:?} cannot be deleted because it is protected; to unprotect it, \
             set its option `protect: false` and run `up`",
            old.urn.as_str()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, needs: &[&str]) -> Resource {
        Resource {
            urn: Urn::new(name),
            dependencies: needs.iter().map(|need| Urn::new(*need)).collect(),
            ..Resource::default()
        }
    }

    #[test]
    fn deletion_order_puts_dependencies_last() {
        let all = [
            resource("a", &[]),
            resource("b", &["a"]),
            resource("c", &["a"]),
            resource("d", &["b", "c"]),
        ];
        let (steps, needs) = steps(&all.iter().collect::<Vec<_>>());
        let names: Vec<_> = steps.iter().map(|step| step.urn.as_str()).collect();
        assert_eq!(names, ["d", "c", "b", "a"]);
        assert_eq!(needs, [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn deletion_of_two_with_one_urn_has_no_cycle() {
        let mut old = resource("a", &["c"]);
        old.delete = true;
        let all = [resource("a", &[]), resource("c", &["a"]), old];
        let (steps, needs) = steps(&all.iter().collect::<Vec<_>>());
        assert_eq!(steps[0].operation, Operation::DeleteReplaced);
        assert_eq!(needs, [vec![], vec![0], vec![1]]);
    }
}
