//! The hint to bind `system:auth-delegator` if this workspace may not create reviews.

/// Logs the missing right, with the command that grants it.
pub(super) fn log_missing_role(review: &str) {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (namespace, account) = (value("POD_NAMESPACE"), value("POD_SA_NAME"));
    tracing::error!(
        api = review,
        "{}",
        text(namespace.as_deref(), account.as_deref())
    );
}

/// The names are those of the pod's service account; outside a pod they are unknown.
fn text(namespace: Option<&str>, account: Option<&str>) -> String {
    let namespace = namespace.unwrap_or("<namespace>");
    let account = account.unwrap_or("<service account>");
    format!(
        "The workspace's service account {namespace}/{account} may not create reviews in the Kubernetes API, so all \
         callers are rejected. Bind it to the ClusterRole system:auth-delegator: kubectl create clusterrolebinding \
         {namespace}:{account}:system:auth-delegator --clusterrole=system:auth-delegator --serviceaccount={namespace}:{account}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_ends_with_command() {
        let command = "kubectl create clusterrolebinding ns:sa:system:auth-delegator \
                       --clusterrole=system:auth-delegator --serviceaccount=ns:sa";
        assert!(text(Some("ns"), Some("sa")).ends_with(command));
        assert!(text(None, None).ends_with("--serviceaccount=<namespace>:<service account>"));
    }
}
