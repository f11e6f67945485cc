//! The scope of Kubernetes' own kinds, known without a server.

use super::tokens::ResourceKind;

/// Groups of Kubernetes itself; those of others may look like them.
const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "meta",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Cluster-scoped kinds of these groups.
const CLUSTER_KINDS: &[(&str, &str)] = &[
    ("", "ComponentStatus"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "ResourceSlice"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
];

/// Whether Kubernetes itself has this group. Tokens write `core` for the empty group.
#[must_use]
pub(super) fn is_own_group(group: &str) -> bool {
    group == "core" || GROUPS.contains(&group)
}

/// Whether a kind is namespaced; none if it is not one of Kubernetes itself.
#[must_use]
pub(super) fn is_namespaced(kind: &ResourceKind) -> Option<bool> {
    is_own_group(&kind.group).then(|| {
        !CLUSTER_KINDS
            .iter()
            .any(|(group, name)| kind.is(group, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_of_builtin_kinds() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", Some(true)),
            ("v1", "Namespace", Some(false)),
            ("apps/v1", "Deployment", Some(true)),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", Some(false)),
            ("rbac.authorization.k8s.io/v1", "Role", Some(true)),
            ("storage.k8s.io/v1", "StorageClass", Some(false)),
            ("gateway.networking.k8s.io/v1", "GatewayClass", None),
            ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", None),
            ("pulumi.com/v1", "Stack", None),
        ] {
            let kind = ResourceKind::new(api_version, kind);
            assert_eq!(is_namespaced(&kind), expected, "{kind:?}");
        }
    }
}
