//! Deletes objects, and waits for the deletion.

use kube::api::PropagationPolicy;
use serde_json::Value;

use super::{Kubernetes, KubernetesError, errors, object, read::kind, requests, wait, wait::until};
use crate::{Call, ProviderError, ReadRequest};

const PROPAGATION: &str = "pulumi.com/deletionPropagationPolicy";

impl Kubernetes {
    pub(super) fn delete_object(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<(), ProviderError> {
        let kind = kind(call, request)?;
        let what = format!("failed to delete {} \"{}\"", kind.kind, request.id);
        let to_error = |failure: KubernetesError| errors::provider_error(&what, &failure);
        let served = match self.discover(call, &kind) {
            Err(failure) if failure.is_unreachable() && self.settings.delete_unreachable => {
                return Ok(());
            }
            Err(failure) if failure.is_unreachable() => {
                return Err(ProviderError::Failed(format!(
                    "{what}: {failure}. If the cluster is gone for good, set `deleteUnreachable` on the provider or \
                     PULUMI_K8S_DELETE_UNREACHABLE=true, and its resources leave the state"
                )));
            }
            served => served.map_err(to_error)?,
        };
        // the objects of a deleted kind are deleted too
        let Some(served) = served else {
            return Ok(());
        };
        let cluster = self.cluster().map_err(to_error)?;
        let (namespace, name) = object::parse_id(request.id);
        let address = self
            .address(&kind, &served, namespace, name)
            .map_err(to_error)?;
        let inputs = object::from_properties(request.inputs.unwrap_or(request.outputs));
        let policy = policy(&inputs);
        requests::with_retries(cluster, call, || {
            requests::delete(cluster, &address, policy.clone())
        })
        .map_err(to_error)?;
        if wait::skips_deletion(&kind, &inputs) {
            return Ok(());
        }
        let timeout = wait::deletion_timeout(call.timeout, &inputs);
        until::wait_until_deleted(cluster, call, &address, timeout).map_err(|reasons| {
            ProviderError::Failed(format!("{what}: it is still there: {}", reasons.join("; ")))
        })
    }
}

fn policy(inputs: &Value) -> PropagationPolicy {
    let given = object::annotation(inputs, PROPAGATION).unwrap_or_default();
    match given.to_ascii_lowercase().as_str() {
        "orphan" => PropagationPolicy::Orphan,
        "background" => PropagationPolicy::Background,
        _ => PropagationPolicy::Foreground,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn delete_propagation_follows_program() {
        let annotated = |value: &str| json!({"metadata": {"annotations": {PROPAGATION: value}}});
        for (inputs, expected) in [
            (json!({}), "Foreground"),
            (annotated("orphan"), "Orphan"),
            (annotated("Background"), "Background"),
            (annotated("foreground"), "Foreground"),
            (annotated("nonsense"), "Foreground"),
        ] {
            assert_eq!(format!("{:?}", policy(&inputs)), expected);
        }
    }
}
