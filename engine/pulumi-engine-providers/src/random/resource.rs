//! What each resource of the package is: its inputs, what it makes of them, and how one is imported. Pure but for the
//! randomness that `generate` asks for.

use pulumi_engine_model::property::{Properties, Property};
use serde_json::Number;

use super::settings::RandomInputs;
use crate::{CheckFailure, ProviderError};

/// The most characters, bytes, words or entries of one result. Nobody needs more, and a slip of the keyboard must not
/// take all memory.
pub(super) const MOST: i64 = 1_048_576;

/// A resource type.
pub(super) trait Resource: Sync {
    /// Its canonical token, which states hold.
    fn token(&self) -> &'static str;

    /// Its inputs. A change of any of them makes it anew.
    fn inputs(&self) -> &'static [Input];

    /// What is made, besides the inputs that come back as outputs.
    fn generated(&self) -> &'static [Generated];

    /// The version of its outputs that Pulumi's plugin writes, if it has one.
    fn schema_version(&self) -> Option<u8> {
        None
    }

    /// Whether `id` is one of the outputs too.
    fn shows_id(&self) -> bool {
        true
    }

    /// Fills in inputs that follow from others.
    fn complete(&self, _values: &mut Properties) {}

    /// What is wrong with inputs that are each fine.
    fn problems(&self, _settings: &RandomInputs) -> Vec<CheckFailure> {
        Vec::new()
    }

    /// Makes one.
    fn generate(&self, settings: &RandomInputs) -> Result<GeneratedResource, ProviderError>;

    /// One that was made elsewhere, by the text that stands for it.
    fn import(&self, id: &str) -> Result<Imported, ProviderError>;
}

/// What was made.
pub(super) struct GeneratedResource {
    pub id: String,
    /// Values of [`Resource::generated`].
    pub generated: Vec<(&'static str, Property)>,
}

/// What was made elsewhere.
pub(super) struct Imported {
    /// Inputs that would make such a one.
    pub settings: Properties,
    /// What it has.
    pub made: GeneratedResource,
}

/// An output that is made.
pub(super) struct Generated {
    pub name: &'static str,
    /// Whether it is a secret whatever the inputs are.
    pub secret: bool,
}

impl Generated {
    /// One that may be shown.
    pub(super) const fn open(name: &'static str) -> Self {
        Self {
            name,
            secret: false,
        }
    }

    /// One that must not be shown.
    pub(super) const fn secret(name: &'static str) -> Self {
        Self { name, secret: true }
    }
}

pub(super) struct Input {
    pub name: &'static str,
    /// What it looks like.
    pub shape: Shape,
    /// What holds if it is not given.
    pub absence: Absence,
    /// What it means, for messages.
    pub meaning: &'static str,
}

impl Input {
    /// One that must be given.
    pub(super) const fn required(name: &'static str, shape: Shape, meaning: &'static str) -> Self {
        Self {
            name,
            shape,
            absence: Absence::Refused,
            meaning,
        }
    }

    /// One that may be left out.
    pub(super) const fn optional(name: &'static str, shape: Shape, meaning: &'static str) -> Self {
        Self {
            name,
            shape,
            absence: Absence::Fine,
            meaning,
        }
    }

    /// The same with a default.
    pub(super) const fn or(mut self, default: Fallback) -> Self {
        self.absence = Absence::Default(default);
        self
    }
}

/// The map that every resource has: what makes it anew when it changes.
pub(super) const KEEPERS: Input = Input::optional(
    "keepers",
    Shape::TextMap,
    "values that make it anew when they change",
);

/// What an input looks like.
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

/// What holds if an input is not given.
#[derive(Clone, Copy)]
pub(super) enum Absence {
    /// It must be given.
    Refused,
    /// Nothing.
    Fine,
    /// This value.
    Default(Fallback),
}

/// A value that is taken where none is given.
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

/// What is wrong with an input.
pub(super) fn failure(property: &str, reason: impl Into<String>) -> CheckFailure {
    CheckFailure {
        property: property.to_owned(),
        reason: reason.into(),
    }
}

/// Says that a type can't be imported.
pub(super) fn not_importable(token: &str) -> ProviderError {
    ProviderError::Failed(format!(
        "resources of type {token} can't be imported: nothing tells what made them; leave out `import` and let a new \
         one be made"
    ))
}

/// Says what the text to import by looks like.
pub(super) fn bad_import(token: &str, form: &str) -> ProviderError {
    ProviderError::Failed(format!("to import a {token}, give {form} as its id"))
}
