//! URNs: the names of resources.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Type token of the stack's own resource.
pub const STACK_TYPE: &str = "pulumi:pulumi:Stack";

/// A stack and its project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackIdentity {
    /// Self-managed backends have one organization, `organization`.
    pub organization: String,
    /// Project, from the project file.
    pub project: String,
    /// Stack name.
    pub name: String,
}

impl StackIdentity {
    /// The name with organization and project, as in checkpoints and lock paths.
    #[must_use]
    pub fn qualified(&self) -> String {
        format!("{}/{}/{}", self.organization, self.project, self.name)
    }

    /// The URN of a resource, given the type of its parent (none for children of the stack).
    #[must_use]
    pub fn urn(&self, parent: Option<&Urn>, kind: &str, name: &str) -> Urn {
        let chain = match parent.map(Urn::qualified_type) {
            Some(parent) if parent != STACK_TYPE => format!("{parent}${kind}"),
            _ => kind.to_owned(),
        };
        Urn(format!(
            "urn:pulumi:{}::{}::{chain}::{name}",
            self.name, self.project
        ))
    }

    /// The URN of the stack's own resource.
    #[must_use]
    pub fn stack_urn(&self) -> Urn {
        self.urn(None, STACK_TYPE, &format!("{}-{}", self.project, self.name))
    }
}

/// `urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Urn(String);

impl Urn {
    /// Accepts any string: states of other versions may have URNs that this crate would not make.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Types of all ancestors and of the resource, joined by `$`.
    #[must_use]
    pub fn qualified_type(&self) -> &str {
        self.0.split("::").nth(2).unwrap_or_default()
    }

    /// The type of the resource itself.
    #[must_use]
    pub fn kind(&self) -> &str {
        let types = self.qualified_type();
        types.rsplit_once('$').map_or(types, |(_, own)| own)
    }

    /// The resource's own name; it may contain `::` itself.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.splitn(4, "::").nth(3).unwrap_or_default()
    }
}

impl fmt::Display for Urn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev() -> StackIdentity {
        StackIdentity {
            organization: "organization".into(),
            project: "demo".into(),
            name: "dev".into(),
        }
    }

    #[test]
    fn urn_contains_parent_types() {
        let stack = dev();
        let parent = stack.urn(Some(&stack.stack_urn()), "a:b:C", "p");
        assert_eq!(parent.as_str(), "urn:pulumi:dev::demo::a:b:C::p");
        let child = stack.urn(Some(&parent), "d:e:F", "with::colons");
        assert_eq!(
            child.as_str(),
            "urn:pulumi:dev::demo::a:b:C$d:e:F::with::colons"
        );
        assert_eq!(child.qualified_type(), "a:b:C$d:e:F");
        assert_eq!(child.kind(), "d:e:F");
        assert_eq!(child.name(), "with::colons");
        assert_eq!(
            stack.stack_urn().as_str(),
            "urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev"
        );
    }
}
