//! What becomes of a resource that exists: from its state, what the program wants and what the provider says of the
//! difference to a decision. Pure.

use std::collections::BTreeSet;

use pulumi_engine_model::{property::Property, resource::Resource};
use pulumi_engine_providers::Difference;

use super::path::Path;
use crate::program::evaluate::Goal;

/// What `replaceOnChanges` can name besides properties: that a resource was not well.
const INIT_ERRORS: &str = "#initerror";

/// What becomes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It stays as it is.
    Same,
    /// It is changed.
    Update {
        /// Inputs that differ.
        differences: Vec<String>,
    },
    /// It is made anew.
    Replace {
        /// Inputs that differ.
        differences: Vec<String>,
        /// Inputs that make it a replacement.
        keys: Vec<String>,
        /// Whether the old one goes first.
        delete_first: bool,
    },
}

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The resource before.
    pub old: &'a Resource,
    /// What the program wants.
    pub goal: &'a Goal,
    /// What the provider says.
    pub difference: &'a Difference,
    /// Why it is replaced whatever the difference is: the user says so, or another is replaced.
    pub forced: Option<&'a str>,
    /// Whether replacements of its type delete first.
    pub delete_first: bool,
}

/// Decides.
pub(crate) fn decide(question: &Question<'_>) -> Result<Decision, String> {
    let mut differences = question.difference.keys();
    let mut keys = replace_keys(question)?;
    let triggered = is_triggered(question);
    if triggered {
        // a trigger says that it must be made anew; what else has changed is not asked
        keys.clear();
        differences.clear();
    }
    if triggered || !keys.is_empty() || question.old.pending_replacement {
        let asked = question.delete_first || question.difference.delete_before_replace;
        return Ok(Decision::Replace {
            differences,
            keys,
            delete_first: question.goal.delete_before_replace.unwrap_or(asked),
        });
    }
    // what was not well last time is tried again
    if differences.is_empty() && question.old.init_errors.is_empty() {
        Ok(Decision::Same)
    } else {
        Ok(Decision::Update { differences })
    }
}

/// Whether the value that the program gave to trigger a replacement has changed, or may have.
fn is_triggered(question: &Question<'_>) -> bool {
    let open = |trigger: Option<&Property>| trigger.map(|trigger| trigger.opened().0);
    let old = open(question.old.trigger());
    let new = open(question.goal.replacement_trigger.as_ref());
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
pub(crate) fn protected(old: &Resource) -> String {
    format!(
        "unable to replace resource {:?}\nas it is currently marked for protection. To unprotect the resource, \
         remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`",
        old.urn.as_str()
    )
}

fn replace_keys(question: &Question<'_>) -> Result<Vec<String>, String> {
    if let Some(forced) = question.forced {
        return Ok(vec![forced.to_owned()]);
    }
    let mut keys: BTreeSet<_> = question.difference.replace_keys().into_iter().collect();
    let mut changed: Vec<_> = question
        .difference
        .changes
        .keys()
        .map(String::as_str)
        .collect();
    if !question.old.init_errors.is_empty() {
        changed.push(INIT_ERRORS);
    }
    for name in &question.goal.replace_on_changes {
        let path = Path::parse("replaceOnChanges", name)?;
        for change in &changed {
            // what a provider calls its changes is up to it
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
    fn the_difference_decides_unless_something_else_does() {
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
            decide(&Question {
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
    fn a_type_that_deletes_first_does_so_unless_the_program_says_otherwise() {
        let old = Resource::default();
        let decided = |wanted| {
            let goal = Goal {
                delete_before_replace: wanted,
                ..Goal::default()
            };
            decide(&Question {
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
