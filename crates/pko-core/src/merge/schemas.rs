//! Made by `cargo xtask generate` from Kubernetes v1.34.4: lists that merge by a key.

use super::{MergeSchema, schema::MergeField};

pub(super) static CONTAINER: MergeSchema = MergeSchema(&[
    MergeField::list("env", "name", None),
    MergeField::list("ports", "containerPort", None),
    MergeField::list("volumeDevices", "devicePath", None),
    MergeField::list("volumeMounts", "mountPath", None),
]);

pub(super) static EPHEMERAL_CONTAINER: MergeSchema = MergeSchema(&[
    MergeField::list("env", "name", None),
    MergeField::list("ports", "containerPort", None),
    MergeField::list("volumeDevices", "devicePath", None),
    MergeField::list("volumeMounts", "mountPath", None),
]);

pub(super) static POD_SPEC: MergeSchema = MergeSchema(&[
    MergeField::list("containers", "name", Some(&CONTAINER)),
    MergeField::list("ephemeralContainers", "name", Some(&EPHEMERAL_CONTAINER)),
    MergeField::list("hostAliases", "ip", None),
    MergeField::list("imagePullSecrets", "name", None),
    MergeField::list("initContainers", "name", Some(&CONTAINER)),
    MergeField::list("resourceClaims", "name", None),
    MergeField::list("schedulingGates", "name", None),
    MergeField::list("topologySpreadConstraints", "topologyKey", None),
    MergeField::list("volumes", "name", None),
]);
