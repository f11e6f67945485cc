//! The packages, and how their providers are created.
//!
//! Providers are created on demand, without I/O. Types are looked up before a run, with a provider
//! that has no config.

use std::sync::Arc;

use pulumi_engine_model::property::Properties;
use pulumi_yaml::keys::PROVIDER_TYPE_PREFIX;

use super::{Environment, Provider, ProviderError, kubernetes, random};
use crate::builtin;

/// Creates a provider from its config and environment variables.
pub type Constructor = fn(&Properties, &Environment) -> Result<Arc<dyn Provider>, ProviderError>;

/// A package of resource types.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Its name, the first part of its type tokens.
    pub name: &'static str,
    pub make: Constructor,
    /// Whether its resources exist outside of the state. If not, an interrupted create left
    /// nothing.
    pub outside: bool,
}

/// The packages of this engine besides `pulumi`, which is built in.
const PACKAGES: &[Package] = &[
    Package {
        name: kubernetes::tokens::PACKAGE,
        make: kubernetes::make,
        outside: true,
    },
    Package {
        name: random::PACKAGE,
        make: |_, _| Ok(Arc::new(random::Random)),
        outside: false,
    },
];

/// The packages of a run.
#[derive(Debug, Clone)]
pub struct Registry {
    packages: Vec<Package>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new(PACKAGES)
    }
}

impl Registry {
    /// A registry of these packages and `pulumi`.
    #[must_use]
    pub fn new(packages: &[Package]) -> Self {
        Self {
            packages: packages.to_vec(),
        }
    }

    /// Whether the package of a type exists.
    #[must_use]
    pub fn knows(&self, token: &str) -> bool {
        self.require(token).is_ok()
    }

    /// Whether resources of a type exist outside of the state.
    #[must_use]
    pub fn is_outside(&self, token: &str) -> bool {
        let package = package_of(token);
        self.packages
            .iter()
            .any(|known| known.name == package && known.outside)
    }

    /// Rejects a type of an unknown package. The error tells the user what to do instead.
    pub fn require(&self, token: &str) -> Result<(), ProviderError> {
        let package = package_of(token);
        if package == builtin::PACKAGE || self.packages.iter().any(|known| known.name == package) {
            return Ok(());
        }
        Err(ProviderError::Failed(format!(
            "type {token:?} needs a provider plugin, and pulumi-engine runs none; it has the packages {}; \
             use an image with Pulumi's CLI",
            self.names().join(", ")
        )))
    }

    /// Rejects a function of an unknown package. The error tells the user what to do instead.
    pub fn require_function(&self, token: &str) -> Result<(), ProviderError> {
        let package = package_of(token);
        if self.packages.iter().any(|known| known.name == package) {
            return Ok(());
        }
        Err(ProviderError::Failed(format!(
            "function {token:?} is not supported by pulumi-engine; use an image with Pulumi's CLI"
        )))
    }

    /// The names of all packages, in alphabetical order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let mut names = vec![builtin::PACKAGE];
        names.extend(self.packages.iter().map(|package| package.name));
        names.sort_unstable();
        names
    }

    /// Creates the provider of a package other than `pulumi`.
    pub fn make(
        &self,
        package: &str,
        config: &Properties,
        environment: &Environment,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        match self.packages.iter().find(|known| known.name == package) {
            Some(known) => (known.make)(config, environment),
            None => Err(ProviderError::Failed(format!(
                "package {package:?} is not supported by pulumi-engine, which has {}; use an image with Pulumi's CLI",
                self.names().join(", ")
            ))),
        }
    }
}

/// The package of a type token; of a provider type, the package that it provides.
#[must_use]
pub fn package_of(token: &str) -> &str {
    let token = token.strip_prefix(PROVIDER_TYPE_PREFIX).unwrap_or(token);
    token.split(':').next().unwrap_or(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_unknown_package_is_rejected() {
        let registry = Registry::new(&[]);
        assert!(registry.knows("pulumi:index:Stash"));
        assert!(registry.knows("pulumi:providers:pulumi"));
        for token in ["aws:s3/bucket:Bucket", "pulumi:providers:aws"] {
            let error = registry.require(token).unwrap_err().to_string();
            assert!(
                error.contains(token) && error.contains("Pulumi's CLI"),
                "{error}"
            );
        }
    }
}
