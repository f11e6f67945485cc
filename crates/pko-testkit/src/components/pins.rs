//! The pinned versions, read from `components/go.mod`; pure.

use super::{Component, ComponentsError};

pub(super) const GO_MOD: &str = include_str!("../../components/go.mod");
pub(super) const GO_SUM: &str = include_str!("../../components/go.sum");

/// The version of a component, such as `v1.34.4`.
pub(super) fn version(component: Component) -> Result<&'static str, ComponentsError> {
    required(GO_MOD, component.module()).ok_or(ComponentsError::Unpinned(component.module()))
}

/// The oldest Go that builds them, such as `1.24`.
pub(super) fn go() -> String {
    let pinned = GO_MOD.lines().find_map(|line| line.strip_prefix("go "));
    let mut numbers = pinned.unwrap_or_default().split('.');
    [numbers.next(), numbers.next()]
        .map(Option::unwrap_or_default)
        .join(".")
}

/// What tells the Kubernetes programs their own version, which `go build` alone does not.
pub(super) fn linker_flags() -> Result<String, ComponentsError> {
    let version = version(Component::KubeApiserver)?;
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

/// The version in which a `go.mod` requires a module.
pub(super) fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
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
    fn every_component_is_pinned() {
        for component in Component::ALL.into_iter().chain(Component::NODE) {
            assert!(
                version(component).unwrap().starts_with('v'),
                "{component:?}"
            );
        }
    }

    #[test]
    fn linker_flags_carry_the_pinned_version() {
        let version = version(Component::Kubectl).unwrap();
        let flags = linker_flags().unwrap();
        assert!(
            flags.contains(&format!("version.gitVersion={version} ")),
            "{flags}"
        );
        assert!(flags.contains("version.gitMajor=1 "), "{flags}");
    }
}
