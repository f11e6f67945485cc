//! How a server serves kinds, and the paths of objects.

use serde_json::Value;

use super::{object, tokens::ResourceKind};

/// How a server serves a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServedKind {
    /// The plural name in paths.
    pub plural: String,
    pub namespaced: bool,
}

impl ServedKind {
    /// The path of a group and version.
    #[must_use]
    pub(super) fn root(kind: &ResourceKind) -> String {
        let prefix = if kind.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        format!("{prefix}/{}", kind.api_version())
    }

    /// The kinds in a discovery document, without subresources.
    #[must_use]
    pub(super) fn from_list(list: &Value) -> Vec<(String, Self)> {
        object::list(list, "/resources")
            .iter()
            .filter_map(|resource| {
                let plural = object::text(resource, "/name").filter(|name| !name.contains('/'))?;
                let kind = object::text(resource, "/kind")?.to_owned();
                let namespaced = resource.get("namespaced").and_then(Value::as_bool)?;
                Some((
                    kind,
                    Self {
                        plural: plural.to_owned(),
                        namespaced,
                    },
                ))
            })
            .collect()
    }
}

/// The address of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub kind: ResourceKind,
    /// The path of its kind in its namespace.
    pub collection: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl Address {
    /// The address of an object. `default` is its namespace if the kind is namespaced and it names
    /// none.
    #[must_use]
    pub(super) fn new(
        kind: ResourceKind,
        served: &ServedKind,
        namespace: Option<&str>,
        default: &str,
        name: &str,
    ) -> Self {
        let namespace = served
            .namespaced
            .then(|| namespace.unwrap_or(default).to_owned());
        let root = ServedKind::root(&kind);
        let plural = &served.plural;
        let collection = match &namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        };
        Self {
            kind,
            collection,
            namespace,
            name: name.to_owned(),
        }
    }

    /// The path of the object.
    #[must_use]
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }

    /// For display: `Deployment "web/nginx"`.
    #[must_use]
    pub(super) fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} \"{namespace}/{}\"", self.kind.kind, self.name),
            None => format!("{} \"{}\"", self.kind.kind, self.name),
        }
    }
}

/// Whether a name can be part of a path. The server validates the rest.
#[must_use]
pub(super) fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn discovery_skips_subresources() {
        let list = json!({"resources": [
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "pods/status", "kind": "Pod", "namespaced": true},
            {"name": "nodes", "kind": "Node", "namespaced": false},
            {"name": "broken"},
        ]});
        let served = |plural: &str, namespaced| ServedKind {
            plural: plural.to_owned(),
            namespaced,
        };
        let expected = [
            ("Pod".to_owned(), served("pods", true)),
            ("Node".to_owned(), served("nodes", false)),
        ];
        assert_eq!(ServedKind::from_list(&list), expected);
        assert_eq!(ServedKind::from_list(&json!({})), []);
    }

    #[test]
    fn object_paths() {
        let namespaced = ServedKind {
            plural: "deployments".into(),
            namespaced: true,
        };
        let global = ServedKind {
            plural: "namespaces".into(),
            namespaced: false,
        };
        let cases = [
            (
                ResourceKind::new("apps/v1", "Deployment"),
                &namespaced,
                Some("n"),
                "/apis/apps/v1/namespaces/n/deployments/a",
                "Deployment \"n/a\"",
            ),
            (
                ResourceKind::new("apps/v1", "Deployment"),
                &namespaced,
                None,
                "/apis/apps/v1/namespaces/d/deployments/a",
                "Deployment \"d/a\"",
            ),
            // the path of a cluster-scoped object has no namespace
            (
                ResourceKind::new("v1", "Namespace"),
                &global,
                Some("n"),
                "/api/v1/namespaces/a",
                "Namespace \"a\"",
            ),
        ];
        for (kind, served, namespace, path, shown) in cases {
            let address = Address::new(kind, served, namespace, "d", "a");
            assert_eq!(address.path(), path);
            assert_eq!(address.describe(), shown);
        }
    }

    #[test]
    fn object_path_rejects_traversal() {
        for (name, expected) in [
            ("web-0", true),
            ("system:admin", true),
            ("a.b", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a?b", false),
            ("a b", false),
            ("a#b", false),
            ("%2e", false),
        ] {
            assert_eq!(is_path_segment(name), expected, "{name}");
        }
    }
}
