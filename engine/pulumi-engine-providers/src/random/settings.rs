//! Typed inputs with defaults.

use pulumi_engine_model::property::{Properties, Property};
use pulumi_yaml::text::from_float;
use serde_json::Number;

use super::resource::{Absence, Input, Resource, Shape, failure, integer, text};
use crate::{CheckFailure, ProviderError};

/// Inputs of the right type, with defaults. Secrets and unknown values are preserved.
pub(super) struct RandomInputs {
    values: Properties,
}

impl RandomInputs {
    /// Converts inputs of a program or state. Returns failures for invalid ones, which are dropped.
    pub(super) fn read(resource: &dyn Resource, given: &Properties) -> (Self, Vec<CheckFailure>) {
        let mut values = Properties::new();
        let mut failures = Vec::new();
        for input in resource.inputs() {
            match value(input, given.get(input.name)) {
                Ok(Property::Null) => {}
                Ok(value) => {
                    values.insert(input.name.to_owned(), value);
                }
                Err(reason) => failures.push(failure(input.name, reason)),
            }
        }
        resource.complete(&mut values);
        (Self { values }, failures)
    }

    /// The inputs of an imported resource.
    pub(super) fn imported(values: Properties) -> Self {
        Self { values }
    }

    pub(super) fn values(&self) -> &Properties {
        &self.values
    }

    /// Whether an input besides keepers is secret, which makes the outputs secret.
    pub(super) fn taint(&self) -> bool {
        self.values
            .iter()
            .any(|(name, value)| name != "keepers" && value.contains_secret())
    }

    fn plain(&self, name: &str) -> Option<&Property> {
        let mut value = self.values.get(name)?;
        while let Property::Secret(inner) = value {
            value = inner;
        }
        Some(value)
    }

    /// Whether it is given, known or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// An integer, if it is given and known.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.plain(name)? {
            Property::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// A required integer.
    pub(super) fn required_integer(&self, name: &str) -> Result<i64, ProviderError> {
        self.integer(name)
            .ok_or_else(|| ProviderError::Failed(format!("the property '{name}' must be given")))
    }

    /// A count; at least zero.
    pub(super) fn count(&self, name: &str) -> Result<usize, ProviderError> {
        let count = self.required_integer(name)?;
        usize::try_from(count)
            .map_err(|_| ProviderError::Failed(format!("the property '{name}' must be at least 0")))
    }

    /// `true` or `false`, if it is given and known.
    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        match self.plain(name)? {
            Property::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A string, if it is given and known.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.plain(name)? {
            Property::String(value) => Some(value),
            _ => None,
        }
    }

    /// A list, if it is given and known; its entries may be secret.
    pub(super) fn list(&self, name: &str) -> Option<&[Property]> {
        match self.plain(name)? {
            Property::List(values) => Some(values),
            _ => None,
        }
    }
}

fn value(input: &Input, given: Option<&Property>) -> Result<Property, String> {
    let converted = match given {
        Some(given) => convert(input.shape, given)?,
        None => Property::Null,
    };
    match (converted, input.absence) {
        (Property::Null, Absence::Refused) => {
            Err(format!("is required and missing: {}", input.meaning))
        }
        (Property::Null, Absence::Default(default)) => Ok(default.property()),
        (converted, _) => Ok(converted),
    }
}

/// Converts between strings, numbers and booleans as Pulumi's plugin does.
fn convert(shape: Shape, given: &Property) -> Result<Property, String> {
    match (shape, given) {
        (_, Property::Null) => Ok(Property::Null),
        (_, Property::Unknown) => Ok(Property::Unknown),
        (_, Property::Secret(inner)) => Ok(match convert(shape, inner)? {
            Property::Null => Property::Null,
            converted => converted.into_secret(),
        }),
        (Shape::Integer { least, most }, given) => whole(given, least, most),
        (Shape::Boolean, Property::Bool(_)) => Ok(given.clone()),
        (Shape::Boolean, _) => Err("must be true or false".to_owned()),
        (Shape::Text, given) => to_string_property(given),
        (Shape::Texts, Property::List(values)) => values
            .iter()
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Property::List),
        (Shape::Texts, _) => Err("must be a list of texts".to_owned()),
        (Shape::TextMap, Property::Object(entries)) => entries
            .iter()
            // null keepers are dropped
            .filter(|(_, value)| !matches!(value, Property::Null))
            .map(|(key, value)| Ok((key.clone(), convert(Shape::Text, value)?)))
            .collect::<Result<_, String>>()
            .map(Property::Object)
            .map_err(|reason| format!("must be a map of texts: a value {reason}")),
        (Shape::TextMap, _) => Err("must be a map of texts".to_owned()),
    }
}

fn entry(given: &Property) -> Result<Property, String> {
    match convert(Shape::Text, given) {
        Ok(Property::Null) | Err(_) => Err("must be a list of texts".to_owned()),
        converted => converted,
    }
}

fn whole(given: &Property, least: i64, most: i64) -> Result<Property, String> {
    let number = match given {
        Property::Number(number) => exact(number),
        Property::String(text) if text.is_empty() => return Ok(Property::Null),
        Property::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        None => Err("must be a whole number".to_owned()),
        Some(number) if number < least => Err(format!("must be at least {least}")),
        Some(number) if number > most => Err(format!("must be at most {most}")),
        Some(number) => Ok(integer(number)),
    }
}

/// The integer of a number. States may have `16.0` for `16`.
fn exact(number: &Number) -> Option<i64> {
    number
        .as_i64()
        .or_else(|| from_float(number.as_f64()?)?.as_i64())
}

fn to_string_property(given: &Property) -> Result<Property, String> {
    Ok(match given {
        Property::String(_) => given.clone(),
        Property::Bool(value) => text(value.to_string()),
        Property::Number(number) => text(digits(number)),
        _ => return Err("must be a text".to_owned()),
    })
}

/// Formats a number as Go does for a string input: without an exponent.
fn digits(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}
