//! The definition of a resource type: inputs, generation, import.

use pulumi_engine_model::property::{Properties, Property};
use serde_json::Number;

use super::settings::RandomInputs;
use crate::{CheckFailure, ProviderError};

/// The largest number of characters, bytes, words or entries of a result, so a typo does not
/// exhaust memory.
pub(super) const MOST: i64 = 1_048_576;

/// A resource type.
pub(super) trait Resource: Sync {
    /// Its canonical token, as in states.
    fn token(&self) -> &'static str;

    /// Its inputs. A change of any of them replaces it.
    fn inputs(&self) -> &'static [Input];

    /// The generated outputs, besides the inputs.
    fn generated(&self) -> &'static [Generated];

    /// The schema version of Pulumi's plugin, if it has one.
    fn schema_version(&self) -> Option<u8> {
        None
    }

    /// Whether `id` is one of the outputs too.
    fn shows_id(&self) -> bool {
        true
    }

    /// Sets inputs that follow from others.
    fn complete(&self, _values: &mut Properties) {}

    /// Failures that concern several inputs.
    fn problems(&self, _settings: &RandomInputs) -> Vec<CheckFailure> {
        Vec::new()
    }

    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError>;

    /// Imports one by its id.
    fn import(&self, id: &str) -> Result<Imported, ProviderError>;
}

pub(super) struct GeneratedResource {
    pub id: String,
    /// Values of [`Resource::generated`].
    pub generated: Vec<(&'static str, Property)>,
}

/// An imported resource.
pub(super) struct Imported {
    pub settings: Properties,
    pub made: GeneratedResource,
}

/// A generated output.
pub(super) struct Generated {
    pub name: &'static str,
    /// Whether it is always secret.
    pub secret: bool,
}

impl Generated {
    pub(super) const fn open(name: &'static str) -> Self {
        Self {
            name,
            secret: false,
        }
    }

    pub(super) const fn secret(name: &'static str) -> Self {
        Self { name, secret: true }
    }
}

pub(super) struct Input {
    pub name: &'static str,
    pub shape: Shape,
    pub absence: Absence,
    /// Its description, for messages.
    pub meaning: &'static str,
}

impl Input {
    pub(super) const fn required(name: &'static str, shape: Shape, meaning: &'static str) -> Self {
        Self {
            name,
            shape,
            absence: Absence::Refused,
            meaning,
        }
    }

    pub(super) const fn optional(name: &'static str, shape: Shape, meaning: &'static str) -> Self {
        Self {
            name,
            shape,
            absence: Absence::Fine,
            meaning,
        }
    }

    pub(super) const fn or(mut self, default: Fallback) -> Self {
        self.absence = Absence::Default(default);
        self
    }
}

/// The input of every resource whose change replaces it.
pub(super) const KEEPERS: Input = Input::optional(
    "keepers",
    Shape::TextMap,
    "values that make it anew when they change",
);

/// The type of an input.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A whole number within bounds.
    Integer {
        least: i64,
        most: i64,
    },
    /// `true` or `false`
    Boolean,
    Text,
    /// A list of texts.
    Texts,
    TextMap,
}

/// What a missing input means.
#[derive(Clone, Copy)]
pub(super) enum Absence {
    /// An error.
    Refused,
    Fine,
    Default(Fallback),
}

/// A default value.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    /// A whole number.
    Integer(i64),
    /// `true` or `false`
    Boolean(bool),
    Text(&'static str),
}

impl Fallback {
    pub(super) fn property(self) -> Property {
        match self {
            Self::Integer(value) => integer(value),
            Self::Boolean(value) => Property::Bool(value),
            Self::Text(value) => text(value),
        }
    }
}

/// A whole number as a property.
pub(super) fn integer(value: i64) -> Property {
    Property::Number(Number::from(value))
}

pub(super) fn text(value: impl Into<String>) -> Property {
    Property::String(value.into())
}

pub(super) fn failure(property: &str, reason: impl Into<String>) -> CheckFailure {
    CheckFailure {
        property: property.to_owned(),
        reason: reason.into(),
    }
}

/// The error that a type cannot be imported.
pub(super) fn not_importable(token: &str) -> ProviderError {
    ProviderError::Failed(format!(
        "resources of type {token} can't be imported: their arguments are unknown; leave out `import` and let a new \
         one be made"
    ))
}

/// The error about a malformed import id.
pub(super) fn bad_import(token: &str, form: &str) -> ProviderError {
    ProviderError::Failed(format!("to import a {token}, give {form} as its id"))
}
