//! The providers of a run: made when first needed, from what the state or the program says of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use crate::{
    builtin,
    property::{Properties, Property},
    provider::{
        Call, ChangeKind, ChangeRequest, CheckRequest, Checked, Created, Difference, Observed,
        Provider, ProviderError, ReadRequest, ResourceType,
        builtin::{Answers, Builtin},
        registry::{Registry, package_of},
    },
    resource::Resource,
    schedule::locked,
};

/// Inputs of a provider's resource that are not its config.
const NO_CONFIG: [&str; 3] = ["version", "pluginDownloadURL", "__internal"];

/// A provider for the time of a run.
pub(super) type Shared<'a> = Arc<dyn Provider + 'a>;

pub(super) struct Providers<'a> {
    registry: &'a Registry,
    builtin: Shared<'a>,
    known: Mutex<Known<'a>>,
}

#[derive(Default)]
struct Known<'a> {
    /// Package and inputs by reference (`urn::id`).
    configs: HashMap<String, (String, Properties)>,
    made: HashMap<String, Shared<'a>>,
    /// By package, without config: to look up types.
    bare: BTreeMap<String, Shared<'a>>,
}

impl<'a> Providers<'a> {
    pub(super) fn new(registry: &'a Registry, answers: &'a (dyn Answers + 'a)) -> Self {
        Self {
            registry,
            builtin: Arc::new(Builtin::new(answers)),
            known: Mutex::default(),
        }
    }

    /// Remembers a provider's resource; returns the reference to it.
    pub(super) fn remember(&self, resource: &Resource) -> String {
        let reference = format!("{}::{}", resource.urn, resource.id);
        let config = resource.inputs.clone().unwrap_or_default();
        let package = package_of(&resource.kind).to_owned();
        let mut known = locked(&self.known);
        known.made.remove(&reference);
        known.configs.insert(reference.clone(), (package, config));
        reference
    }

    /// The provider of a reference; a resource of a state that lost its provider gets one without config.
    pub(super) fn get(&self, reference: &str, token: &str) -> Result<Shared<'a>, ProviderError> {
        let package = package_of(token);
        if package == builtin::PACKAGE {
            return Ok(Arc::clone(&self.builtin));
        }
        let mut known = locked(&self.known);
        if let Some(made) = known.made.get(reference) {
            return Ok(Arc::clone(made));
        }
        let config = known.configs.get(reference);
        let (package, inputs) = config
            .cloned()
            .unwrap_or_else(|| (package.to_owned(), Properties::new()));
        let made = self.make(&package, inputs)?;
        known.made.insert(reference.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    fn make(&self, package: &str, mut inputs: Properties) -> Result<Shared<'a>, ProviderError> {
        inputs.retain(|name, _| !NO_CONFIG.contains(&name.as_str()));
        if inputs.values().any(contains_unknown) {
            return Ok(Arc::new(Unconfigured));
        }
        self.registry.make(package, &inputs)
    }

    /// What a program may say of resources of a type.
    pub(super) fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        self.registry.require(token)?;
        if token.starts_with(builtin::PROVIDERS) {
            return Ok(ResourceType::default());
        }
        let package = package_of(token);
        if package == builtin::PACKAGE {
            return self.builtin.resource_type(token);
        }
        let mut known = locked(&self.known);
        let bare = if let Some(bare) = known.bare.get(package) {
            Arc::clone(bare)
        } else {
            let made: Shared<'a> = self.registry.make(package, &Properties::new())?;
            known.bare.insert(package.to_owned(), Arc::clone(&made));
            made
        };
        drop(known);
        bare.resource_type(token)
    }
}

fn contains_unknown(value: &Property) -> bool {
    match value {
        Property::Unknown => true,
        Property::Secret(inner) => contains_unknown(inner),
        Property::List(values) => values.iter().any(contains_unknown),
        Property::Object(entries) => entries.values().any(contains_unknown),
        _ => false,
    }
}

/// A provider whose config a preview cannot know: everything that it is asked about may change.
struct Unconfigured;

impl Provider for Unconfigured {
    fn resource_type(&self, _: &str) -> Result<ResourceType, ProviderError> {
        Ok(ResourceType::default())
    }

    fn check(&self, _: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError> {
        Ok(Checked {
            inputs: request.inputs.clone(),
            failures: Vec::new(),
        })
    }

    fn diff(&self, _: &Call<'_>, request: &ChangeRequest<'_>) -> Result<Difference, ProviderError> {
        let keys = request.old_inputs.keys().chain(request.inputs.keys());
        let changed = keys
            .filter(|key| request.old_inputs.get(*key) != request.inputs.get(*key))
            .map(|key| (key.clone(), ChangeKind::Update));
        Ok(Difference {
            changes: changed.collect(),
            delete_before_replace: false,
        })
    }

    fn create(&self, _: &Call<'_>, _: &Properties) -> Result<Created, ProviderError> {
        Ok(Created {
            id: String::new(),
            outputs: Properties::new(),
        })
    }

    fn read(
        &self,
        _: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        Ok(Some(Observed {
            id: request.id.to_owned(),
            inputs: request.inputs.cloned().unwrap_or_default(),
            outputs: Properties::new(),
        }))
    }

    fn update(&self, _: &Call<'_>, _: &ChangeRequest<'_>) -> Result<Properties, ProviderError> {
        Ok(Properties::new())
    }

    fn delete(&self, _: &Call<'_>, _: &ReadRequest<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    fn invoke(&self, _: &Call<'_>, _: &str, _: &Properties) -> Result<Properties, ProviderError> {
        Ok(Properties::new())
    }
}
