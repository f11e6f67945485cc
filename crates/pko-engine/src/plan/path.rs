//! Paths into inputs, as `ignoreChanges` and `replaceOnChanges` have them: `a.b[0]["c"]`. Pure.

use crate::{
    program::access::{self, Accessor},
    property::{Properties, Property},
};

/// A path that names one place.
#[derive(Debug, PartialEq)]
pub struct Path {
    root: String,
    steps: Vec<Accessor>,
}

impl Path {
    /// Reads a path; `option` is for the message.
    pub fn parse(option: &str, text: &str) -> Result<Self, String> {
        if text.contains('*') {
            return Err(format!(
                "{option} with a wildcard inside a path ({text:?}) is not supported by pulumi-engine; name each place, or \"*\" for all"
            ));
        }
        let access = access::parse_path(text)
            .map_err(|error| format!("{text:?} in {option} is no property path: {error}"))?;
        Ok(Self {
            root: access.root,
            steps: access.steps,
        })
    }

    /// The input it begins in.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// What is there.
    #[must_use]
    pub fn find<'a>(&self, properties: &'a Properties) -> Option<&'a Property> {
        let mut found = properties.get(&self.root)?;
        for step in &self.steps {
            found = enter(found, step)?;
        }
        Some(found)
    }

    /// Makes this place in `new` as it is in `old`: with the old value, or without one.
    pub fn keep(&self, old: &Properties, new: &mut Properties) {
        let value = self.find(old).cloned();
        let Some((last, way)) = self.steps.split_last() else {
            match value {
                Some(value) => _ = new.insert(self.root.clone(), value),
                None => _ = new.remove(&self.root),
            }
            return;
        };
        let mut place = new.get_mut(&self.root);
        for step in way {
            place = place.and_then(|place| enter_mut(place, step));
        }
        match (place.map(opened), last, value) {
            (
                Some(Property::Object(entries)),
                Accessor::Name(key) | Accessor::Key(key),
                Some(value),
            ) => {
                entries.insert(key.clone(), value);
            }
            (Some(Property::Object(entries)), Accessor::Name(key) | Accessor::Key(key), None) => {
                entries.remove(key);
            }
            (Some(Property::List(values)), Accessor::Index(index), Some(value)) => {
                if let Some(place) = values.get_mut(*index) {
                    *place = value;
                }
            }
            // where there is no such place in the new inputs, there is nothing to keep
            _ => {}
        }
    }
}

fn enter<'a>(value: &'a Property, step: &Accessor) -> Option<&'a Property> {
    match (value, step) {
        (Property::Secret(inner), _) => enter(inner, step),
        (Property::Object(entries), Accessor::Name(key) | Accessor::Key(key)) => entries.get(key),
        (Property::List(values), Accessor::Index(index)) => values.get(*index),
        _ => None,
    }
}

fn enter_mut<'a>(value: &'a mut Property, step: &Accessor) -> Option<&'a mut Property> {
    match (opened(value), step) {
        (Property::Object(entries), Accessor::Name(key) | Accessor::Key(key)) => {
            entries.get_mut(key)
        }
        (Property::List(values), Accessor::Index(index)) => values.get_mut(*index),
        _ => None,
    }
}

fn opened(value: &mut Property) -> &mut Property {
    match value {
        Property::Secret(inner) => opened(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn properties(value: Value) -> Properties {
        match Property::from_json(value) {
            Property::Object(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_place_stays_as_it_was() {
        let old = json!({"m": {"a": 1, "l": [1, 2]}, "s": "x"});
        for (path, new, expected) in [
            ("m.a", json!({"m": {"a": 2}}), json!({"m": {"a": 1}})),
            ("m[\"a\"]", json!({"m": {}}), json!({"m": {"a": 1}})),
            (
                "m.l[1]",
                json!({"m": {"l": [3, 4]}}),
                json!({"m": {"l": [3, 2]}}),
            ),
            ("m.l[1]", json!({"m": {"l": []}}), json!({"m": {"l": []}})),
            (
                "m.new",
                json!({"m": {"new": 1, "b": 2}}),
                json!({"m": {"b": 2}}),
            ),
            ("s", json!({}), json!({"s": "x"})),
            ("t", json!({"t": 1}), json!({})),
            ("m.a", json!({"m": 5}), json!({"m": 5})),
        ] {
            let mut new = properties(new);
            let path = Path::parse("ignoreChanges", path).unwrap();
            path.keep(&properties(old.clone()), &mut new);
            assert_eq!(new, properties(expected), "{path:?}");
        }
        assert!(
            Path::parse("ignoreChanges", "m.*")
                .unwrap_err()
                .contains("wildcard")
        );
        assert!(
            Path::parse("ignoreChanges", "m[")
                .unwrap_err()
                .contains("no property path")
        );
    }
}
