//! Values of an evaluation: plain ones, and outputs with dependencies and secrecy.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Number;

use pulumi_engine_model::{
    property::{Properties, Property, RESOURCE_SIGNATURE, SIGNATURE_KEY},
    urn::Urn,
};

/// A value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
    /// A value with dependencies or secrecy
    Output(Box<Output>),
    /// A resource itself, for options
    Resource(Box<ResourceValue>),
}

/// A value that comes from a resource, is secret, or is unknown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    /// The value; none if a preview cannot know it.
    pub value: Option<Value>,
    pub secret: bool,
    /// Resources that it depends on.
    pub dependencies: BTreeSet<Urn>,
}

/// A registered resource.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResourceValue {
    pub urn: Urn,
    /// Its id; none while a preview has not created it.
    pub id: Option<String>,
    /// Name within the URN.
    pub name: String,
    /// Type token.
    pub kind: String,
    pub outputs: Properties,
    /// Whether missing outputs are unknown.
    pub partial: bool,
}

impl ResourceValue {
    /// The resource as a value, in the representation of states and events.
    fn reference(&self) -> Property {
        let text = |key: &str, value: &str| (key.to_owned(), Property::String(value.to_owned()));
        let id = match &self.id {
            Some(id) => Property::String(id.clone()),
            None => Property::Unknown,
        };
        Property::Object(
            [
                text(SIGNATURE_KEY, RESOURCE_SIGNATURE),
                text("urn", self.urn.as_str()),
                ("id".to_owned(), id),
                text("packageVersion", ""),
            ]
            .into(),
        )
    }
}

/// A plain value, with the dependencies and secrecy of all its parts.
pub(super) struct FlatValue {
    /// The plain value; none if any part of it is unknown.
    pub value: Option<Value>,
    /// Whether any part was secret.
    pub secret: bool,
    /// Resources of all parts.
    pub dependencies: BTreeSet<Urn>,
    /// Whether any part was an output.
    pub lifted: bool,
}

impl Value {
    /// From JSON without secrets.
    #[must_use]
    #[cfg(test)]
    pub(super) fn from_json(value: serde_json::Value) -> Self {
        Self::from_property(&Property::from_json(value), &BTreeSet::new())
    }

    /// From a property; secrets and unknowns become outputs.
    #[must_use]
    pub(super) fn from_property(property: &Property, dependencies: &BTreeSet<Urn>) -> Self {
        match property {
            Property::Null => Self::Null,
            Property::Bool(value) => Self::Bool(*value),
            Property::Number(value) => Self::Number(pulumi_yaml::text::as_float(value)),
            Property::String(value) => Self::String(value.clone()),
            Property::List(values) => Self::List(
                values
                    .iter()
                    .map(|value| Self::from_property(value, dependencies))
                    .collect(),
            ),
            Property::Object(entries) => Self::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from_property(value, dependencies)))
                    .collect(),
            ),
            Property::Secret(inner) => Self::Output(Box::new(Output {
                value: Some(Self::from_property(inner, dependencies)),
                secret: true,
                dependencies: dependencies.clone(),
            })),
            Property::Unknown => Self::unknown(dependencies.clone()),
        }
    }

    /// An unknown value.
    #[must_use]
    pub(super) fn unknown(dependencies: BTreeSet<Urn>) -> Self {
        Self::Output(Box::new(Output {
            value: None,
            secret: false,
            dependencies,
        }))
    }

    /// Converts to a property. Secrets stay in place. As in Pulumi, nulls in maps are dropped.
    pub(super) fn to_property(&self) -> Result<Property, String> {
        Ok(match self {
            Self::Null => Property::Null,
            Self::Bool(value) => Property::Bool(*value),
            Self::Number(value) => Property::Number(value.clone()),
            Self::String(value) => Property::String(value.clone()),
            Self::List(values) => Property::List(
                values
                    .iter()
                    .map(Self::to_property)
                    .collect::<Result<_, _>>()?,
            ),
            Self::Object(entries) => Property::Object(
                entries
                    .iter()
                    .filter(|(_, value)| !matches!(value, Self::Null))
                    .map(|(key, value)| Ok((key.clone(), value.to_property()?)))
                    .collect::<Result<_, String>>()?,
            ),
            Self::Output(output) => {
                let inner = match &output.value {
                    Some(value) => value.to_property()?,
                    None => Property::Unknown,
                };
                if output.secret {
                    inner.into_secret()
                } else {
                    inner
                }
            }
            Self::Resource(resource) => resource.reference(),
        })
    }

    /// All resources that this value depends on.
    #[must_use]
    pub(super) fn dependencies(&self) -> BTreeSet<Urn> {
        self.flatten().dependencies
    }

    /// Separates the plain value from dependencies and secrecy.
    #[must_use]
    pub(super) fn flatten(&self) -> FlatValue {
        let mut flat = FlatValue {
            value: None,
            secret: false,
            dependencies: BTreeSet::new(),
            lifted: false,
        };
        flat.value = self.flatten_into(&mut flat);
        flat
    }

    fn flatten_into(&self, flat: &mut FlatValue) -> Option<Self> {
        match self {
            // every part is visited, because its dependencies count even if another part is unknown
            Self::List(values) => {
                let parts: Vec<_> = values
                    .iter()
                    .map(|value| value.flatten_into(flat))
                    .collect();
                parts.into_iter().collect::<Option<_>>().map(Self::List)
            }
            Self::Object(entries) => {
                let parts: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| value.flatten_into(flat).map(|value| (key.clone(), value)))
                    .collect();
                parts.into_iter().collect::<Option<_>>().map(Self::Object)
            }
            Self::Output(output) => {
                flat.lifted = true;
                flat.secret |= output.secret;
                flat.dependencies
                    .extend(output.dependencies.iter().cloned());
                output
                    .value
                    .as_ref()
                    .and_then(|value| value.flatten_into(flat))
            }
            Self::Resource(resource) => {
                flat.dependencies.insert(resource.urn.clone());
                Some(self.clone())
            }
            plain => Some(plain.clone()),
        }
    }

    /// Applies `function` to the plain value. The result keeps dependencies and secrecy.
    pub(super) fn lift(
        &self,
        function: impl FnOnce(Self) -> Result<Self, String>,
    ) -> Result<Self, String> {
        let flat = self.flatten();
        let result = flat.value.map(function).transpose()?;
        if !flat.lifted {
            return Ok(result.unwrap_or(Self::Null));
        }
        Ok(Self::Output(Box::new(Output {
            value: result,
            secret: flat.secret,
            dependencies: flat.dependencies,
        })))
    }

    /// The plain value as JSON: for values that [`Value::flatten`] made.
    #[must_use]
    pub(super) fn plain_json(&self) -> serde_json::Value {
        match self {
            Self::List(values) => values.iter().map(Self::plain_json).collect(),
            Self::Object(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), value.plain_json()))
                .collect(),
            scalar => scalar
                .to_property()
                .map_or(serde_json::Value::Null, |property| property.revealed()),
        }
    }

    /// Its type, for messages.
    #[must_use]
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Output(_) => "an output",
            Self::Resource(_) => "a resource",
        }
    }
}
