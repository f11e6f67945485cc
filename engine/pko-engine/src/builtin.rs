//! The resource types this engine has: those that Pulumi's CLI has built in. Pure.

use crate::property::{Properties, Property};
use pulumi_yaml::ResourceType;

/// Type token of a resource that remembers the first value it was given.
pub const STASH: &str = "pulumi:index:Stash";
/// Type token of a resource that reads the outputs of another stack.
pub const STACK_REFERENCE: &str = "pulumi:pulumi:StackReference";
/// The package of both.
pub const PACKAGE: &str = "pulumi";
/// The types, for messages.
pub const TYPES: [&str; 2] = [STASH, STACK_REFERENCE];

/// A built-in type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`STASH`]
    Stash,
    /// [`STACK_REFERENCE`]
    StackReference,
}

impl Kind {
    /// The type of a token.
    #[must_use]
    pub fn of(token: &str) -> Option<Self> {
        match token {
            STASH => Some(Self::Stash),
            STACK_REFERENCE => Some(Self::StackReference),
            _ => None,
        }
    }

    /// Its one input.
    #[must_use]
    pub fn input(self) -> &'static str {
        match self {
            Self::Stash => "input",
            Self::StackReference => "name",
        }
    }

    /// Its outputs.
    #[must_use]
    pub fn outputs(self) -> &'static [&'static str] {
        match self {
            Self::Stash => &["input", "output"],
            Self::StackReference => &["name", "outputs", "secretOutputNames"],
        }
    }
}

/// What a program may say of resources of a built-in type.
pub fn resource_type(token: &str) -> Result<ResourceType, String> {
    let kind = Kind::of(token).ok_or_else(|| {
        format!(
            "type {token:?} needs a provider plugin, and pulumi-engine runs none; it has {}",
            TYPES.join(" and ")
        )
    })?;
    Ok(ResourceType {
        inputs: Some(vec![kind.input()]),
        required: match kind {
            Kind::Stash => vec!["input"],
            // its name within the program is the name of the stack, if nothing else is said
            Kind::StackReference => Vec::new(),
        },
        outputs: Some(kind.outputs().to_vec()),
        ..ResourceType::default()
    })
}

/// Outputs of a new stash: what it was given, twice.
#[must_use]
pub fn created_stash(inputs: &Properties) -> Properties {
    let input = inputs.get("input").cloned().unwrap_or(Property::Null);
    Properties::from([
        ("input".to_owned(), input.clone()),
        ("output".to_owned(), input),
    ])
}

/// Outputs of an updated stash: it still holds what it was given first.
#[must_use]
pub fn updated_stash(inputs: &Properties, old_outputs: &Properties) -> Properties {
    let input = inputs.get("input").cloned().unwrap_or(Property::Null);
    let output = old_outputs.get("output").cloned().unwrap_or(Property::Null);
    Properties::from([("input".to_owned(), input), ("output".to_owned(), output)])
}

/// Outputs of a reference to another stack.
#[must_use]
pub fn stack_reference(name: &Property, outputs: Properties) -> Properties {
    let secrets = outputs
        .iter()
        .filter(|(_, value)| value.contains_secret())
        .map(|(key, _)| Property::String(key.clone()))
        .collect();
    Properties::from([
        ("name".to_owned(), name.clone()),
        ("outputs".to_owned(), Property::Object(outputs)),
        ("secretOutputNames".to_owned(), Property::List(secrets)),
    ])
}
