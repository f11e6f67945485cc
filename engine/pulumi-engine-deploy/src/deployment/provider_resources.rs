//! Provider resources: default ones, registered on demand, and those of the program.

use std::collections::BTreeMap;

use pulumi_engine_model::{
    property::{Properties, Property, UNKNOWN},
    resource::Resource,
    urn::Urn,
};
use pulumi_engine_providers::{Difference, builtin, registry::package_of};
use pulumi_yaml::keys::PROVIDER_TYPE_PREFIX;

use super::{
    providers::{INTERNAL, VARIABLES},
    registrar::Registrar,
};
use crate::{
    plan::{Operation, Step, decision},
    program::evaluate::{Goal, Registered, RegistrationError},
};

impl Registrar<'_, '_> {
    /// The reference to the provider of a resource. Children inherit it, and the option
    /// `providers`.
    pub(super) fn provider_of(&self, urn: &Urn, goal: &Goal) -> String {
        let reference = self.choose_provider(goal);
        let mut known = self.given_providers(goal);
        known.insert(package_of(&goal.kind).to_owned(), reference.clone());
        self.registrations
            .lock()
            .inherited
            .insert(urn.clone(), known);
        reference
    }

    /// The explicit provider, the parent's, or the default one of the package.
    pub(super) fn choose_provider(&self, goal: &Goal) -> String {
        let package = package_of(&goal.kind);
        let given = self.given_providers(goal).remove(package);
        given.unwrap_or_else(|| self.default_provider(package, goal))
    }

    /// References to the providers of a resource and its parents, by package.
    fn given_providers(&self, goal: &Goal) -> BTreeMap<String, String> {
        let registrations = self.registrations.lock();
        let inherited = goal
            .parent
            .as_ref()
            .and_then(|parent| registrations.inherited.get(parent));
        let mut known = inherited.cloned().unwrap_or_default();
        for urn in goal.providers.iter().chain(&goal.provider) {
            if let Some(reference) = registrations.declared.get(urn) {
                known.insert(package_of(urn.kind()).to_owned(), reference.clone());
            }
        }
        known
    }

    fn default_provider(&self, package: &str, goal: &Goal) -> String {
        let version = goal.version.clone().unwrap_or_default();
        let address = goal.plugin_download_url.clone().unwrap_or_default();
        let key = (package.to_owned(), version.clone(), address.clone());
        let mut defaults = self.defaults.lock();
        if let Some(known) = defaults.get(&key) {
            return known.clone();
        }
        let kind = format!("{PROVIDER_TYPE_PREFIX}{package}");
        let urn = self
            .stack()
            .urn(None, &kind, &default_name(&version, &address));
        let inputs = if package == builtin::PACKAGE {
            Properties::new()
        } else {
            (self.engine.task.package_config)(package)
        };
        let new = Resource {
            urn: urn.clone(),
            kind,
            ..Resource::default()
        };
        self.registrations.lock().seen.insert(urn);
        let inputs = described(inputs, &version, &address, &BTreeMap::new());
        let old = self
            .prior_state
            .get(&new.urn)
            .map(|record| &record.resource);
        let resource = self.provider_resource(new, old, inputs, 0);
        let reference = self.engine.providers.remember(&resource);
        defaults.insert(key, reference.clone());
        reference
    }

    /// A provider that the program declares.
    pub(super) fn register_provider(
        &self,
        urn: &Urn,
        goal: &Goal,
    ) -> Result<Registered, RegistrationError> {
        let version = goal.version.clone().unwrap_or_default();
        let address = goal.plugin_download_url.clone().unwrap_or_default();
        let dependencies = goal.property_dependencies.iter();
        let new = Resource {
            urn: urn.clone(),
            kind: goal.kind.clone(),
            parent: Some(
                goal.parent
                    .clone()
                    .unwrap_or_else(|| self.stack().stack_urn()),
            ),
            protect: goal.protect.unwrap_or_default(),
            dependencies: goal.dependencies.iter().cloned().collect(),
            property_dependencies: dependencies
                .map(|(name, urns)| (name.clone(), Some(urns.iter().cloned().collect())))
                .collect(),
            ..Resource::default()
        };
        let inputs = described(
            goal.inputs.clone(),
            &version,
            &address,
            &goal.env_var_mappings,
        );
        let old = self.find_old(urn, goal);
        let old = old.as_ref().map(|record| &record.resource);
        if let Some(old) = old.filter(|old| old.protect && goal.protect == Some(true))
            && !self
                .provider_difference(old, &inputs)
                .replace_keys()
                .is_empty()
        {
            return Err(RegistrationError::Message(decision::protected_message(old)));
        }
        let resource = self.provider_resource(new, old, inputs, goal.part);
        let reference = self.engine.providers.remember(&resource);
        let declared = (urn.clone(), reference.clone());
        self.registrations.lock().declared.extend([declared]);
        // reports wrong config here, not at the first resource that needs the provider
        self.engine
            .providers
            .get(&reference, &resource.kind)
            .map_err(|error| self.failed(urn, &error))?;
        Ok(self.registered(resource, true))
    }

    /// Creates, updates, replaces or keeps a provider resource, depending on the diff of its
    /// config.
    fn provider_resource(
        &self,
        new: Resource,
        old: Option<&Resource>,
        inputs: Properties,
        part: usize,
    ) -> Resource {
        let difference = old.map(|old| self.provider_difference(old, &inputs));
        let difference = difference.unwrap_or_default();
        let replace_keys = difference.replace_keys();
        let operation = match old {
            None => Operation::Create,
            Some(_) if difference.changes.is_empty() => Operation::Same,
            Some(_) if replace_keys.is_empty() => Operation::Update,
            Some(_) => Operation::CreateReplacement,
        };
        let kept = old.filter(|_| operation != Operation::CreateReplacement);
        let id = match kept {
            Some(old) => old.id.clone(),
            None if self.engine.task.preview => UNKNOWN.to_owned(),
            None => self.engine.task.host.new_id(),
        };
        let dated = self.with_timestamps(kept, operation == Operation::Update);
        let mut config = inputs.clone();
        config.remove(INTERNAL);
        let some = |properties: Properties| Some(properties).filter(|some| !some.is_empty());
        let new = Resource {
            custom: true,
            id,
            outputs: some(config),
            inputs: some(inputs),
            created: dated.created,
            modified: dated.modified,
            ..new
        };
        let step = |operation| Step {
            differences: difference.keys(),
            replace_keys: replace_keys.clone(),
            ..Step::new(operation, old.cloned(), Some(new.clone()))
        };
        self.engine.pass(&step(operation), part);
        if operation == Operation::CreateReplacement {
            self.registrations.lock().anew.insert(new.urn.clone());
            self.engine.pass(&step(Operation::Replace), part);
        }
        new
    }

    /// The provider's diff of its own config.
    fn provider_difference(&self, old: &Resource, inputs: &Properties) -> Difference {
        let none = Properties::new();
        let before = old.inputs.as_ref().unwrap_or(&none);
        let package = package_of(&old.kind);
        self.engine.providers.difference(package, before, inputs)
    }

    /// Whether a resource must be replaced because its provider changed or was replaced.
    pub(super) fn has_other_provider(&self, old: &Resource, reference: &str) -> bool {
        if old.provider == reference {
            return false;
        }
        let before = old.provider.rsplit_once("::");
        let before = before.and_then(|(urn, _)| self.prior_state.get(&Urn::new(urn)));
        let now = self.engine.providers.inputs(reference);
        before.is_some_and(|before| {
            let difference = self.provider_difference(&before.resource, &now);
            !difference.replace_keys().is_empty()
        })
    }
}

/// The name of a default provider, as Pulumi makes it: with version and download URL, if set.
fn default_name(version: &str, address: &str) -> String {
    let mut name = "default".to_owned();
    if !version.is_empty() {
        name.push('_');
        name.extend(version.chars().map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '_',
        }));
    }
    if !address.is_empty() {
        let parts = address.split('/').filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.map(plain).collect();
        name.push('_');
        name.push_str(&parts.join("/"));
    }
    name
}

fn plain(part: &str) -> String {
    part.bytes()
        .map(|byte| match byte {
            b'.' | b'-' => char::from(byte),
            byte if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '_',
        })
        .collect()
}

/// Inputs of a provider resource with version, download URL and environment variable mappings.
fn described(
    mut inputs: Properties,
    version: &str,
    address: &str,
    variables: &BTreeMap<String, String>,
) -> Properties {
    let text = |text: &str| Property::String(text.to_owned());
    let mut internal = Properties::new();
    if !address.is_empty() {
        internal.insert("pluginDownloadURL".to_owned(), text(address));
    }
    if !variables.is_empty() {
        let variables = variables.iter();
        let variables = variables.map(|(key, value)| (key.clone(), text(value)));
        let variables = Property::Object(variables.collect());
        internal.insert(VARIABLES.to_owned(), variables);
    }
    if !internal.is_empty() || !version.is_empty() {
        inputs.insert(INTERNAL.to_owned(), Property::Object(internal));
    }
    if !version.is_empty() {
        inputs.insert("version".to_owned(), text(version));
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_provider_names_match_pulumi() {
        assert_eq!(default_name("", ""), "default");
        assert_eq!(default_name("4.18.0", ""), "default_4_18_0");
        assert_eq!(
            default_name("1.0.0-alpha.1", "github://x"),
            "default_1_0_0_alpha_1_github_/x"
        );
    }
}
