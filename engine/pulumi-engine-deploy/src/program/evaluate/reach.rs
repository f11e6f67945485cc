//! Property access.

use std::collections::BTreeSet;

use pulumi_yaml::access::Accessor;

use crate::program::value::{Output, ResourceValue, Value};

/// Follows accessors into a value. Dependencies and secrecy on the way are kept.
pub(super) fn enter(value: &Value, steps: &[Accessor]) -> Result<Value, String> {
    let Some((step, rest)) = steps.split_first() else {
        return Ok(value.clone());
    };
    match value {
        Value::Object(entries) => {
            let key = step
                .key()
                .ok_or("cannot access an object property using an integer index")?;
            enter(entries.get(key).unwrap_or(&Value::Null), rest)
        }
        Value::List(values) => {
            let Accessor::Index(index) = step else {
                return Err("cannot access a list element using a property name".to_owned());
            };
            let element = values.get(*index).ok_or_else(|| {
                format!(
                    "list index {index} out-of-bounds for list of length {}",
                    values.len()
                )
            })?;
            // null in a list has null properties; null in a map is an error
            match element {
                Value::Null => Ok(Value::Null),
                element => enter(element, rest),
            }
        }
        Value::Output(output) => {
            let inner = output
                .value
                .as_ref()
                .map(|value| enter(value, steps))
                .transpose()?;
            Ok(Value::Output(Box::new(Output {
                value: inner,
                ..(**output).clone()
            })))
        }
        Value::Resource(resource) => enter(&resource_property(resource, step), rest),
        other => Err(format!(
            "receiver must be a list or object, not {}",
            other.describe()
        )),
    }
}

fn resource_property(resource: &ResourceValue, step: &Accessor) -> Value {
    let dependencies = BTreeSet::from([resource.urn.clone()]);
    let inner = match step.key().unwrap_or_default() {
        "urn" => Some(Value::String(resource.urn.to_string())),
        "id" => resource.id.clone().map(Value::String),
        name => match resource.outputs.get(name) {
            Some(property) => Some(Value::from_property(property, &dependencies)),
            None if resource.partial => None,
            None => Some(Value::Null),
        },
    };
    Value::Output(Box::new(Output {
        value: inner,
        secret: false,
        dependencies,
    }))
}
