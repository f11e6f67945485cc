//! The API groups whose objects may be sources. Who may create a Stack must not make the manager
//! read every kind that it may read.

use super::{FluxSourceRef, SourceError};

/// The flag that sets them, for messages.
const FLAG: &str = "--flux-source-groups";

/// API groups whose objects may be sources of Stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxSourceGroups(Vec<String>);

/// Why a text names no such groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFluxSourceGroups {
    #[error("`{0}` is a group of Kubernetes itself, whose objects have no artifacts")]
    BuiltIn(String),
    #[error("`{0}` is no API group; write it like `source.toolkit.fluxcd.io`")]
    Malformed(String),
}

impl Default for FluxSourceGroups {
    fn default() -> Self {
        Self(
            ["source.toolkit.fluxcd.io", "pulumi.com"]
                .map(str::to_owned)
                .into(),
        )
    }
}

impl FluxSourceGroups {
    /// Reads a list with commas; an empty one allows none.
    ///
    /// # Errors
    /// A group that can't be allowed.
    pub fn parse(text: &str) -> Result<Self, InvalidFluxSourceGroups> {
        let groups = text.split(',').map(str::trim);
        let groups = groups.filter(|group| !group.is_empty()).map(parse_group);
        groups.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a Stack may refer to an object of this group.
    ///
    /// # Errors
    /// It may not, with the setting that allows it.
    pub fn check(&self, reference: &FluxSourceRef) -> Result<(), SourceError> {
        if self.0.contains(&reference.group) {
            return Ok(());
        }
        let (kind, version) = (&reference.kind, reference.api_version());
        let refusal = format!("kind \"{kind}\" in version \"{version}\" may not be a source");
        let way_out = if is_built_in(&reference.group) {
            "name a kind that has artifacts, such as one of Flux's".to_owned()
        } else {
            let group = &reference.group;
            format!("start the manager with {FLAG} that contains \"{group}\"")
        };
        Err(SourceError::Unavailable(format!(
            "could not resolve sourceRef: {refusal}; {way_out}"
        )))
    }
}

fn parse_group(group: &str) -> Result<String, InvalidFluxSourceGroups> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
    if !group.split('.').all(is_label) {
        return Err(InvalidFluxSourceGroups::Malformed(group.to_owned()));
    }
    if is_built_in(group) {
        return Err(InvalidFluxSourceGroups::BuiltIn(group.to_owned()));
    }
    Ok(group.to_owned())
}

/// Kubernetes' own groups: the core group, those without a domain such as `apps`, and those below
/// `k8s.io`.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(group: &str) -> FluxSourceRef {
        FluxSourceRef {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            name: "made".to_owned(),
            dir: None,
        }
    }

    fn message(groups: &FluxSourceGroups, group: &str) -> String {
        match groups.check(&reference(group)) {
            Err(SourceError::Unavailable(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flux_source_groups_are_fluxs_and_pulumis_by_default() {
        let groups = FluxSourceGroups::default();
        for allowed in ["source.toolkit.fluxcd.io", "pulumi.com"] {
            assert_eq!(groups.check(&reference(allowed)), Ok(()), "{allowed}");
        }
        assert_eq!(
            message(&groups, "example.test"),
            "could not resolve sourceRef: kind \"Thing\" in version \"example.test/v1\" may not be a source; \
             start the manager with --flux-source-groups that contains \"example.test\""
        );
    }

    #[test]
    fn flux_source_groups_are_never_kubernetes_own() {
        for group in ["apps", "batch", "rbac.authorization.k8s.io"] {
            let error = InvalidFluxSourceGroups::BuiltIn(group.to_owned());
            assert_eq!(FluxSourceGroups::parse(group), Err(error));
        }
        let groups = FluxSourceGroups::default();
        for group in ["", "apps", "rbac.authorization.k8s.io"] {
            let message = message(&groups, group);
            assert!(message.ends_with("such as one of Flux's"), "{message}");
        }
    }

    #[test]
    fn flux_source_groups_are_read_from_a_list() {
        let groups = FluxSourceGroups::parse("example.test, ,other.test").unwrap();
        assert_eq!(groups.0, ["example.test", "other.test"]);
        assert_eq!(
            FluxSourceGroups::parse(""),
            Ok(FluxSourceGroups(Vec::new()))
        );
        for text in ["a/b", "Example.test", "..", "example.test/../v1"] {
            let error = InvalidFluxSourceGroups::Malformed(text.to_owned());
            assert_eq!(FluxSourceGroups::parse(text), Err(error));
        }
    }
}
