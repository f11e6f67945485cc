//! The provider of the types that Pulumi's CLI has built in. All of its world is the state and other stacks, which
//! come through [`Answers`].

use super::{
    Call, ChangeKind, ChangeRequest, CheckRequest, Checked, Created, Difference, Observed,
    Provider, ProviderError, ReadRequest,
};
use crate::{
    builtin::{self, Kind},
    property::{Properties, Property},
};
use pulumi_yaml::ResourceType;

/// What the built-in types need of the outside.
pub trait Answers: Sync {
    /// The outputs of another stack.
    fn stack_outputs(&self, name: &str) -> Result<Properties, String>;
    /// An id for a new resource.
    fn new_id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }
}

/// The provider.
pub struct Builtin<'a> {
    answers: &'a (dyn Answers + 'a),
}

impl<'a> Builtin<'a> {
    /// A provider that gets its answers here.
    #[must_use]
    pub fn new(answers: &'a (dyn Answers + 'a)) -> Self {
        Self { answers }
    }

    fn reference(&self, name: &Property) -> Result<Properties, ProviderError> {
        let (Property::String(text), _) = name.opened() else {
            return Err(ProviderError::Failed(
                "the name of a stack reference must be known text".to_owned(),
            ));
        };
        let outputs = self.answers.stack_outputs(&text);
        let outputs = outputs.map_err(ProviderError::Failed)?;
        Ok(builtin::stack_reference(name, outputs))
    }
}

fn kind(token: &str) -> Result<Kind, ProviderError> {
    Kind::of(token).ok_or_else(|| {
        ProviderError::Failed(format!(
            "type {token:?} is not supported by pulumi-engine; of the package \"pulumi\" it has {}",
            builtin::TYPES.join(" and ")
        ))
    })
}

fn kind_of(call: &Call<'_>) -> Result<Kind, ProviderError> {
    kind(call.urn.kind())
}

impl Provider for Builtin<'_> {
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        builtin::resource_type(token).map_err(ProviderError::Failed)
    }

    /// Whatever is given is right; the engine has looked for what is required.
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
                Kind::Stash => ChangeKind::Update,
                Kind::StackReference => ChangeKind::Replace,
            };
            difference.changes.insert(input.to_owned(), change);
        }
        Ok(difference)
    }

    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError> {
        let outputs = match kind_of(call)? {
            Kind::Stash => builtin::created_stash(inputs),
            Kind::StackReference => {
                self.reference(inputs.get("name").unwrap_or(&Property::Null))?
            }
        };
        let id = if call.preview {
            String::new()
        } else {
            self.answers.new_id()
        };
        Ok(Created { id, outputs })
    }

    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        let outputs = match (kind_of(call)?, request.inputs) {
            (Kind::StackReference, _) => {
                self.reference(request.outputs.get("name").unwrap_or(&Property::Null))?
            }
            // it is nowhere but in the state and the program: what they say of it is so
            (Kind::Stash, inputs) if inputs.is_some() || !request.outputs.is_empty() => {
                request.outputs.clone()
            }
            (Kind::Stash, _) => {
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
        Ok(builtin::updated_stash(request.inputs, request.old_outputs))
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
