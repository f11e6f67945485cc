//! The immutable fields of kinds, from Pulumi's own list.

use serde_json::Value;

use super::{settings::KubernetesConfig, tokens::ResourceKind};

const SELECTOR: &[&str] = &["spec.selector"];
const JOB: &[&str] = &[
    "spec.completions",
    "spec.parallelism",
    "spec.selector",
    "spec.template",
];
const STATEFUL_SET: &[&str] = &[
    "spec.podManagementPolicy",
    "spec.revisionHistoryLimit",
    "spec.selector",
    "spec.serviceName",
    "spec.volumeClaimTemplates",
];
const CLAIM: &[&str] = &[
    "spec.accessModes",
    "spec.selector",
    "spec.storageClassName",
    "spec.volumeName",
];
const VOLUME: &[&str] = &[
    "spec.awsElasticBlockStore",
    "spec.azureDisk",
    "spec.azureFile",
    "spec.cephfs",
    "spec.cinder",
    "spec.csi",
    "spec.fc",
    "spec.flexVolume",
    "spec.flocker",
    "spec.gcePersistentDisk",
    "spec.glusterfs",
    "spec.hostPath",
    "spec.iscsi",
    "spec.local",
    "spec.nfs",
    "spec.photonPersistentDisk",
    "spec.portworxVolume",
    "spec.quobyte",
    "spec.rbd",
    "spec.scaleIO",
    "spec.storageos",
    "spec.vsphereVolume",
];
const POD: &[&str] = &[
    "spec.affinity",
    "spec.automountServiceAccountToken",
    "spec.containers",
    "spec.dnsConfig",
    "spec.dnsPolicy",
    "spec.enableServiceLinks",
    "spec.hostAliases",
    "spec.hostIPC",
    "spec.hostNetwork",
    "spec.hostPID",
    "spec.hostname",
    "spec.imagePullSecrets",
    "spec.initContainers",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.overhead",
    "spec.preemptionPolicy",
    "spec.priority",
    "spec.priorityClassName",
    "spec.readinessGates",
    "spec.restartPolicy",
    "spec.runtimeClassName",
    "spec.schedulerName",
    "spec.securityContext",
    "spec.serviceAccount",
    "spec.serviceAccountName",
    "spec.shareProcessNamespace",
    "spec.subdomain",
    "spec.terminationGracePeriodSeconds",
    "spec.volumes",
];
/// The fields that identify every object.
const IDENTITY: &[&str] = &["kind", "metadata.name", "metadata.namespace"];

/// The fields whose change replaces an object.
#[must_use]
pub(super) fn fields(
    kind: &ResourceKind,
    inputs: &Value,
    settings: &KubernetesConfig,
) -> Vec<&'static str> {
    let of_kind = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Secret") if is_fixed(inputs, settings.secret_mutable) => {
            &["type", "stringData", "data"][..]
        }
        ("", "Secret") => &["type"],
        ("", "ConfigMap") if is_fixed(inputs, settings.config_map_mutable) => {
            &["binaryData", "data"]
        }
        ("", "PersistentVolume") => VOLUME,
        ("", "PersistentVolumeClaim") => CLAIM,
        ("", "Pod") => POD,
        ("", "ResourceQuota") => &["spec.scopes"],
        ("", "Service") => &["spec.clusterIP"],
        ("apps", "DaemonSet" | "Deployment") => SELECTOR,
        ("apps", "StatefulSet") => STATEFUL_SET,
        ("batch", "Job") => JOB,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => &["roleRef"],
        ("storage.k8s.io", "StorageClass") => &["parameters", "provisioner"],
        _ => &[],
    };
    [IDENTITY, of_kind].concat()
}

/// Pods keep the data that they started with, so Pulumi replaces these objects unless
/// `enableConfigMapMutable` is set. Objects marked as immutable are always replaced.
fn is_fixed(inputs: &Value, mutable: bool) -> bool {
    !mutable || inputs.get("immutable") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn force_new_fields_of_kinds() {
        let cases = [
            ("v1", "Service", "spec.clusterIP", true),
            ("v1", "Service", "spec.ports", false),
            ("v1", "Pod", "spec.containers", true),
            ("v1", "Pod", "spec.activeDeadlineSeconds", false),
            ("v1", "PersistentVolumeClaim", "spec.resources", false),
            ("v1", "PersistentVolumeClaim", "spec.storageClassName", true),
            ("v1", "ConfigMap", "data", true),
            ("v1", "Secret", "data", true),
            ("apps/v1", "Deployment", "spec.selector", true),
            ("apps/v1", "Deployment", "spec.template", false),
            ("apps/v1", "StatefulSet", "spec.serviceName", true),
            ("apps/v1", "StatefulSet", "spec.replicas", false),
            ("batch/v1", "Job", "spec.template", true),
            ("batch/v1", "CronJob", "spec.jobTemplate", false),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                "roleRef",
                true,
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                "subjects",
                false,
            ),
            ("storage.k8s.io/v1", "StorageClass", "provisioner", true),
            ("example.com/v1", "Widget", "metadata.name", true),
            ("example.com/v1", "Service", "spec.clusterIP", false),
        ];
        for (api_version, kind, field, expected) in cases {
            let kind = ResourceKind::new(api_version, kind);
            let fields = fields(&kind, &json!({}), &KubernetesConfig::default());
            assert_eq!(fields.contains(&field), expected, "{kind:?} {field}");
        }
    }

    #[test]
    fn force_new_data_unless_mutable() {
        let settings = KubernetesConfig {
            config_map_mutable: true,
            secret_mutable: true,
            ..KubernetesConfig::default()
        };
        for kind in ["ConfigMap", "Secret"] {
            let kind = ResourceKind::new("v1", kind);
            assert!(!fields(&kind, &json!({}), &settings).contains(&"data"));
            assert!(fields(&kind, &json!({"immutable": true}), &settings).contains(&"data"));
        }
        let secret = fields(&ResourceKind::new("v1", "Secret"), &json!({}), &settings);
        assert!(secret.contains(&"type"));
    }
}
