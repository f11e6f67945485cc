//! The provider of the types that are built into Pulumi's CLI. It reads other stacks through
//! [`BuiltinHost`].

use pulumi_engine_model::property::{Properties, Property};
use pulumi_yaml::ResourceType;

use super::{
    Call, ChangeKind, ChangeRequest, CheckRequest, Checked, Created, Difference, Observed,
    Provider, ProviderError, ReadRequest,
};

/// Type token of a resource that keeps its first value.
pub const STASH: &str = "pulumi:index:Stash";
/// Type token of a resource that reads the outputs of another stack.
pub const STACK_REFERENCE: &str = "pulumi:pulumi:StackReference";
/// The package of both.
pub const PACKAGE: &str = "pulumi";
/// All of them, for messages.
pub const TYPES: [&str; 2] = [STASH, STACK_REFERENCE];

/// A built-in type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinType {
    /// [`STASH`]
    Stash,
    /// [`STACK_REFERENCE`]
    StackReference,
}

impl BuiltinType {
    /// The type of a token.
    #[must_use]
    pub fn of(token: &str) -> Option<Self> {
        match token {
            STASH => Some(Self::Stash),
            STACK_REFERENCE => Some(Self::StackReference),
            _ => None,
        }
    }

    #[must_use]
    pub fn input(self) -> &'static str {
        match self {
            Self::Stash => "input",
            Self::StackReference => "name",
        }
    }

    #[must_use]
    pub fn outputs(self) -> &'static [&'static str] {
        match self {
            Self::Stash => &["input", "output"],
            Self::StackReference => &["name", "outputs", "secretOutputNames"],
        }
    }
}

/// The schema of a built-in type.
pub fn resource_type(token: &str) -> Result<ResourceType, String> {
    let kind = BuiltinType::of(token).ok_or_else(|| {
        format!(
            "type {token:?} needs a provider plugin, and pulumi-engine runs none; it has {}",
            TYPES.join(" and ")
        )
    })?;
    Ok(ResourceType {
        inputs: Some(vec![kind.input()]),
        required: match kind {
            BuiltinType::Stash => vec!["input"],
            // the default is the resource's name in the program
            BuiltinType::StackReference => Vec::new(),
        },
        outputs: Some(kind.outputs().to_vec()),
        ..ResourceType::default()
    })
}

/// Outputs of a new stash.
#[must_use]
pub fn created_stash(inputs: &Properties) -> Properties {
    let input = inputs.get("input").cloned().unwrap_or(Property::Null);
    Properties::from([
        ("input".to_owned(), input.clone()),
        ("output".to_owned(), input),
    ])
}

/// Outputs of an updated stash, which keeps its first value.
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

/// What the built-in types need from the engine.
pub trait BuiltinHost: Sync {
    /// The outputs of another stack.
    fn stack_outputs(&self, name: &str) -> Result<Properties, String>;
    /// An id for a new resource.
    fn new_id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }
}

pub struct Builtin<'a> {
    host: &'a (dyn BuiltinHost + 'a),
}

impl<'a> Builtin<'a> {
    #[must_use]
    pub fn new(host: &'a (dyn BuiltinHost + 'a)) -> Self {
        Self { host }
    }

    fn reference(&self, name: &Property) -> Result<Properties, ProviderError> {
        let (Property::String(text), _) = name.opened() else {
            return Err(ProviderError::Failed(
                "the name of a stack reference must be known text".to_owned(),
            ));
        };
        let outputs = self.host.stack_outputs(&text);
        let outputs = outputs.map_err(ProviderError::Failed)?;
        Ok(stack_reference(name, outputs))
    }
}

fn kind(token: &str) -> Result<BuiltinType, ProviderError> {
    BuiltinType::of(token).ok_or_else(|| {
        ProviderError::Failed(format!(
            "type {token:?} is not supported by pulumi-engine; of the package \"pulumi\" it has {}",
            TYPES.join(" and ")
        ))
    })
}

fn kind_of(call: &Call<'_>) -> Result<BuiltinType, ProviderError> {
    kind(call.urn.kind())
}

impl Provider for Builtin<'_> {
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        resource_type(token).map_err(ProviderError::Failed)
    }

    /// Accepts all inputs: the engine has checked the required ones.
    fn check(&self, call: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError> {
        kind_of(call)?;
        Ok(Checked {
            inputs: request.inputs.clone(),
            failures: Vec::new(),
        })
    }

    /// It has no configuration.
    fn diff_config(&self, _: &Properties, _: &Properties) -> Difference {
        Difference::default()
    }

    fn diff(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError> {
        let kind = kind_of(call)?;
        let input = kind.input();
        let mut difference = Difference::default();
        if request.old_inputs.get(input) != request.inputs.get(input) {
            let change = match kind {
                BuiltinType::Stash => ChangeKind::Update,
                BuiltinType::StackReference => ChangeKind::Replace,
            };
            difference.changes.insert(input.to_owned(), change);
        }
        Ok(difference)
    }

    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError> {
        let outputs = match kind_of(call)? {
            BuiltinType::Stash => created_stash(inputs),
            BuiltinType::StackReference => {
                self.reference(inputs.get("name").unwrap_or(&Property::Null))?
            }
        };
        let id = if call.preview {
            String::new()
        } else {
            self.host.new_id()
        };
        Ok(Created { id, outputs })
    }

    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        let outputs = match (kind_of(call)?, request.inputs) {
            (BuiltinType::StackReference, _) => {
                self.reference(request.outputs.get("name").unwrap_or(&Property::Null))?
            }
            // it exists only in the state and the program
            (BuiltinType::Stash, inputs) if inputs.is_some() || !request.outputs.is_empty() => {
                request.outputs.clone()
            }
            (BuiltinType::Stash, _) => {
                return Err(ProviderError::Failed(
                    "stash can not be imported".to_owned(),
                ));
            }
        };
        Ok(Some(Observed {
            id: request.id.to_owned(),
            inputs: request.inputs.unwrap_or(request.outputs).clone(),
            outputs,
        }))
    }

    fn update(
        &self,
        _: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        Ok(updated_stash(request.inputs, request.old_outputs))
    }

    fn delete(&self, _: &Call<'_>, _: &ReadRequest<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    fn invoke(
        &self,
        _: &Call<'_>,
        token: &str,
        _: &Properties,
    ) -> Result<Properties, ProviderError> {
        Err(ProviderError::Failed(format!(
            "function {token:?} is not supported by pulumi-engine; use an image with Pulumi's CLI"
        )))
    }
}
