//! Paths into properties, as `ignoreChanges` and `replaceOnChanges` have them: `a.b[0]["c"]`, with
//! `*` for all at one level. Pure.

use std::fmt;

use pulumi_engine_model::property::{Properties, Property};

/// A path; with wildcards it stands for many places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    parts: Vec<Segment>,
}

/// One level of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
    /// Every key or element.
    Any,
}

impl Path {
    /// Reads a path; `option` is for the message.
    pub fn parse(option: &str, text: &str) -> Result<Self, String> {
        let parts = parse(text)
            .map_err(|error| format!("{text:?} in {option} is no property path: {error}"))?;
        Ok(Self { parts })
    }

    /// The property it begins in; none if that may be any.
    #[must_use]
    pub fn root(&self) -> Option<&str> {
        match self.parts.first() {
            Some(Segment::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Its segments as strings.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |part: &Segment| match part {
            Segment::Key(key) => key.clone(),
            Segment::Index(index) => index.to_string(),
            Segment::Any => "*".to_owned(),
        };
        self.parts.iter().map(name).collect()
    }

    /// Whether another path is this one or below it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let matches = |(part, other): (&Segment, &Segment)| *part == Segment::Any || part == other;
        other.parts.len() >= self.parts.len() && self.parts.iter().zip(&other.parts).all(matches)
    }

    /// Copies the values at this path from `old` to `new`, or removes them. Returns false for list
    /// elements that were added or removed, which have no counterpart.
    pub fn keep(&self, old: &Properties, new: &mut Properties) -> bool {
        let mut whole = Property::Object(std::mem::take(new));
        let kept = keep(
            &self.parts,
            Some(&Property::Object(old.clone())),
            &mut whole,
            SecretContext::default(),
        );
        if let Property::Object(entries) = whole {
            *new = entries;
        }
        kept
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            match part {
                Segment::Index(index) => write!(formatter, "[{index}]")?,
                Segment::Key(key) if !is_word(key) => {
                    write!(formatter, "[\"{}\"]", key.replace('"', "\\\""))?;
                }
                Segment::Key(key) if number == 0 => formatter.write_str(key)?,
                Segment::Key(key) => write!(formatter, ".{key}")?,
                Segment::Any => formatter.write_str("[\"*\"]")?,
            }
        }
        Ok(())
    }
}

fn is_word(key: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    key.chars().all(letter)
}

fn parse(text: &str) -> Result<Vec<Segment>, &'static str> {
    if text.starts_with('.') {
        return Err("it must start with a name or an index");
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                return Err("it must end with a name or an index");
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (part, after) = bracketed(after)?;
            parts.push(part);
            rest = after;
        } else {
            let (name, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            parts.push(key(name));
            rest = after;
        }
    }
    Ok(parts)
}

/// Parses a segment in brackets, and returns what follows it.
fn bracketed(text: &str) -> Result<(Segment, &str), &'static str> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, after) = pulumi_yaml::access::parse_quoted(quoted)?;
        let after = after.strip_prefix(']');
        return Ok((key(&name), after.ok_or("a closing bracket is missing")?));
    }
    let (index, after) = text.split_once(']').ok_or("a closing bracket is missing")?;
    if index == "*" {
        return Ok((Segment::Any, after));
    }
    let index = index.parse().map_err(|_| "an index must be a number")?;
    Ok((Segment::Index(index), after))
}

fn key(name: &str) -> Segment {
    if name == "*" {
        Segment::Any
    } else {
        Segment::Key(name.to_owned())
    }
}

/// Whether the values around the current one are secret.
#[derive(Debug, Clone, Copy, Default)]
struct SecretContext {
    old: bool,
    new: bool,
}

impl SecretContext {
    /// An old value for the new properties. A secret stays secret.
    fn carry(self, value: &Property) -> Property {
        if self.old && !self.new {
            value.clone().into_secret()
        } else {
            value.clone()
        }
    }
}

fn keep(
    parts: &[Segment],
    old: Option<&Property>,
    new: &mut Property,
    mut sealed: SecretContext,
) -> bool {
    let mut old = old;
    while let Some(Property::Secret(inner)) = old {
        (old, sealed.old) = (Some(&**inner), true);
    }
    let mut new = new;
    while let Property::Secret(inner) = new {
        (new, sealed.new) = (inner, true);
    }
    match parts {
        [] => false,
        [last] => keep_last(last, old, new, sealed),
        [first, rest @ ..] => match (first, old, new) {
            (Segment::Key(key), Some(Property::Object(old)), Property::Object(new)) => {
                match (old.get(key), new.get_mut(key)) {
                    (old, Some(new)) => keep(rest, old, new, sealed),
                    (old, None) => old.is_none(),
                }
            }
            (Segment::Index(index), Some(Property::List(old)), Property::List(new)) => {
                match (old.get(*index), new.get_mut(*index)) {
                    (Some(old), Some(new)) => keep(rest, Some(old), new, sealed),
                    _ => false,
                }
            }
            (Segment::Any, Some(Property::Object(old)), Property::Object(new)) => {
                old.iter().all(|(key, old)| {
                    new.get_mut(key)
                        .is_some_and(|new| keep(rest, Some(old), new, sealed))
                })
            }
            (Segment::Any, Some(Property::List(old)), Property::List(new)) => {
                let alike = old.len() == new.len();
                let kept = old
                    .iter()
                    .zip(new)
                    .all(|(old, new)| keep(rest, Some(old), new, sealed));
                kept && alike
            }
            // a path that neither has is unchanged
            (Segment::Key(_), old, new) => !is_object(old) && !is_object(Some(new)),
            (Segment::Index(_), old, new) => !is_list(old) && !is_list(Some(new)),
            (Segment::Any, ..) => false,
        },
    }
}

fn keep_last(
    part: &Segment,
    old: Option<&Property>,
    new: &mut Property,
    sealed: SecretContext,
) -> bool {
    match (part, old, new) {
        (Segment::Key(key), old, Property::Object(new)) => {
            let value = match old {
                Some(Property::Object(old)) => old.get(key),
                _ => None,
            };
            match value {
                Some(value) => _ = new.insert(key.clone(), sealed.carry(value)),
                None => _ = new.remove(key),
            }
            true
        }
        (Segment::Key(key), Some(Property::Object(old)), _) => !old.contains_key(key),
        (Segment::Key(_), ..) => true,
        (Segment::Index(index), Some(Property::List(old)), Property::List(new)) => {
            match (old.get(*index), new.get_mut(*index)) {
                (Some(old), Some(new)) => *new = sealed.carry(old),
                (None, None) => {}
                _ => return false,
            }
            true
        }
        (Segment::Index(_), old, new) => !is_list(old) && !is_list(Some(new)),
        (Segment::Any, Some(Property::Object(old)), Property::Object(new)) => {
            let carried = old.iter();
            *new = carried
                .map(|(key, value)| (key.clone(), sealed.carry(value)))
                .collect();
            true
        }
        (Segment::Any, Some(Property::List(old)), Property::List(new)) => {
            for (old, new) in old.iter().zip(new.iter_mut()) {
                *new = sealed.carry(old);
            }
            old.len() == new.len()
        }
        (Segment::Any, _, new) => is_object(Some(new)) || is_list(Some(new)),
    }
}

fn is_object(value: Option<&Property>) -> bool {
    matches!(value, Some(Property::Object(_)))
}

fn is_list(value: Option<&Property>) -> bool {
    matches!(value, Some(Property::List(_)))
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
    fn path_display_is_canonical() {
        for (text, expected) in [
            ("input", "input"),
            ("input.x[0]", "input.x[0]"),
            (r#"["input"]["x"][1].y_2"#, "input.x[1].y_2"),
            (r#"input["a.b"]"#, r#"input["a.b"]"#),
            (r#"["a\"b"].c"#, r#"["a\"b"].c"#),
            ("input.*", r#"input["*"]"#),
        ] {
            let path = Path::parse("", text).unwrap();
            assert_eq!(path.to_string(), expected, "{text}");
            assert_eq!(Path::parse("", expected), Ok(path), "{text}");
        }
    }

    #[test]
    fn path_keep_restores_old_value() {
        let old = json!({"m": {"a": 1, "l": [1, 2]}, "s": "x", "o": [{"k": 1, "v": 1}, {"k": 2, "v": 2}]});
        for (path, new, expected, kept) in [
            ("m.a", json!({"m": {"a": 2}}), json!({"m": {"a": 1}}), true),
            ("m[\"a\"]", json!({"m": {}}), json!({"m": {"a": 1}}), true),
            (
                "m.l[1]",
                json!({"m": {"l": [3, 4]}}),
                json!({"m": {"l": [3, 2]}}),
                true,
            ),
            (
                "m.l[1]",
                json!({"m": {"l": []}}),
                json!({"m": {"l": []}}),
                false,
            ),
            (
                "m.new",
                json!({"m": {"new": 1, "b": 2}}),
                json!({"m": {"b": 2}}),
                true,
            ),
            ("s", json!({}), json!({"s": "x"}), true),
            ("t", json!({"t": 1}), json!({}), true),
            ("m.a", json!({"m": 5}), json!({"m": 5}), false),
            ("*", json!({"s": "y", "z": 1}), old.clone(), true),
            (
                "m.*",
                json!({"m": {"a": 2, "b": 3}}),
                json!({"m": {"a": 1, "l": [1, 2]}}),
                true,
            ),
            (
                "o[*].v",
                json!({"o": [{"k": 3, "v": 3}, {"k": 4, "v": 4}]}),
                json!({"o": [{"k": 3, "v": 1}, {"k": 4, "v": 2}]}),
                true,
            ),
            (
                "o[*].v",
                json!({"o": [{"k": 3, "v": 3}]}),
                json!({"o": [{"k": 3, "v": 1}]}),
                false,
            ),
            (
                "m.l[*]",
                json!({"m": {"l": [9, 9]}}),
                json!({"m": {"l": [1, 2]}}),
                true,
            ),
        ] {
            let mut new = properties(new);
            let path = Path::parse("ignoreChanges", path).unwrap();
            assert_eq!(
                path.keep(&properties(old.clone()), &mut new),
                kept,
                "{path:?}"
            );
            assert_eq!(new, properties(expected), "{path:?}");
        }
        assert!(
            Path::parse("ignoreChanges", "m[")
                .unwrap_err()
                .contains("no property path")
        );
    }

    #[test]
    fn path_keep_preserves_secrecy() {
        let old = Properties::from([(
            "m".to_owned(),
            Property::from_json(json!({"a": 1})).into_secret(),
        )]);
        let mut new = properties(json!({"m": {"a": 2, "b": 3}}));
        assert!(Path::parse("", "m.a").unwrap().keep(&old, &mut new));
        let kept = Property::from_json(json!(1)).into_secret();
        let b = Property::from_json(json!(3));
        let expected = Properties::from([("a".to_owned(), kept), ("b".to_owned(), b)]);
        assert_eq!(new.get("m"), Some(&Property::Object(expected)));
    }

    #[test]
    fn path_contains_paths_below_it() {
        for (path, other, contained) in [
            ("a", "a.b[0]", true),
            ("a.b", "a", false),
            ("*", "a.b", true),
            ("a[*].c", "a[3].c", true),
            ("a[*].c", "a[3].d", false),
            ("a[\"*\"]", "a.b", true),
        ] {
            let parsed = |text| Path::parse("", text).unwrap();
            assert_eq!(
                parsed(path).contains(&parsed(other)),
                contained,
                "{path} {other}"
            );
        }
    }
}
