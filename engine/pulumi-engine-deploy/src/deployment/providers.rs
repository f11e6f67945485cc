//! The providers of a run, created on demand from the provider resources of the state or program.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use pulumi_engine_model::{
    property::{Properties, Property},
    resource::Resource,
};
use pulumi_engine_providers::{
    Call, ChangeRequest, CheckRequest, Checked, Created, Difference, Environment, Observed,
    Provider, ProviderError, ReadRequest,
    builtin::{self, Builtin, BuiltinHost},
    diff_top_level,
    registry::{Registry, package_of},
};
use pulumi_yaml::{ResourceType, keys::PROVIDER_TYPE_PREFIX};

/// Inputs of a provider resource that are not its config.
const NO_CONFIG: [&str; 3] = ["version", "pluginDownloadURL", INTERNAL];
/// The input of a provider resource with settings for the engine.
pub(super) const INTERNAL: &str = "__internal";
/// Among these settings, the environment variable mappings.
pub(super) const VARIABLES: &str = "envVarMappings";

pub(super) type SharedProvider<'a> = Arc<dyn Provider + 'a>;

pub(super) struct Providers<'a> {
    registry: &'a Registry,
    builtin: SharedProvider<'a>,
    cache: Mutex<ProviderCache<'a>>,
}

#[derive(Default)]
struct ProviderCache<'a> {
    /// Package and inputs by reference (`urn::id`).
    configs: HashMap<String, (String, Properties)>,
    made: HashMap<String, SharedProvider<'a>>,
    /// By package, without config, to look up types.
    bare: BTreeMap<String, SharedProvider<'a>>,
}

impl<'a> Providers<'a> {
    pub(super) fn new(registry: &'a Registry, builtin_host: &'a (dyn BuiltinHost + 'a)) -> Self {
        Self {
            registry,
            builtin: Arc::new(Builtin::new(builtin_host)),
            cache: Mutex::default(),
        }
    }

    /// Adds a provider resource, and returns the reference to it.
    pub(super) fn remember(&self, resource: &Resource) -> String {
        let reference = format!("{}::{}", resource.urn, resource.id);
        let config = resource.inputs.clone().unwrap_or_default();
        let package = package_of(&resource.kind).to_owned();
        let mut cache = self.cache.lock();
        cache.made.remove(&reference);
        cache.configs.insert(reference.clone(), (package, config));
        reference
    }

    /// The provider of a reference. A resource whose provider is missing gets one without config.
    pub(super) fn get(
        &self,
        reference: &str,
        token: &str,
    ) -> Result<SharedProvider<'a>, ProviderError> {
        let package = package_of(token);
        if package == builtin::PACKAGE {
            return Ok(Arc::clone(&self.builtin));
        }
        let mut cache = self.cache.lock();
        if let Some(made) = cache.made.get(reference) {
            return Ok(Arc::clone(made));
        }
        let config = cache.configs.get(reference);
        let (package, inputs) = config
            .cloned()
            .unwrap_or_else(|| (package.to_owned(), Properties::new()));
        let made = self.make(&package, inputs)?;
        cache.made.insert(reference.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    fn make(
        &self,
        package: &str,
        mut inputs: Properties,
    ) -> Result<SharedProvider<'a>, ProviderError> {
        let environment = environment(&inputs);
        inputs.retain(|name, _| !NO_CONFIG.contains(&name.as_str()));
        if inputs.values().any(Property::contains_unknown) {
            return Ok(Arc::new(Unconfigured));
        }
        self.registry.make(package, &inputs, &environment)
    }

    /// The inputs of a provider resource.
    pub(super) fn inputs(&self, reference: &str) -> Properties {
        let cache = self.cache.lock();
        let config = cache.configs.get(reference);
        config.map(|(_, inputs)| inputs.clone()).unwrap_or_default()
    }

    /// The diff of the inputs of a provider resource.
    pub(super) fn difference(
        &self,
        package: &str,
        old: &Properties,
        new: &Properties,
    ) -> Difference {
        let config = |inputs: &Properties| {
            let mut inputs = inputs.clone();
            inputs.remove(INTERNAL);
            inputs
        };
        let (old, new) = (config(old), config(new));
        if package == builtin::PACKAGE {
            return self.builtin.diff_config(&old, &new);
        }
        match self.bare(package) {
            Ok(bare) => bare.diff_config(&old, &new),
            Err(_) => diff_top_level(&old, &new),
        }
    }

    /// The schema of a resource type.
    pub(super) fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        self.registry.require(token)?;
        if let Some(package) = token.strip_prefix(PROVIDER_TYPE_PREFIX) {
            // the provider of the built-in types has no config
            let inputs = (package == builtin::PACKAGE).then(Vec::new);
            return Ok(ResourceType {
                inputs,
                ..ResourceType::default()
            });
        }
        let package = package_of(token);
        if package == builtin::PACKAGE {
            return self.builtin.resource_type(token);
        }
        self.bare(package)?.resource_type(token)
    }

    /// A provider without config.
    fn bare(&self, package: &str) -> Result<SharedProvider<'a>, ProviderError> {
        let mut cache = self.cache.lock();
        if let Some(bare) = cache.bare.get(package) {
            return Ok(Arc::clone(bare));
        }
        let environment = Environment::default();
        let made: SharedProvider<'a> =
            self.registry
                .make(package, &Properties::new(), &environment)?;
        cache.bare.insert(package.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}

/// The environment variables of a provider with these inputs.
fn environment(inputs: &Properties) -> Environment {
    let internal = inputs.get(INTERNAL);
    let Some(Property::Object(internal)) = internal else {
        return Environment::default();
    };
    let Some(Property::Object(variables)) = internal.get(VARIABLES) else {
        return Environment::default();
    };
    let names = variables.iter().filter_map(|(from, to)| match to {
        Property::String(to) => Some((from.clone(), to.clone())),
        _ => None,
    });
    Environment::new(names)
}

/// A provider whose config is unknown in a preview. Every diff is unknown too.
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
        Ok(diff_top_level(request.old_inputs, request.inputs))
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
