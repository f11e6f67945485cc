//! Annotations that the operator reads or writes.

/// On a Stack: requests a run now. Every new value is a new request;
/// `status.observedReconcileRequest` has the one that was handled last.
pub const RECONCILIATION_REQUEST: &str = "pulumi.com/reconciliation-request";

/// On a Stack: the same request, as written by Flux's tools.
pub const FLUX_REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// On a workspace's pod template: the versions of the referenced ConfigMaps and Secrets. It is set
/// after one of them has changed; another value replaces the pod.
pub const REFERENCES: &str = "pulumi.com/references";

/// On an outputs Secret: a JSON array of the keys whose values are secret.
pub const SECRET_OUTPUTS: &str = "pulumi.com/secrets";

/// On a workspace's pod template: a hash of the source; another value replaces the pod.
pub const REVISION_HASH: &str = "auto.pulumi.com/revision-hash";

/// On a workspace's pod: `true` once its stacks are selected and configured.
pub const INITIALIZED: &str = "auto.pulumi.com/initialized";

/// On an Update: cancels its run. Any value except `false` and the empty string.
pub const CANCEL: &str = "auto.pulumi.com/cancel";

/// On an Update: the urgency of its run: `destroy`, `change`, `request` or `resync`.
pub const URGENCY: &str = "auto.pulumi.com/urgency";

/// On a Workspace without an owner: the uid of the Stack for whose destroy it was created. It is
/// deleted after that Stack.
pub const DESTROYS: &str = "auto.pulumi.com/destroys";

/// On a workspace's StatefulSet and Service: a hash of the applied spec, so that an unchanged
/// object is not applied again.
pub const APPLIED: &str = "auto.pulumi.com/applied";

/// In the metadata of a Program's artifact: the version of the operator that built the archive and
/// checked the Program.
pub const MADE_BY: &str = "pulumi.com/made-by";
