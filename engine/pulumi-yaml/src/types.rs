//! Static types of values.

use std::{collections::BTreeMap, fmt};

use crate::{Program, ResourceType, access::Accessor, text};

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Unknown: every operation is allowed
    Any,
    Bool,
    Number,
    Integer,
    String,
    Asset,
    Archive,
    List(Box<Type>),
    /// Any names, one type
    Map(Box<Type>),
    /// These names
    Object(BTreeMap<String, Type>),
    /// One of these
    Union(Vec<Type>),
    /// A resource: its outputs, if they are known
    Resource(Option<Vec<&'static str>>),
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("any"),
            Self::Bool => formatter.write_str("boolean"),
            Self::Number => formatter.write_str("number"),
            Self::Integer => formatter.write_str("integer"),
            Self::String => formatter.write_str("string"),
            Self::Asset => formatter.write_str("asset"),
            Self::Archive => formatter.write_str("archive"),
            Self::List(element) => write!(formatter, "List<{element}>"),
            Self::Map(element) => write!(formatter, "Map<{element}>"),
            Self::Object(properties) => {
                let names: Vec<_> = properties.keys().map(String::as_str).collect();
                write!(formatter, "{{{}}}", names.join(", "))
            }
            Self::Union(types) => {
                let names: Vec<_> = types.iter().map(ToString::to_string).collect();
                write!(formatter, "Union<{}>", names.join(", "))
            }
            Self::Resource(_) => formatter.write_str("resource"),
        }
    }
}

impl Type {
    /// The union of several types.
    #[must_use]
    pub fn union_of(types: Vec<Self>) -> Self {
        let mut different: Vec<Self> = Vec::new();
        for kind in types {
            if !different.contains(&kind) {
                different.push(kind);
            }
        }
        match <[Self; 1]>::try_from(different) {
            Ok([kind]) => kind,
            Err(none) if none.is_empty() => Self::Any,
            Err(several) => Self::Union(several),
        }
    }

    /// Whether a value of this type is accepted where `expected` is needed.
    #[must_use]
    pub fn fits(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Union(types), expected) => types.iter().all(|kind| kind.fits(expected)),
            (kind, Self::Union(types)) => types.iter().any(|expected| kind.fits(expected)),
            (Self::List(element), Self::List(expected))
            | (Self::Map(element), Self::Map(expected)) => element.fits(expected),
            (Self::Object(properties), Self::Map(expected)) => {
                properties.values().all(|property| property.fits(expected))
            }
            // Pulumi converts numbers, booleans and (by their URN) resources to strings
            (Self::Any, _)
            | (_, Self::Any)
            | (Self::Number | Self::Integer, Self::Number | Self::Integer)
            | (Self::Number | Self::Integer | Self::Bool | Self::Resource(_), Self::String)
            | (Self::Resource(_), Self::Resource(_)) => true,
            (kind, expected) => kind == expected,
        }
    }

    /// The type of a property of a value of this type. `path` names the value in errors.
    pub fn enter(&self, step: &Accessor, path: &str) -> Result<Self, String> {
        match (self, step) {
            (Self::Any, _) => Ok(Self::Any),
            (Self::Union(types), step) => {
                let inner = types.iter().map(|kind| kind.enter(step, path));
                inner.collect::<Result<_, _>>().map(Self::union_of)
            }
            (Self::Object(properties), Accessor::Name(name)) => {
                properties.get(name).cloned().ok_or_else(|| {
                    no_property(
                        name,
                        path,
                        &properties.keys().map(String::as_str).collect::<Vec<_>>(),
                    )
                })
            }
            (Self::Resource(outputs), Accessor::Name(name)) => {
                output(outputs.as_deref(), name, path)
            }
            (Self::Map(element), Accessor::Name(_) | Accessor::Key(_))
            | (Self::List(element), Accessor::Index(_)) => Ok((**element).clone()),
            (Self::List(_), _) => Err(format!(
                "a list element of {path} needs a number in brackets"
            )),
            (Self::Map(_), _) => Err(format!(
                "cannot index via number into {path}: it is a map, write a name"
            )),
            // as in Pulumi's checker: brackets are for lists and maps, not for literal objects
            (Self::Object(_) | Self::Resource(_), _) => Err(format!(
                "cannot index into {path}: write a name after a dot instead of {step}"
            )),
            (scalar, _) => Err(format!("cannot look into {path}: it is a {scalar}")),
        }
    }
}

fn output(outputs: Option<&[&str]>, name: &str, path: &str) -> Result<Type, String> {
    match outputs {
        _ if name == "id" || name == "urn" => Ok(Type::String),
        Some(outputs) if !outputs.contains(&name) => {
            let known: Vec<_> = outputs.iter().copied().chain(["id", "urn"]).collect();
            Err(no_property(name, path, &known))
        }
        _ => Ok(Type::Any),
    }
}

fn no_property(name: &str, path: &str, known: &[&str]) -> String {
    format!(
        "{name:?} does not exist on {path}{}; it has {}",
        text::did_you_mean(name, known.iter().copied()),
        known.join(", ")
    )
}

/// The resource types of a program: each token as written, with the resolved token and its schema.
#[derive(Debug, Default)]
pub struct ResourceTypes(BTreeMap<String, Result<(String, ResourceType), String>>);

impl ResourceTypes {
    /// Looks up the types of a program.
    pub fn of(program: &Program, look_up: &dyn Fn(&str) -> Result<ResourceType, String>) -> Self {
        let mut types = BTreeMap::new();
        for resource in &program.resources {
            if !types.contains_key(&resource.kind) {
                types.insert(resource.kind.clone(), resolve(&resource.kind, look_up));
            }
        }
        Self(types)
    }

    /// The type of a token.
    pub fn get(&self, token: &str) -> Result<&(String, ResourceType), &str> {
        match self.0.get(token) {
            Some(found) => found.as_ref().map_err(String::as_str),
            None => Err("unknown type"),
        }
    }
}

/// Resolves short tokens: `package:Type` is `package:index:Type`, and `package:module:Type`
/// may be `package:module/type:Type`.
fn resolve(
    token: &str,
    look_up: &dyn Fn(&str) -> Result<ResourceType, String>,
) -> Result<(String, ResourceType), String> {
    let error = match look_up(token) {
        Ok(found) => return Ok((token.to_owned(), found)),
        Err(error) => error,
    };
    let parts: Vec<_> = token.split(':').collect();
    let (package, module, name) = match parts.as_slice() {
        [package, name] => (*package, "index", *name),
        [package, module, name] => (*package, *module, *name),
        _ => return Err(format!("invalid type token {token:?}")),
    };
    let mut letters = name.chars();
    let lower = letters.next().map(|first| first.to_ascii_lowercase());
    let repeated: String = lower.into_iter().chain(letters).collect();
    [
        format!("{package}:{module}:{name}"),
        format!("{package}:{module}/{repeated}:{name}"),
    ]
    .into_iter()
    .find_map(|token| look_up(&token).ok().map(|found| (token, found)))
    .ok_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_type_short_tokens_resolve() {
        let look_up = |token: &str| match token {
            "a:index:Thing" | "b:index/thing:Thing" | "c:m:Thing" => Ok(ResourceType::default()),
            other => Err(format!("no {other}")),
        };
        for (token, expected) in [
            ("a:Thing", Ok("a:index:Thing")),
            ("b:Thing", Ok("b:index/thing:Thing")),
            ("b:index:Thing", Ok("b:index/thing:Thing")),
            ("c:m:Thing", Ok("c:m:Thing")),
            ("c:Thing", Err("no c:Thing")),
            ("Thing", Err("invalid type token \"Thing\"")),
        ] {
            let found = resolve(token, &look_up).map(|(token, _)| token);
            assert_eq!(
                found.as_deref().map_err(String::as_str),
                expected,
                "{token}"
            );
        }
    }

    #[test]
    fn type_fits_follow_pulumi_conversions() {
        let list = |kind| Type::List(Box::new(kind));
        for (value, expected, fits) in [
            (Type::Integer, Type::Number, true),
            (Type::Number, Type::String, true),
            (Type::String, Type::Number, false),
            (list(Type::Number), list(Type::Any), true),
            (Type::Map(Box::new(Type::Any)), list(Type::Any), false),
            (
                Type::Union(vec![Type::String, Type::Bool]),
                Type::String,
                true,
            ),
            (
                Type::Union(vec![Type::String, list(Type::Any)]),
                Type::String,
                false,
            ),
            (
                Type::Object([("a".into(), Type::String)].into()),
                Type::Map(Box::new(Type::String)),
                true,
            ),
        ] {
            assert_eq!(value.fits(&expected), fits, "{value} {expected}");
        }
    }
}
