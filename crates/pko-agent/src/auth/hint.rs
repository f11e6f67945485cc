//! What to do where this workspace may not ask the API server about its callers.

/// Says so, with the command to type.
pub(super) fn missing_rights(api: &str) {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (namespace, account) = (value("POD_NAMESPACE"), value("POD_SA_NAME"));
    tracing::error!(api, "{}", text(namespace.as_deref(), account.as_deref()));
}

/// The names are those of the pod's service account; they are not known where the agent runs in no pod.
fn text(namespace: Option<&str>, account: Option<&str>) -> String {
    let namespace = namespace.unwrap_or("<namespace>");
    let account = account.unwrap_or("<service account>");
    format!(
        "The workspace's service account {namespace}/{account} may not ask the Kubernetes API who a caller is, so that nobody \
         can be let in. Bind it to the ClusterRole system:auth-delegator: kubectl create clusterrolebinding \
         {namespace}:{account}:system:auth-delegator --clusterrole=system:auth-delegator --serviceaccount={namespace}:{account}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_typed_as_it_is() {
        let command = "kubectl create clusterrolebinding ns:sa:system:auth-delegator \
                       --clusterrole=system:auth-delegator --serviceaccount=ns:sa";
        assert!(text(Some("ns"), Some("sa")).ends_with(command));
        assert!(text(None, None).ends_with("--serviceaccount=<namespace>:<service account>"));
    }
}
