//! The provider `random`: values that are generated once and stay until a keeper changes. They
//! exist only in the state.
//!
//! States are compatible with Pulumi's plugin of the same name. Inputs are those of the program,
//! without `__defaults`. Outputs have the defaults, and `__meta` if the schema has a version.
//! `__pulumi_raw_state_delta`, which the latest plugins add, is preserved and never created:
//! without it the plugin reads the properties themselves.

mod bytes;
mod change;
mod characters;
mod go_sequence;
mod go_table;
mod id;
mod integer;
mod password;
mod pet;
mod randomness;
mod resource;
mod settings;
mod shuffle;
mod string;
#[cfg(test)]
mod tests;
mod uuid;

use pulumi_engine_model::property::{Properties, Property};
use pulumi_yaml::{ResourceType, text::did_you_mean};
use serde_json::json;

use self::{
    resource::{Absence, GeneratedResource, Resource, failure, text},
    settings::RandomInputs,
};
use super::{
    Call, ChangeRequest, CheckFailure, CheckRequest, Checked, Created, Difference, Observed,
    Provider, ProviderError, ReadRequest,
};

/// The name of the package in tokens.
pub(crate) const PACKAGE: &str = "random";

/// The output with the plugin's format version.
const META: &str = "__meta";

static RESOURCES: [&dyn Resource; 10] = [
    &bytes::Bytes,
    &id::Id,
    &integer::Integer,
    &password::Password,
    &pet::Pet,
    &shuffle::Shuffle,
    &string::Text,
    &uuid::ANY,
    &uuid::VERSION_4,
    &uuid::VERSION_7,
];

/// The provider; it has no configuration.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Random;

/// The token in states, for all notations: `random:RandomPet`, `random:index:RandomPet` or
/// `random:index/randomPet:RandomPet`.
#[must_use]
pub(crate) fn canonical_token(token: &str) -> Option<&'static str> {
    let name = token.strip_prefix(PACKAGE)?.strip_prefix(':')?;
    RESOURCES
        .iter()
        .map(|resource| resource.token())
        .find(|canonical| {
            let short = short_name(canonical);
            token == *canonical || name == short || name.strip_prefix("index:") == Some(short)
        })
}

fn short_name(token: &'static str) -> &'static str {
    token.rsplit(':').next().unwrap_or(token)
}

fn resource_of_token(token: &str) -> Result<&'static dyn Resource, ProviderError> {
    canonical_token(token)
        .and_then(|canonical| {
            RESOURCES
                .iter()
                .find(|resource| resource.token() == canonical)
        })
        .copied()
        .ok_or_else(|| no_such_type(token))
}

fn no_such_type(token: &str) -> ProviderError {
    let names = RESOURCES.map(|resource| short_name(resource.token()));
    let wanted = token.rsplit(':').next().unwrap_or(token);
    let hint = did_you_mean(wanted, names);
    ProviderError::Failed(format!(
        "the package '{PACKAGE}' has no resource type '{token}'{hint} (it has {})",
        names.join(", ")
    ))
}

fn of(call: &Call<'_>) -> Result<&'static dyn Resource, ProviderError> {
    let types = call.urn.qualified_type();
    resource_of_token(types.rsplit('$').next().unwrap_or(types))
}

impl Provider for Random {
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        let resource = resource_of_token(token)?;
        let inputs: Vec<_> = resource.inputs().iter().map(|input| input.name).collect();
        let required = resource
            .inputs()
            .iter()
            .filter(|input| matches!(input.absence, Absence::Refused))
            .map(|input| input.name)
            .collect();
        let generated = resource.generated();
        let outputs = inputs
            .iter()
            .copied()
            .chain(generated.iter().map(|output| output.name))
            .collect();
        Ok(ResourceType {
            canonical: Some(resource.token()),
            required,
            outputs: Some(outputs),
            secret_outputs: generated
                .iter()
                .filter(|output| output.secret)
                .map(|output| output.name)
                .collect(),
            inputs: Some(inputs),
            delete_before_replace: false,
        })
    }

    fn check(&self, call: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError> {
        let resource = of(call)?;
        let (settings, mut failures) = RandomInputs::read(resource, request.inputs);
        failures.extend(strangers(resource, request.inputs));
        if failures.is_empty() {
            failures = resource.problems(&settings);
        }
        Ok(Checked {
            inputs: request.inputs.clone(),
            failures,
        })
    }

    fn diff(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError> {
        Ok(change::difference(of(call)?, request))
    }

    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError> {
        let resource = of(call)?;
        let (settings, _) = RandomInputs::read(resource, inputs);
        if call.preview {
            return Ok(Created {
                id: String::new(),
                outputs: foreseen(resource, &settings),
            });
        }
        let made = resource.generate(&settings)?;
        let outputs = outputs(resource, &settings, &made);
        Ok(Created {
            id: made.id,
            outputs,
        })
    }

    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        let resource = of(call)?;
        if request.inputs.is_none() && request.outputs.is_empty() {
            return import(resource, request.id).map(Some);
        }
        let inputs = match request.inputs {
            Some(inputs) => inputs.clone(),
            None => inputs_of_outputs(resource, request.outputs),
        };
        Ok(Some(Observed {
            id: request.id.to_owned(),
            inputs,
            outputs: request.outputs.clone(),
        }))
    }

    fn update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        let resource = of(call)?;
        let (settings, _) = RandomInputs::read(resource, request.inputs);
        let generated = resource
            .generated()
            .iter()
            .filter_map(|output| Some((output.name, request.old_outputs.get(output.name)?.clone())))
            .collect();
        let made = GeneratedResource {
            id: request.id.to_owned(),
            generated,
        };
        Ok(outputs(resource, &settings, &made))
    }

    fn delete(&self, call: &Call<'_>, _request: &ReadRequest<'_>) -> Result<(), ProviderError> {
        of(call).map(|_| ())
    }

    fn invoke(
        &self,
        _call: &Call<'_>,
        token: &str,
        _arguments: &Properties,
    ) -> Result<Properties, ProviderError> {
        Err(ProviderError::Failed(format!(
            "the function '{token}' is not supported: the package '{PACKAGE}' has resources only"
        )))
    }
}

fn strangers(resource: &dyn Resource, inputs: &Properties) -> Vec<CheckFailure> {
    let names = || resource.inputs().iter().map(|input| input.name);
    inputs
        .keys()
        .filter(|key| !names().any(|name| name == key.as_str()))
        .map(|key| {
            let hint = did_you_mean(key, names());
            let all = names().collect::<Vec<_>>().join(", ");
            let token = resource.token();
            failure(
                key,
                format!("is no property of {token}{hint} (it has {all})"),
            )
        })
        .collect()
}

fn inputs_of_outputs(resource: &dyn Resource, outputs: &Properties) -> Properties {
    resource
        .inputs()
        .iter()
        .filter_map(|input| Some((input.name.to_owned(), outputs.get(input.name)?.clone())))
        .collect()
}

fn import(resource: &dyn Resource, id: &str) -> Result<Observed, ProviderError> {
    let imported = resource.import(id)?;
    let settings = RandomInputs::imported(imported.settings);
    let outputs = outputs(resource, &settings, &imported.made);
    Ok(Observed {
        id: imported.made.id,
        inputs: settings.values().clone(),
        outputs,
    })
}

/// The known outputs of a preview.
fn foreseen(resource: &dyn Resource, settings: &RandomInputs) -> Properties {
    let made = GeneratedResource {
        id: String::new(),
        generated: resource
            .generated()
            .iter()
            .map(|output| (output.name, Property::Unknown))
            .collect(),
    };
    let mut outputs = outputs(resource, settings, &made);
    if resource.shows_id() {
        outputs.insert("id".to_owned(), Property::Unknown);
    }
    outputs
}

/// Inputs with defaults, generated outputs, and the plugin's format version.
fn outputs(
    resource: &dyn Resource,
    settings: &RandomInputs,
    made: &GeneratedResource,
) -> Properties {
    let mut outputs = settings.values().clone();
    for (name, value) in &made.generated {
        let secret = resource
            .generated()
            .iter()
            .any(|output| output.name == *name && output.secret);
        let value = if secret || settings.taint() {
            value.clone().into_secret()
        } else {
            value.clone()
        };
        outputs.insert((*name).to_owned(), value);
    }
    if resource.shows_id() {
        outputs.insert("id".to_owned(), text(&made.id));
    }
    if let Some(version) = resource.schema_version() {
        let meta = json!({ "schema_version": version.to_string() });
        outputs.insert(META.to_owned(), text(meta.to_string()));
    }
    outputs
}
