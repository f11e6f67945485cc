//! The table of rights: each is here because the manager uses it, for the reason beside it.

use super::{Right, Role, Scope, Target};

const AUTO: &str = "auto.pulumi.com";
const PULUMI: &str = "pulumi.com";
const FLUX: &str = "source.toolkit.fluxcd.io";

const fn all(group: &'static str, resources: &'static [&'static str]) -> Target {
    Target::Resources {
        group,
        resources,
        names: &[],
    }
}

const fn named(
    group: &'static str,
    resources: &'static [&'static str],
    names: &'static [&'static str],
) -> Target {
    Target::Resources {
        group,
        resources,
        names,
    }
}

const fn right(target: Target, verbs: &'static [&'static str], reason: &'static str) -> Right {
    Right {
        target,
        verbs,
        reason,
    }
}

pub const CONTROLLER_MANAGER: Role = Role {
    name: "pulumi-kubernetes-operator-controller-manager",
    purpose: "rights of the manager in the namespaces that it watches",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[
        // Our four kinds
        right(
            all(PULUMI, &["stacks", "programs"]),
            &["get", "list", "watch"],
            "specs of Stacks and Programs",
        ),
        right(
            all(PULUMI, &["stacks"]),
            &["patch"],
            "the finalizer of a Stack",
        ),
        right(
            all(PULUMI, &["stacks/status", "programs/status"]),
            &["patch"],
            "their status",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["get", "list", "watch"],
            "Workspaces and Updates",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["create", "patch", "delete"],
            "create, apply and delete the Workspaces and Updates of Stacks",
        ),
        right(
            all(AUTO, &["workspaces/status", "updates/status"]),
            &["patch"],
            "status of Workspaces and Updates",
        ),
        right(
            all(PULUMI, &["stacks/finalizers", "programs/finalizers"]),
            &["update"],
            "set owner references that block deletion, where the cluster checks that (OwnerReferencesPermissionEnforcement)",
        ),
        right(
            all(AUTO, &["workspaces/finalizers"]),
            &["update"],
            "owner references to Workspaces, for the same reason",
        ),
        right(
            all(AUTO, &["workspaces/rpc"]),
            &["use"],
            "call agents that authenticate callers by TokenReview",
        ),
        // Workspaces
        right(
            all("", &["services"]),
            &["list", "watch", "create", "patch"],
            "the Service of a workspace, which gives its pod a name",
        ),
        right(
            all("apps", &["statefulsets"]),
            &["list", "watch", "create", "patch"],
            "the StatefulSet of a workspace, which runs its pod",
        ),
        right(
            all("apps", &["statefulsets"]),
            &["delete"],
            "delete a StatefulSet whose immutable fields change",
        ),
        right(
            all("", &["pods"]),
            &["list", "watch"],
            "read the state of workspace pods",
        ),
        right(all("", &["pods"]), &["patch"], "annotate a pod after setup"),
        right(
            all("", &["events"]),
            &["list"],
            "events that explain a missing pod",
        ),
        // Programs
        right(
            all("apps", &["controllerrevisions"]),
            &["get", "list", "create", "delete"],
            "earlier generations of a Program that workspaces still fetch",
        ),
        // Flux
        right(
            all(
                FLUX,
                &[
                    "gitrepositories",
                    "ocirepositories",
                    "buckets",
                    "helmcharts",
                    "externalartifacts",
                ],
            ),
            &["get", "list", "watch"],
            "artifacts that hold the programs of Stacks; other kinds need a role of their own",
        ),
        // Secrets
        right(
            all("", &["secrets"]),
            &["get"],
            "Secrets that an object names: credentials, outputs, and the versions of references",
        ),
        right(
            all("", &["secrets"]),
            &["create"],
            "store a stack's outputs",
        ),
        right(
            all("", &["secrets"]),
            &["patch"],
            "store a stack's outputs in the Secret that `outputsTo` names",
        ),
        // ConfigMaps
        right(
            all("", &["configmaps"]),
            &["get", "list", "watch"],
            "watch resource versions (metadata only; RBAC cannot express that); read the data of a ConfigMap that \
             `outputsTo` or the environment of a process workspace names",
        ),
        right(
            all("", &["configmaps"]),
            &["create", "patch"],
            "store a stack's outputs in the ConfigMap that `outputsTo` names",
        ),
        // Events
        right(
            all("", &["events"]),
            &["create", "patch"],
            "report events, which `kubectl describe` shows",
        ),
    ],
};

pub const LEADER_ELECTION: Role = Role {
    name: "leader-election-role",
    purpose: "leader election: one manager works at a time",
    scope: Scope::OwnNamespace,
    aggregated_to: &[],
    rights: &[
        right(
            all("coordination.k8s.io", &["leases"]),
            &["create"],
            "create the Lease (RBAC cannot restrict `create` by name)",
        ),
        right(
            named("coordination.k8s.io", &["leases"], &["operator.pulumi.com"]),
            &["get", "update"],
            "read and renew the Lease",
        ),
    ],
};

pub const TOKEN_REQUEST: Role = Role {
    name: "token-request-role",
    purpose: "tokens of the manager's service account, for agents that authenticate callers by TokenReview",
    scope: Scope::OwnNamespace,
    aggregated_to: &[],
    rights: &[right(
        named("", &["serviceaccounts/token"], &["controller-manager"]),
        &["create"],
        "request one token for each workspace, with that workspace as its audience",
    )],
};

pub const METRICS_AUTH: Role = Role {
    name: "metrics-auth-role",
    purpose: "authenticate and authorize clients of the metrics endpoint",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[
        right(
            all("authentication.k8s.io", &["tokenreviews"]),
            &["create"],
            "authenticate the client",
        ),
        right(
            all("authorization.k8s.io", &["subjectaccessreviews"]),
            &["create"],
            "authorize the client",
        ),
    ],
};

/// No binding of ours: a user binds it to the service account of the scraper.
pub const METRICS_READER: Role = Role {
    name: "metrics-reader",
    purpose: "read metrics; bind it to the scraper's service account",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(Target::Path("/metrics"), &["get"], "read metrics")],
};

pub const EDIT: Role = Role {
    name: "pulumi-kubernetes-operator-edit",
    purpose: "edit access for users of a namespace",
    scope: Scope::Cluster,
    aggregated_to: &["admin", "edit"],
    rights: &[
        right(
            all(PULUMI, &["stacks", "programs"]),
            &["create", "delete", "deletecollection", "patch", "update"],
            "specs of Stacks and Programs",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["create", "delete", "deletecollection", "patch", "update"],
            "Workspaces and Updates",
        ),
    ],
};

pub const VIEW: Role = Role {
    name: "pulumi-kubernetes-operator-view",
    purpose: "view access for users of a namespace",
    scope: Scope::Cluster,
    aggregated_to: &["admin", "edit", "view"],
    rights: &[
        right(
            all(
                PULUMI,
                &["stacks", "stacks/status", "programs", "programs/status"],
            ),
            &["get", "list", "watch"],
            "Stacks and Programs with status",
        ),
        right(
            all(
                AUTO,
                &[
                    "workspaces",
                    "workspaces/status",
                    "updates",
                    "updates/status",
                ],
            ),
            &["get", "list", "watch"],
            "Workspaces and Updates",
        ),
    ],
};

pub const PROCESS_WORKSPACES: Role = Role {
    name: "pulumi-kubernetes-operator-process-workspaces",
    purpose: "for a manager with `--workspace-runtime process`, in addition to the other roles",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(
        named("", &["namespaces"], &["kube-system"]),
        &["get"],
        "identify the cluster: a workspace folder is for one cluster",
    )],
};

pub const WATCH_SECRETS: Role = Role {
    name: "pulumi-kubernetes-operator-watch-secrets",
    purpose: "for a manager with `--watch-secrets`, in addition to the other roles; it grants read access to every Secret in its scope",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(
        all("", &["secrets"]),
        &["list", "watch"],
        "watch resource versions (metadata only; RBAC cannot express that)",
    )],
};
