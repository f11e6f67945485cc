//! Security profiles: what a pod and its containers may do.

use pko_api::{Workspace, auto::v1alpha1::SecurityProfile};
use serde_json::{Value, json};

use super::put;

const RESTRICTED_IMAGE: &str = "pulumi/pulumi:latest-nonroot";
const BASELINE_IMAGE: &str = "pulumi/pulumi:latest";
/// The user of Pulumi's image without root.
const USER: u32 = 1000;

pub(super) fn is_restricted(workspace: &Workspace) -> bool {
    // The schema's default; an object from before it has none.
    let profile = workspace.spec.security_profile.as_ref();
    !matches!(profile, Some(SecurityProfile::Baseline))
}

/// The image of the `pulumi` container.
pub(super) fn image(workspace: &Workspace) -> &str {
    let default = if is_restricted(workspace) {
        RESTRICTED_IMAGE
    } else {
        BASELINE_IMAGE
    };
    let given = workspace.spec.image.as_deref();
    given.filter(|image| !image.is_empty()).unwrap_or(default)
}

/// The pod's own context.
pub(super) fn pod(workspace: &Workspace) -> Value {
    let mut context = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    if is_restricted(workspace) {
        put(&mut context, "runAsNonRoot", true);
        put(&mut context, "runAsUser", USER);
        put(&mut context, "runAsGroup", USER);
    }
    context
}

/// A container's context, if the profile asks for one.
pub(super) fn container(workspace: &Workspace) -> Option<Value> {
    is_restricted(workspace).then(|| {
        json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        })
    })
}
