//! Deletes objects, and waits until they are gone. It does I/O.

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
        let told = |failure: KubernetesError| errors::told(&what, &failure);
        let served = match self.served(call, &kind) {
            Err(failure) if failure.is_unreachable() && self.settings.delete_unreachable => {
                return Ok(());
            }
            Err(failure) if failure.is_unreachable() => {
                return Err(ProviderError::Failed(format!(
                    "{what}: {failure}. If the cluster is gone for good, set `deleteUnreachable` on the provider or \
                     PULUMI_K8S_DELETE_UNREACHABLE=true, and its resources leave the state"
                )));
            }
            served => served.map_err(told)?,
        };
        // a kind that is gone took its objects along
        let Some(served) = served else {
            return Ok(());
        };
        let cluster = self.cluster().map_err(told)?;
        let (namespace, name) = object::parse_id(request.id);
        let address = self
            .address(&kind, &served, namespace, name)
            .map_err(told)?;
        let inputs = object::from_properties(request.inputs.unwrap_or(request.outputs));
        let policy = policy(&inputs);
        requests::patiently(cluster, call, || {
            requests::delete(cluster, &address, policy.clone())
        })
        .map_err(told)?;
        if wait::skips_deletion(&kind, &inputs) {
            return Ok(());
        }
        let timeout = wait::deletion_timeout(call.timeout, &inputs);
        until::gone(cluster, call, &address, timeout).map_err(|reasons| {
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
    fn what_an_object_owns_goes_first_unless_the_program_says_otherwise() {
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
