//! The Go modules that pin the components: versions, checksums and linker flags.

use super::{Component, ComponentsError};

/// A module in `components/` that requires the sources of some components in fixed versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PinnedModules {
    Kubernetes,
    Pulumi,
    FakeGcsServer,
    CoreDns,
}

impl PinnedModules {
    pub(super) fn go_mod(self) -> &'static str {
        match self {
            Self::Kubernetes => include_str!("../../components/kubernetes/go.mod"),
            Self::Pulumi => include_str!("../../components/pulumi/go.mod"),
            Self::FakeGcsServer => include_str!("../../components/fake-gcs-server/go.mod"),
            Self::CoreDns => include_str!("../../components/coredns/go.mod"),
        }
    }

    pub(super) fn go_sum(self) -> &'static str {
        match self {
            Self::Kubernetes => include_str!("../../components/kubernetes/go.sum"),
            Self::Pulumi => include_str!("../../components/pulumi/go.sum"),
            Self::FakeGcsServer => include_str!("../../components/fake-gcs-server/go.sum"),
            Self::CoreDns => include_str!("../../components/coredns/go.sum"),
        }
    }

    /// The version that a module is required in, such as `v1.34.4`.
    pub(super) fn version(self, module: &'static str) -> Result<&'static str, ComponentsError> {
        required_version(self.go_mod(), module).ok_or(ComponentsError::Unpinned(module))
    }

    /// The oldest Go that builds them, such as `1.24`.
    pub(super) fn go(self) -> String {
        let mut lines = self.go_mod().lines();
        let line = lines.find_map(|line| line.strip_prefix("go "));
        let mut numbers = line.unwrap_or_default().split('.');
        [numbers.next(), numbers.next()]
            .map(Option::unwrap_or_default)
            .join(".")
    }

    /// Strips symbols, and sets the version that `go build` alone leaves empty.
    pub(super) fn linker_flags(self) -> Result<String, ComponentsError> {
        match self {
            Self::Kubernetes => kubernetes_linker_flags(),
            Self::Pulumi => pulumi_linker_flags(),
            Self::FakeGcsServer | Self::CoreDns => Ok("-s -w".to_owned()),
        }
    }
}

fn kubernetes_linker_flags() -> Result<String, ComponentsError> {
    let version = PinnedModules::Kubernetes.version(Component::KubeApiserver.module())?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let [major, minor] = [numbers.next(), numbers.next()].map(Option::unwrap_or_default);
    let variables = [
        ("gitVersion", version),
        ("gitMajor", major),
        ("gitMinor", minor),
    ];
    let settings =
        variables.map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}"));
    Ok(format!("-s -w {}", settings.join(" ")))
}

fn pulumi_linker_flags() -> Result<String, ComponentsError> {
    let cli = PinnedModules::Pulumi.version(Component::Pulumi.module())?;
    let host = PinnedModules::Pulumi.version(Component::PulumiLanguageYaml.module())?;
    Ok(format!(
        "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={cli} \
         -X github.com/pulumi/pulumi-yaml/pkg/version.Version={host}"
    ))
}

/// The version in which a `go.mod` requires a module.
pub(super) fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod
        .lines()
        .find_map(|line| {
            let mut words = line
                .trim()
                .trim_start_matches("require ")
                .split_whitespace();
            (words.next() == Some(module))
                .then(|| words.next())
                .flatten()
        })
        // a `replace` line names the module too, with an arrow where the version would be
        .filter(|version| version.starts_with('v'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_pinned() {
        for component in Component::ALL {
            let version = component
                .pinned_modules()
                .version(component.module())
                .unwrap();
            assert!(version.starts_with('v'), "{component:?}");
        }
    }

    #[test]
    fn linker_flags_carry_the_pinned_version() {
        let version = PinnedModules::Kubernetes
            .version("k8s.io/kubernetes")
            .unwrap();
        let flags = PinnedModules::Kubernetes.linker_flags().unwrap();
        assert!(
            flags.contains(&format!("version.gitVersion={version} ")),
            "{flags}"
        );
        assert!(flags.contains("version.gitMajor=1 "), "{flags}");
        let flags = PinnedModules::Pulumi.linker_flags().unwrap();
        assert!(flags.contains("/version.Version=v3."), "{flags}");
    }
}
