//! Made by `cargo xtask generate` from Kubernetes v1.34.4: lists that merge by a key.

use super::{Kind, kind::Field};

pub(super) static CONTAINER: Kind = Kind(&[
    Field::list("env", "name", None),
    Field::list("ports", "containerPort", None),
    Field::list("volumeDevices", "devicePath", None),
    Field::list("volumeMounts", "mountPath", None),
]);

pub(super) static EPHEMERAL_CONTAINER: Kind = Kind(&[
    Field::list("env", "name", None),
    Field::list("ports", "containerPort", None),
    Field::list("volumeDevices", "devicePath", None),
    Field::list("volumeMounts", "mountPath", None),
]);

pub(super) static POD_SPEC: Kind = Kind(&[
    Field::list("containers", "name", Some(&CONTAINER)),
    Field::list("ephemeralContainers", "name", Some(&EPHEMERAL_CONTAINER)),
    Field::list("hostAliases", "ip", None),
    Field::list("imagePullSecrets", "name", None),
    Field::list("initContainers", "name", Some(&CONTAINER)),
    Field::list("resourceClaims", "name", None),
    Field::list("schedulingGates", "name", None),
    Field::list("topologySpreadConstraints", "topologyKey", None),
    Field::list("volumes", "name", None),
]);
