//! Annotations that are read or written.

/// On a Stack: asks for a run now. Any new value is a new request; the one that was served is in
/// `status.observedReconcileRequest`.
pub const RECONCILIATION_REQUEST: &str = "pulumi.com/reconciliation-request";

/// On a Stack: the same, as Flux's tools write it.
pub const FLUX_REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// On a workspace's pod template: the versions of the ConfigMaps and Secrets that the Stack refers to. It is there only
/// after one of them changed, and another value rolls the pod.
pub const REFERENCES: &str = "pulumi.com/references";

/// On an outputs Secret: a JSON array of the keys whose values are secret.
pub const SECRET_OUTPUTS: &str = "pulumi.com/secrets";

/// On a workspace's pod template: what the pod was made for; another value rolls the pod.
pub const REVISION_HASH: &str = "auto.pulumi.com/revision-hash";

/// On a workspace's pod: `true` once its stacks are selected and configured.
pub const INITIALIZED: &str = "auto.pulumi.com/initialized";

/// On an Update: ends its run gently. Any value but `false` and the empty one.
pub const CANCEL: &str = "auto.pulumi.com/cancel";

/// On an Update: how urgent its run is: `destroy`, `change`, `request` or `resync`.
pub const URGENCY: &str = "auto.pulumi.com/urgency";

/// On a Workspace that belongs to nobody: the uid of the Stack whose destroy it was made for. It goes once that Stack has.
pub const DESTROYS: &str = "auto.pulumi.com/destroys";

/// On a workspace's StatefulSet and Service: what of the Workspace they were last applied for, so that the same is not
/// applied again.
pub const APPLIED: &str = "auto.pulumi.com/applied";

/// In the metadata of a Program's artifact: which version of the operator made the archive and
/// checked the Program.
pub const MADE_BY: &str = "pulumi.com/made-by";
