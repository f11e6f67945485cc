//! Providers as resources: default ones, registered when something needs them, and those of the program.

use std::collections::BTreeMap;

use super::registrar::Registrar;
use crate::{
    builtin,
    plan::{Operation, Step},
    program::evaluate::{Goal, Refusal, Registered},
    property::{Properties, Property, UNKNOWN},
    provider::registry::package_of,
    resource::Resource,
    schedule::locked,
    urn::Urn,
};

impl Registrar<'_, '_> {
    /// The reference to the provider of a resource. Its children inherit what the program gives it.
    pub(super) fn provider_of(&self, urn: &Urn, goal: &Goal) -> String {
        let known = self.given_providers(goal);
        if !known.is_empty() {
            locked(&self.book).inherited.insert(urn.clone(), known);
        }
        self.choose_provider(goal)
    }

    /// The provider that the program names, the parent's, or the default one of the package.
    pub(super) fn choose_provider(&self, goal: &Goal) -> String {
        let package = package_of(&goal.kind);
        let given = self.given_providers(goal).remove(package);
        given.unwrap_or_else(|| self.default_provider(package, goal))
    }

    /// References to the providers of a resource and its parents, by package.
    fn given_providers(&self, goal: &Goal) -> BTreeMap<String, String> {
        let book = locked(&self.book);
        let inherited = goal
            .parent
            .as_ref()
            .and_then(|parent| book.inherited.get(parent));
        let mut known = inherited.cloned().unwrap_or_default();
        for urn in goal.providers.iter().chain(&goal.provider) {
            if let Some(reference) = book.declared.get(urn) {
                known.insert(package_of(urn.kind()).to_owned(), reference.clone());
            }
        }
        known
    }

    fn default_provider(&self, package: &str, goal: &Goal) -> String {
        let version = goal.version.clone().unwrap_or_default();
        let address = goal.plugin_download_url.clone().unwrap_or_default();
        let key = (package.to_owned(), version.clone(), address.clone());
        let mut defaults = locked(&self.defaults);
        if let Some(known) = defaults.get(&key) {
            return known.clone();
        }
        let kind = format!("{}{package}", builtin::PROVIDERS);
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
        locked(&self.book).seen.insert(urn);
        let resource = self.provider_resource(new, described(inputs, &version, &address), 0);
        let reference = self.engine.providers.remember(&resource);
        defaults.insert(key, reference.clone());
        reference
    }

    /// A provider that the program declares.
    pub(super) fn register_provider(&self, urn: &Urn, goal: &Goal) -> Result<Registered, Refusal> {
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
            protect: goal.protect,
            dependencies: goal.dependencies.iter().cloned().collect(),
            property_dependencies: dependencies
                .map(|(name, urns)| (name.clone(), Some(urns.iter().cloned().collect())))
                .collect(),
            ..Resource::default()
        };
        let inputs = described(goal.inputs.clone(), &version, &address);
        let resource = self.provider_resource(new, inputs, goal.part);
        let reference = self.engine.providers.remember(&resource);
        let declared = (urn.clone(), reference.clone());
        locked(&self.book).declared.extend([declared]);
        // a config that is wrong should be told here, not by the first resource that needs it
        self.engine
            .providers
            .get(&reference, &resource.kind)
            .map_err(|error| self.failed(urn, &error))?;
        Ok(self.registered(resource, true))
    }

    /// Creates, changes or leaves the resource of a provider.
    fn provider_resource(&self, new: Resource, inputs: Properties, part: usize) -> Resource {
        let old = self
            .olds
            .get(&new.urn)
            .map(|record| record.resource.clone());
        let none = Properties::new();
        let before = old.as_ref().and_then(|old| old.inputs.as_ref());
        let differences = differences(before.unwrap_or(&none), &inputs);
        let operation = match &old {
            None => Operation::Create,
            Some(_) if differences.is_empty() => Operation::Same,
            Some(_) => Operation::Update,
        };
        let id = match &old {
            Some(old) => old.id.clone(),
            None if self.engine.task.preview => UNKNOWN.to_owned(),
            None => self.engine.task.world.new_id(),
        };
        let inputs = Some(inputs).filter(|inputs| !inputs.is_empty());
        let dated = self.dated(old.as_ref(), operation == Operation::Update);
        let new = Resource {
            custom: true,
            id,
            outputs: inputs.clone(),
            inputs,
            created: dated.created,
            modified: dated.modified,
            ..new
        };
        let step = Step {
            differences,
            ..Step::new(operation, old, Some(new.clone()))
        };
        self.engine.pass(&step, part);
        new
    }
}

/// As Pulumi names default providers: with version and address, as far as they are known.
fn default_name(version: &str, address: &str) -> String {
    let parts = [version, address];
    let known = parts.iter().filter(|part| !part.is_empty());
    let plain = |part: &&str| -> String {
        part.chars()
            .map(|letter| {
                if letter.is_alphanumeric() {
                    letter
                } else {
                    '_'
                }
            })
            .collect()
    };
    known.fold("default".to_owned(), |name, part| {
        format!("{name}_{}", plain(part))
    })
}

/// Inputs of a provider with its version and where its plugin would come from.
fn described(mut inputs: Properties, version: &str, address: &str) -> Properties {
    if !version.is_empty() {
        let version = Property::String(version.to_owned());
        inputs.insert("version".to_owned(), version);
    }
    if !address.is_empty() {
        let address = Property::String(address.to_owned());
        let internal = Properties::from([("pluginDownloadURL".to_owned(), address)]);
        inputs.insert("__internal".to_owned(), Property::Object(internal));
    }
    inputs
}

fn differences(old: &Properties, new: &Properties) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_providers_are_named_as_pulumi_names_them() {
        assert_eq!(default_name("", ""), "default");
        assert_eq!(default_name("4.18.0", ""), "default_4_18_0");
        assert_eq!(
            default_name("1.0.0-alpha.1", "github://x"),
            "default_1_0_0_alpha_1_github___x"
        );
    }
}
