//! Security profiles of pods.

use pko_api::{Workspace, auto::v1alpha1::SecurityProfile};
use serde_json::{Value, json};

use super::put;

const RESTRICTED_IMAGE: &str = "pulumi/pulumi:latest-nonroot";
const BASELINE_IMAGE: &str = "pulumi/pulumi:latest";
/// The non-root user of Pulumi's image.
const USER: u32 = 1000;

pub(super) fn is_restricted(workspace: &Workspace) -> bool {
    // Restricted is the schema's default; an older object has no profile.
    let profile = workspace.spec.security_profile.as_ref();
    !matches!(profile, Some(SecurityProfile::Baseline))
}

pub(super) fn image(workspace: &Workspace) -> &str {
    let default = if is_restricted(workspace) {
        RESTRICTED_IMAGE
    } else {
        BASELINE_IMAGE
    };
    let given = workspace.spec.image.as_deref();
    given.filter(|image| !image.is_empty()).unwrap_or(default)
}

pub(super) fn pod(workspace: &Workspace) -> Value {
    let mut context = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    if is_restricted(workspace) {
        put(&mut context, "runAsNonRoot", true);
        put(&mut context, "runAsUser", USER);
        put(&mut context, "runAsGroup", USER);
    }
    context
}

/// The security context of a container, if the profile requires one.
pub(super) fn container(workspace: &Workspace) -> Option<Value> {
    is_restricted(workspace).then(|| {
        json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        })
    })
}
