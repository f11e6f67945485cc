//! Restrictions of an administrator on the pods of workspaces.
//!
//! `--restrict-pod-templates` enforces the Baseline level of Kubernetes' Pod Security Standards.
//! The namespace label `pod-security.kubernetes.io/enforce` does the same for one namespace; the
//! flag is for all namespaces, and its message names the field of the Workspace.

use serde_json::Value;

use super::check::Invalid;

/// Capabilities that the Baseline level allows to add.
const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The same for sysctls.
const BASELINE_SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
/// The same for types of `SELinux` options.
const BASELINE_SELINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];
const TEMPLATE: &str = "spec.podTemplate.spec";
const DEFAULT_ACCOUNT: &str = "default";

/// Flags of the manager. The default restricts nothing, as upstream does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRestrictions {
    /// The service account of pods whose Workspace names none.
    pub default_service_account: Option<String>,
    /// The only service accounts that pods may use; empty for all.
    pub allowed_service_accounts: Vec<String>,
    /// Whether pods must satisfy the Baseline level.
    pub enforces_baseline: bool,
}

impl PodRestrictions {
    /// The service account for a pod; `given` is the Workspace's.
    pub(super) fn service_account<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        let default = self.default_service_account.as_deref();
        given.or(default).unwrap_or(DEFAULT_ACCOUNT)
    }

    /// Checks the merged template.
    pub(super) fn check(&self, template: &Value) -> Result<(), Invalid> {
        let Some(spec) = template.get("spec") else {
            return Ok(());
        };
        self.check_service_account(spec)?;
        if self.enforces_baseline {
            check_pod(spec)?;
            check_volumes(spec)?;
            check_containers(spec)?;
        }
        Ok(())
    }

    fn check_service_account(&self, spec: &Value) -> Result<(), Invalid> {
        if self.allowed_service_accounts.is_empty() {
            return Ok(());
        }
        // `serviceAccount` is the deprecated name of the field, which the API server still reads.
        for field in ["serviceAccountName", "serviceAccount"] {
            let name = text(spec, field);
            let is_allowed = |name: &str| self.allowed_service_accounts.iter().any(|it| it == name);
            if let Some(name) = name.filter(|name| !is_allowed(name)) {
                let allowed = self.allowed_service_accounts.join(", ");
                return Err(Invalid::new(
                    format!("spec.{field}"),
                    format!(
                        "the operator's flag --allowed-service-accounts does not allow {name:?}; use one of: {allowed}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn check_pod(spec: &Value) -> Result<(), Invalid> {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_true(spec, field) {
            return Err(forbidden(format!("{TEMPLATE}.{field}")));
        }
    }
    if let Some(context) = spec.get("securityContext") {
        let path = format!("{TEMPLATE}.securityContext");
        check_security_context(&path, context)?;
        for sysctl in items(context, "sysctls") {
            let name = text(sysctl, "name").unwrap_or_default();
            if !BASELINE_SYSCTLS.contains(&name) {
                return Err(forbidden(format!("{path}.sysctls: {name}")));
            }
        }
    }
    Ok(())
}

fn check_volumes(spec: &Value) -> Result<(), Invalid> {
    for (number, volume) in items(spec, "volumes").enumerate() {
        if volume.get("hostPath").is_some_and(|path| !path.is_null()) {
            return Err(forbidden(format!("{TEMPLATE}.volumes[{number}].hostPath")));
        }
    }
    Ok(())
}

fn check_containers(spec: &Value) -> Result<(), Invalid> {
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            let name = text(container, "name").unwrap_or_default();
            check_container(&format!("{TEMPLATE}.{list}[name={name}]"), container)?;
        }
    }
    Ok(())
}

fn check_container(path: &str, container: &Value) -> Result<(), Invalid> {
    let opens_host_port = |port: &Value| port.get("hostPort").is_some_and(|it| *it != 0);
    if items(container, "ports").any(opens_host_port) {
        return Err(forbidden(format!("{path}.ports.hostPort")));
    }
    for hook in ["livenessProbe", "readinessProbe", "startupProbe"] {
        check_handler(&format!("{path}.{hook}"), container.get(hook))?;
    }
    for hook in ["postStart", "preStop"] {
        let handler = container.get("lifecycle").and_then(|it| it.get(hook));
        check_handler(&format!("{path}.lifecycle.{hook}"), handler)?;
    }
    let Some(context) = container.get("securityContext") else {
        return Ok(());
    };
    let path = format!("{path}.securityContext");
    if is_true(context, "privileged") {
        return Err(forbidden(format!("{path}.privileged")));
    }
    if text(context, "procMount").is_some_and(|mount| mount != "Default") {
        return Err(forbidden(format!("{path}.procMount")));
    }
    let capabilities = context.get("capabilities").unwrap_or(&Value::Null);
    for capability in items(capabilities, "add") {
        let name = capability.as_str().unwrap_or_default();
        if !BASELINE_CAPABILITIES.contains(&name) {
            return Err(forbidden(format!("{path}.capabilities.add: {name}")));
        }
    }
    check_security_context(&path, context)
}

/// A probe or a hook that names a host lets the kubelet send requests from the node's network.
fn check_handler(path: &str, handler: Option<&Value>) -> Result<(), Invalid> {
    for action in ["httpGet", "tcpSocket"] {
        let host = handler.and_then(|it| text(it.get(action)?, "host"));
        if host.is_some_and(|host| !host.is_empty()) {
            return Err(forbidden(format!("{path}.{action}.host")));
        }
    }
    Ok(())
}

/// What a pod's context and a container's share.
fn check_security_context(path: &str, context: &Value) -> Result<(), Invalid> {
    for profile in ["seccompProfile", "appArmorProfile"] {
        let kind = context.get(profile).and_then(|it| text(it, "type"));
        if kind == Some("Unconfined") {
            return Err(forbidden(format!("{path}.{profile}.type")));
        }
    }
    if let Some(options) = context.get("seLinuxOptions") {
        let kind = text(options, "type").unwrap_or_default();
        let has_identity = ["user", "role"]
            .iter()
            .any(|field| text(options, field).is_some_and(|it| !it.is_empty()));
        if has_identity || !BASELINE_SELINUX_TYPES.contains(&kind) {
            return Err(forbidden(format!("{path}.seLinuxOptions")));
        }
    }
    let windows = context.get("windowsOptions").unwrap_or(&Value::Null);
    if is_true(windows, "hostProcess") {
        return Err(forbidden(format!("{path}.windowsOptions.hostProcess")));
    }
    Ok(())
}

fn forbidden(field: String) -> Invalid {
    Invalid::new(
        field,
        "the operator's flag --restrict-pod-templates allows the Pod Security level \"baseline\" only; remove it",
    )
}

fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

fn is_true(object: &Value, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn baseline() -> PodRestrictions {
        PodRestrictions {
            enforces_baseline: true,
            ..PodRestrictions::default()
        }
    }

    fn container(fields: &Value) -> Value {
        let mut container = json!({ "name": "pulumi" });
        let own = fields.as_object().unwrap().clone();
        container.as_object_mut().unwrap().extend(own);
        json!({ "spec": { "containers": [container] } })
    }

    fn context(context: &Value) -> Value {
        container(&json!({ "securityContext": context }))
    }

    #[test]
    fn restricted_pod_template_names_the_field() {
        let pod = |fields: &Value| json!({ "spec": fields });
        let cases = [
            (pod(&json!({ "hostNetwork": true })), "hostNetwork"),
            (pod(&json!({ "hostPID": true })), "hostPID"),
            (pod(&json!({ "hostIPC": true })), "hostIPC"),
            (
                pod(
                    &json!({ "volumes": [{ "name": "a", "emptyDir": {} }, { "name": "b", "hostPath": { "path": "/" } }] }),
                ),
                "volumes[1].hostPath",
            ),
            (
                pod(
                    &json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] } }),
                ),
                "securityContext.sysctls: kernel.msgmax",
            ),
            (
                pod(
                    &json!({ "initContainers": [{ "name": "own", "securityContext": { "privileged": true } }] }),
                ),
                "initContainers[name=own].securityContext.privileged",
            ),
            (
                context(&json!({ "privileged": true })),
                "containers[name=pulumi].securityContext.privileged",
            ),
            (
                context(&json!({ "capabilities": { "add": ["CHOWN", "SYS_ADMIN"] } })),
                "containers[name=pulumi].securityContext.capabilities.add: SYS_ADMIN",
            ),
            (
                context(&json!({ "procMount": "Unmasked" })),
                "containers[name=pulumi].securityContext.procMount",
            ),
            (
                context(&json!({ "seccompProfile": { "type": "Unconfined" } })),
                "containers[name=pulumi].securityContext.seccompProfile.type",
            ),
            (
                context(&json!({ "seLinuxOptions": { "type": "spc_t" } })),
                "containers[name=pulumi].securityContext.seLinuxOptions",
            ),
            (
                context(&json!({ "windowsOptions": { "hostProcess": true } })),
                "containers[name=pulumi].securityContext.windowsOptions.hostProcess",
            ),
            (
                container(&json!({ "ports": [{ "containerPort": 80, "hostPort": 80 }] })),
                "containers[name=pulumi].ports.hostPort",
            ),
            (
                container(
                    &json!({ "lifecycle": { "postStart": { "httpGet": { "host": "169.254.169.254", "port": 80 } } } }),
                ),
                "containers[name=pulumi].lifecycle.postStart.httpGet.host",
            ),
        ];
        for (template, field) in cases {
            let error = baseline().check(&template).unwrap_err();
            assert_eq!(error.field, format!("{TEMPLATE}.{field}"));
            assert_eq!(PodRestrictions::default().check(&template), Ok(()));
        }
    }

    #[test]
    fn ordinary_pod_template_is_not_restricted() {
        let template = json!({ "spec": {
            "securityContext": { "fsGroup": 1000, "seccompProfile": { "type": "RuntimeDefault" } },
            "volumes": [{ "name": "state", "persistentVolumeClaim": { "claimName": "state" } }],
            "containers": [{
                "name": "pulumi",
                "ports": [{ "containerPort": 80 }],
                "readinessProbe": { "httpGet": { "port": 80 } },
                "securityContext": { "privileged": false, "capabilities": { "drop": ["ALL"], "add": ["CHOWN"] } },
            }],
        } });
        assert_eq!(baseline().check(&template), Ok(()));
    }

    #[test]
    fn service_account_must_be_allowed() {
        let restrictions = PodRestrictions {
            allowed_service_accounts: vec!["deployer".to_owned(), "viewer".to_owned()],
            ..PodRestrictions::default()
        };
        let template = |field: &str, name: &str| json!({ "spec": { field: name } });
        let field = "serviceAccountName";
        assert_eq!(restrictions.check(&template(field, "viewer")), Ok(()));
        for field in [field, "serviceAccount"] {
            let error = restrictions.check(&template(field, "admin")).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "spec.{field}: the operator's flag --allowed-service-accounts does not allow \"admin\"; \
                     use one of: deployer, viewer"
                )
            );
        }
    }

    #[test]
    fn default_service_account_is_for_workspaces_without_one() {
        let restrictions = PodRestrictions {
            default_service_account: Some("runner".to_owned()),
            ..PodRestrictions::default()
        };
        assert_eq!(restrictions.service_account(None), "runner");
        assert_eq!(restrictions.service_account(Some("own")), "own");
        assert_eq!(PodRestrictions::default().service_account(None), "default");
    }
}
