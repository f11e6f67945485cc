//! The rights of the manager, with reasons. `deploy/rbac` is generated from this table, and the
//! managers of the tests run with exactly these rights.
//!
//! There is no wildcard, and no role that is bound by default may list or watch Secrets: a stolen
//! manager token reads only Secrets whose names are known. [`WATCH_SECRETS`] is opt-in. No I/O.

mod table;

use serde_json::{Map, Value, json};

pub use table::{
    CONTROLLER_MANAGER, EDIT, LEADER_ELECTION, METRICS_AUTH, METRICS_READER, PROCESS_WORKSPACES,
    TOKEN_REQUEST, VIEW, WATCH_SECRETS,
};

pub const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Upstream's name, where upstream has this role.
    pub name: &'static str,
    /// The comment above the role in the manifests.
    pub purpose: &'static str,
    pub scope: Scope,
    /// The `ClusterRoles` of Kubernetes that include this one: `admin`, `edit`, `view`.
    pub aggregated_to: &'static [&'static str],
    pub rights: &'static [Right],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A `ClusterRole`: valid where it is bound, which may be the whole cluster.
    Cluster,
    /// A Role in the manager's own namespace.
    OwnNamespace,
}

#[derive(Clone, Copy, Debug)]
pub struct Right {
    pub target: Target,
    pub verbs: &'static [&'static str],
    /// The comment above the rule in the manifests.
    pub reason: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    Resources {
        /// Empty for the core group.
        group: &'static str,
        /// Plural names, with a subresource where one is meant.
        resources: &'static [&'static str],
        /// If empty, all objects.
        names: &'static [&'static str],
    },
    /// A URL path outside the resource API.
    Path(&'static str),
}

impl Role {
    /// Every role, in the order of installation.
    pub const ALL: [Self; 9] = [
        CONTROLLER_MANAGER,
        LEADER_ELECTION,
        TOKEN_REQUEST,
        METRICS_AUTH,
        METRICS_READER,
        EDIT,
        VIEW,
        PROCESS_WORKSPACES,
        WATCH_SECRETS,
    ];

    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.scope {
            Scope::Cluster => "ClusterRole",
            Scope::OwnNamespace => "Role",
        }
    }

    #[must_use]
    pub fn labels(&self) -> Map<String, Value> {
        let own = ("app.kubernetes.io/name", "pulumi-kubernetes-operator");
        let own = (own.0.to_owned(), json!(own.1));
        let aggregated = self.aggregated_to.iter().map(|role| {
            let label = format!("{GROUP}/aggregate-to-{role}");
            (label, json!("true"))
        });
        [own].into_iter().chain(aggregated).collect()
    }

    /// The role as an object, without a namespace.
    #[must_use]
    pub fn object(&self) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": self.kind(),
            "metadata": { "name": self.name, "labels": self.labels() },
            "rules": self.rights.iter().map(Right::rule).collect::<Vec<_>>(),
        })
    }

    /// The binding of this role, for the whole cluster or for one namespace.
    #[must_use]
    pub fn binding(&self, namespace: Option<&str>, subjects: &[Value]) -> Value {
        let kind = if namespace.is_some() {
            "RoleBinding"
        } else {
            "ClusterRoleBinding"
        };
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": kind,
            "metadata": { "name": self.name, "namespace": namespace },
            "roleRef": { "apiGroup": GROUP, "kind": self.kind(), "name": self.name },
            "subjects": subjects,
        })
    }
}

impl Right {
    #[must_use]
    pub fn rule(&self) -> Value {
        let verbs = self.verbs;
        match self.target {
            Target::Path(path) => json!({ "nonResourceURLs": [path], "verbs": verbs }),
            Target::Resources {
                group,
                resources,
                names: [],
            } => json!({ "apiGroups": [group], "resources": resources, "verbs": verbs }),
            Target::Resources {
                group,
                resources,
                names,
            } => json!({
                "apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Each resource with each verb of a role.
    fn grants(role: &Role) -> Vec<(String, &'static str)> {
        let mut grants = Vec::new();
        for right in role.rights {
            let targets: Vec<String> = match right.target {
                Target::Path(path) => vec![path.to_owned()],
                Target::Resources {
                    group, resources, ..
                } => resources
                    .iter()
                    .map(|resource| format!("{resource}.{group}"))
                    .collect(),
            };
            for target in targets {
                grants.extend(right.verbs.iter().map(|verb| (target.clone(), *verb)));
            }
        }
        grants
    }

    #[test]
    fn roles_have_no_wildcards() {
        for role in Role::ALL {
            for (target, verb) in grants(&role) {
                assert!(!target.contains('*'), "{}: {target}", role.name);
                assert_ne!(verb, "*", "{}: {target}", role.name);
            }
        }
    }

    #[test]
    fn secrets_are_listed_only_by_watch_secrets_role() {
        assert_eq!(WATCH_SECRETS.rights.len(), 1);
        let others = Role::ALL.into_iter();
        for role in others.filter(|role| role.name != WATCH_SECRETS.name) {
            for (target, verb) in grants(&role) {
                let by_name = matches!(verb, "get" | "create" | "patch");
                let secrets = target == "secrets.";
                assert!(!secrets || by_name, "{}: {verb} {target}", role.name);
            }
        }
    }

    #[test]
    fn roles_cannot_escalate() {
        for role in Role::ALL {
            for (target, verb) in grants(&role) {
                assert!(!target.ends_with(GROUP), "{}: {target}", role.name);
                let more = ["bind", "escalate", "impersonate"].contains(&verb);
                assert!(!more, "{}: {verb} {target}", role.name);
                let runs = ["pods/exec.", "pods/attach.", "nodes."].contains(&&*target);
                assert!(!runs, "{}: {target}", role.name);
            }
        }
    }

    #[test]
    fn rights_are_granted_once_with_a_reason() {
        for role in Role::ALL {
            let mut seen = HashSet::new();
            for right in role.rights {
                assert!(!right.reason.is_empty(), "{}: {right:?}", role.name);
                assert!(!right.verbs.is_empty(), "{}: {right:?}", role.name);
            }
            for grant in grants(&role) {
                assert!(seen.insert(grant.clone()), "{}: {grant:?}", role.name);
            }
        }
    }

    #[test]
    fn aggregated_roles_cover_our_kinds_only() {
        for role in [EDIT, VIEW] {
            for (target, _) in grants(&role) {
                assert!(target.ends_with(".pulumi.com"), "{}: {target}", role.name);
            }
        }
        assert!(
            grants(&VIEW)
                .iter()
                .all(|(_, verb)| { ["get", "list", "watch"].contains(verb) })
        );
    }

    #[test]
    fn role_and_binding_have_kubernetes_form() {
        let role: k8s_openapi::api::rbac::v1::ClusterRole =
            serde_json::from_value(CONTROLLER_MANAGER.object()).unwrap();
        let name = "pulumi-kubernetes-operator-controller-manager";
        assert_eq!(role.metadata.name.as_deref(), Some(name));
        assert_eq!(role.rules.unwrap().len(), CONTROLLER_MANAGER.rights.len());
        let subject = json!({ "kind": "User", "name": "manager", "apiGroup": GROUP });
        let binding: k8s_openapi::api::rbac::v1::RoleBinding =
            serde_json::from_value(LEADER_ELECTION.binding(Some("operators"), &[subject])).unwrap();
        assert_eq!(binding.role_ref.kind, "Role");
        assert_eq!(binding.metadata.namespace.as_deref(), Some("operators"));
    }
}
