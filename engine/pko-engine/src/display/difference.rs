//! The structural difference of two values.

use std::collections::BTreeMap;

use pulumi_engine_model::property::{BLINDED, Properties, Property, SIGNATURE_KEY};

/// The difference of one property.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Difference {
    Add(Property),
    Delete(Property),
    Update(Change),
    Same(Property),
}

/// A changed value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// A list, by its elements.
    List(Vec<Difference>),
    /// A map, by its entries.
    Object(Differences),
    /// Anything else.
    Plain {
        /// The value before.
        old: Property,
        /// The value after.
        new: Property,
    },
}

/// The differences of a map.
pub(super) type Differences = BTreeMap<String, Difference>;

/// Prefix of properties that are internal to providers.
pub(super) fn is_internal(name: &str) -> bool {
    name.starts_with("__")
}

/// The differences of two maps; none if they are equal.
pub(super) fn between(old: &Properties, new: &Properties) -> Option<Differences> {
    let mut differences = Differences::new();
    for (name, before) in old.iter().filter(|(name, _)| !is_internal(name)) {
        let became = match new.get(name) {
            Some(after) => match change(before, after) {
                None => Some(Difference::Same(before.clone())),
                Some(_) if *before == Property::Null => Some(Difference::Add(after.clone())),
                Some(_) if *after == Property::Null => Some(Difference::Delete(before.clone())),
                Some(change) => Some(Difference::Update(change)),
            },
            None if *before == Property::Null => None,
            None => Some(Difference::Delete(before.clone())),
        };
        differences.extend(became.map(|became| (name.clone(), became)));
    }
    let added = new.iter().filter(|(name, value)| {
        !is_internal(name) && !old.contains_key(*name) && **value != Property::Null
    });
    differences.extend(added.map(|(name, value)| (name.clone(), Difference::Add(value.clone()))));
    let changed = |difference: &Difference| !matches!(difference, Difference::Same(_));
    differences.values().any(changed).then_some(differences)
}

/// The difference of two values; none if they are equal.
pub(super) fn change(old: &Property, new: &Property) -> Option<Change> {
    match (old, new) {
        (Property::List(before), Property::List(after)) => {
            let differences = elements(before, after);
            let changed = |difference: &Difference| !matches!(difference, Difference::Same(_));
            differences
                .iter()
                .any(changed)
                .then_some(Change::List(differences))
        }
        (Property::Object(before), Property::Object(after))
            if !before.contains_key(SIGNATURE_KEY) && !after.contains_key(SIGNATURE_KEY) =>
        {
            between(before, after).map(Change::Object)
        }
        _ if old == new => None,
        _ => Some(Change::Plain {
            old: old.clone(),
            new: new.clone(),
        }),
    }
}

fn elements(old: &[Property], new: &[Property]) -> Vec<Difference> {
    let both = old.iter().zip(new).map(|(before, after)| {
        change(before, after).map_or_else(|| Difference::Same(before.clone()), Difference::Update)
    });
    let deleted = old.iter().skip(new.len()).cloned().map(Difference::Delete);
    let added = new.iter().skip(old.len()).cloned().map(Difference::Add);
    both.chain(deleted).chain(added).collect()
}

/// Masks all secrets alike, so a comparison reveals nothing about them.
pub(super) fn masked(properties: &Properties) -> Properties {
    let own = properties.iter();
    own.map(|(name, value)| (name.clone(), masked_value(value)))
        .collect()
}

fn masked_value(value: &Property) -> Property {
    match value {
        Property::Secret(_) => Property::String(BLINDED.to_owned()).into_secret(),
        Property::List(values) => Property::List(values.iter().map(masked_value).collect()),
        Property::Object(entries) => Property::Object(masked(entries)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(value: serde_json::Value) -> Properties {
        match Property::from_json(value) {
            Property::Object(entries) => entries,
            _ => Properties::new(),
        }
    }

    #[test]
    fn difference_ignores_internal_properties() {
        let old = properties(json!({"a": 1, "__meta": "x"}));
        let new = properties(json!({"a": 1, "__meta": "y"}));
        assert_eq!(between(&old, &new), None);
    }

    #[test]
    fn difference_treats_null_as_absent() {
        let old = properties(json!({"a": null, "b": 1, "c": null}));
        let new = properties(json!({"a": 1, "b": null, "d": null}));
        let differences = between(&old, &new).unwrap();
        assert_eq!(
            differences,
            Differences::from([
                ("a".into(), Difference::Add(Property::from_json(json!(1)))),
                (
                    "b".into(),
                    Difference::Delete(Property::from_json(json!(1)))
                ),
            ])
        );
    }

    #[test]
    fn difference_of_masked_secrets_is_empty() {
        let secret = |text: &str| {
            Properties::from([(
                "a".to_owned(),
                Property::String(text.to_owned()).into_secret(),
            )])
        };
        assert!(between(&secret("one"), &secret("two")).is_some());
        assert_eq!(
            between(&masked(&secret("one")), &masked(&secret("two"))),
            None
        );
    }
}
