//! Decides whether an existing resource is kept, updated or replaced, from its state, the goal and
//! the provider's diff.

use std::collections::BTreeSet;

use pulumi_engine_model::{property::Property, resource::Resource};
use pulumi_engine_providers::Difference;

use super::path::Path;
use crate::program::evaluate::Goal;

/// The entry of `replaceOnChanges` for resources with init errors.
const INIT_ERRORS: &str = "#initerror";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Same,
    Update {
        /// Inputs that differ.
        differences: Vec<String>,
    },
    Replace {
        /// Inputs that differ.
        differences: Vec<String>,
        /// Inputs that make it a replacement.
        keys: Vec<String>,
        delete_first: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DecisionInput<'a> {
    /// The resource before.
    pub old: &'a Resource,
    pub goal: &'a Goal,
    /// The provider's diff.
    pub difference: &'a Difference,
    /// The reason for a replacement that does not depend on the diff.
    pub forced: Option<&'a str>,
    /// The default of its type.
    pub delete_first: bool,
}

/// Decides.
pub(crate) fn decide(input: &DecisionInput<'_>) -> Result<Decision, String> {
    let mut differences = input.difference.keys();
    let mut keys = replace_keys(input)?;
    let triggered = is_triggered(input);
    if triggered {
        // a trigger replaces the resource; other changes do not matter
        keys.clear();
        differences.clear();
    }
    if triggered || !keys.is_empty() || input.old.pending_replacement {
        let asked = input.delete_first || input.difference.delete_before_replace;
        return Ok(Decision::Replace {
            differences,
            keys,
            delete_first: input.goal.delete_before_replace.unwrap_or(asked),
        });
    }
    // a resource with init errors is updated again
    if differences.is_empty() && input.old.init_errors.is_empty() {
        Ok(Decision::Same)
    } else {
        Ok(Decision::Update { differences })
    }
}

/// Whether `replacementTrigger` has changed, or may have.
fn is_triggered(input: &DecisionInput<'_>) -> bool {
    let open = |trigger: Option<&Property>| trigger.map(|trigger| trigger.opened().0);
    let old = open(input.old.trigger());
    let new = open(input.goal.replacement_trigger.as_ref());
    let unknown =
        |trigger: &Option<Property>| trigger.as_ref().is_some_and(Property::contains_unknown);
    if unknown(&old) || unknown(&new) {
        return true;
    }
    let given = |trigger: &Option<Property>| !matches!(trigger, None | Some(Property::Null));
    given(&old) && given(&new) && old != new
}

/// Why a protected resource cannot be replaced.
#[must_use]
pub(crate) fn protected_message(old: &Resource) -> String {
    format!(
        "unable to replace resource {:?}\nas it is currently marked for protection. To unprotect the resource, \
         remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`",
        old.urn.as_str()
    )
}

fn replace_keys(input: &DecisionInput<'_>) -> Result<Vec<String>, String> {
    if let Some(forced) = input.forced {
        return Ok(vec![forced.to_owned()]);
    }
    let mut keys: BTreeSet<_> = input.difference.replace_keys().into_iter().collect();
    let mut changed: Vec<_> = input
        .difference
        .changes
        .keys()
        .map(String::as_str)
        .collect();
    if !input.old.init_errors.is_empty() {
        changed.push(INIT_ERRORS);
    }
    for name in &input.goal.replace_on_changes {
        let path = Path::parse("replaceOnChanges", name)?;
        for change in &changed {
            // providers are free in how they name changes
            let Ok(change) = Path::parse("the difference", change) else {
                continue;
            };
            if path.contains(&change) {
                keys.extend(change.root().map(str::to_owned));
            }
        }
    }
    Ok(keys.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use pulumi_engine_model::property::Properties;
    use pulumi_engine_providers::ChangeKind;

    fn inputs(value: &str) -> Properties {
        Properties::from([("x".to_owned(), Property::String(value.to_owned()))])
    }

    fn difference(kind: Option<ChangeKind>) -> Difference {
        Difference {
            changes: kind
                .map(|kind| BTreeMap::from([("x.deep[0]".to_owned(), kind)]))
                .unwrap_or_default(),
            delete_before_replace: false,
        }
    }

    #[test]
    fn decision_follows_diff_unless_options_override() {
        let replace = |keys: &[&str], differences: &[&str], delete_first| Decision::Replace {
            differences: differences.iter().map(ToString::to_string).collect(),
            keys: keys.iter().map(ToString::to_string).collect(),
            delete_first,
        };
        let update = Decision::Update {
            differences: vec!["x".to_owned()],
        };
        let plain = Resource {
            inputs: Some(inputs("old")),
            ..Resource::default()
        };
        let goal = Goal::default();
        let ask = |old: &Resource, goal: &Goal, kind, forced| {
            decide(&DecisionInput {
                old,
                goal,
                difference: &difference(kind),
                forced,
                delete_first: false,
            })
        };
        let (changed, anew) = (Some(ChangeKind::Update), Some(ChangeKind::Replace));
        assert_eq!(ask(&plain, &goal, None, None), Ok(Decision::Same));
        assert_eq!(ask(&plain, &goal, changed, None), Ok(update.clone()));
        assert_eq!(
            ask(&plain, &goal, anew, None),
            Ok(replace(&["x"], &["x"], false))
        );
        assert_eq!(
            ask(&plain, &goal, None, Some("id")),
            Ok(replace(&["id"], &[], false))
        );
        let unwell = Resource {
            init_errors: vec!["not ready".to_owned()],
            ..plain.clone()
        };
        assert_eq!(
            ask(&unwell, &goal, None, None),
            Ok(Decision::Update {
                differences: vec![]
            })
        );
        let first = Goal {
            delete_before_replace: Some(true),
            replace_on_changes: vec!["*".to_owned()],
            protect: Some(true),
            ..Goal::default()
        };
        assert_eq!(
            ask(&plain, &first, changed, None),
            Ok(replace(&["x"], &["x"], true))
        );
    }

    #[test]
    fn decision_delete_first_defaults_to_type() {
        let old = Resource::default();
        let decided = |wanted| {
            let goal = Goal {
                delete_before_replace: wanted,
                ..Goal::default()
            };
            decide(&DecisionInput {
                old: &old,
                goal: &goal,
                difference: &difference(Some(ChangeKind::Replace)),
                forced: None,
                delete_first: true,
            })
        };
        for (wanted, expected) in [(None, true), (Some(false), false)] {
            let Ok(Decision::Replace { delete_first, .. }) = decided(wanted) else {
                panic!("{wanted:?} replaces");
            };
            assert_eq!(delete_first, expected);
        }
    }
}
