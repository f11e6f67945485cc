//! The table of rights. A right that is not needed any more is taken out here.

use super::{Right, Role, Scope, Target};

const AUTO: &str = "auto.pulumi.com";
const PULUMI: &str = "pulumi.com";
const FLUX: &str = "source.toolkit.fluxcd.io";

/// Any object of these kinds.
const fn all(group: &'static str, resources: &'static [&'static str]) -> Target {
    Target::Resources {
        group,
        resources,
        names: &[],
    }
}

/// The objects of these kinds that have these names.
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

/// What the manager does in the namespaces that it works in.
pub const CONTROLLER_MANAGER: Role = Role {
    name: "pulumi-kubernetes-operator-controller-manager",
    purpose: "what the manager does in the namespaces that it works in",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[
        // Our four kinds
        right(
            all(PULUMI, &["stacks", "programs"]),
            &["get", "list", "watch"],
            "what is wanted",
        ),
        right(all(PULUMI, &["stacks"]), &["patch"], "the finalizer"),
        right(
            all(PULUMI, &["stacks/status", "programs/status"]),
            &["patch"],
            "what came of it",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["get", "list", "watch"],
            "what was made of it, or by hand",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["create", "patch", "delete"],
            "a Stack's Workspace and its Updates",
        ),
        right(
            all(AUTO, &["workspaces/status", "updates/status"]),
            &["patch"],
            "what came of them",
        ),
        right(
            all(PULUMI, &["stacks/finalizers", "programs/finalizers"]),
            &["update"],
            "to own what blocks a deletion, where the cluster checks that (OwnerReferencesPermissionEnforcement)",
        ),
        right(
            all(AUTO, &["workspaces/finalizers"]),
            &["update"],
            "the same",
        ),
        right(
            all(AUTO, &["workspaces/rpc"]),
            &["use"],
            "to call agents that ask the API server who calls",
        ),
        // Workspaces
        right(
            all("", &["services"]),
            &["list", "watch", "create", "patch"],
            "the name of a workspace",
        ),
        right(
            all("apps", &["statefulsets"]),
            &["list", "watch", "create", "patch"],
            "the pod of a workspace",
        ),
        right(
            all("apps", &["statefulsets"]),
            &["delete"],
            "one that can't be changed to what is wanted is made anew",
        ),
        right(
            all("", &["pods"]),
            &["list", "watch"],
            "whether a workspace's pod runs, where, and if not, why",
        ),
        right(
            all("", &["pods"]),
            &["patch"],
            "the mark of a pod that has been set up",
        ),
        right(all("", &["events"]), &["list"], "why there is no pod"),
        // Programs
        right(
            all("apps", &["controllerrevisions"]),
            &["get", "list", "create", "delete"],
            "the earlier generations of a Program that workspaces still fetch",
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
            "the artifacts that Stacks take their programs from; other kinds need a role of their own",
        ),
        // Secrets
        right(
            all("", &["secrets"]),
            &["get"],
            "credentials and outputs that an object names, and the versions of what Stacks refer to",
        ),
        right(all("", &["secrets"]), &["create"], "a stack's outputs"),
        right(
            all("", &["secrets"]),
            &["patch"],
            "a stack's outputs in the Secret that `outputsTo` names",
        ),
        // ConfigMaps
        right(
            all("", &["configmaps"]),
            &["get", "list", "watch"],
            "the versions of those that Stacks refer to, of which metadata alone is asked for; what one holds that \
             `outputsTo` names, or the environment of a process",
        ),
        right(
            all("", &["configmaps"]),
            &["create", "patch"],
            "a stack's outputs in the ConfigMap that `outputsTo` names",
        ),
        // What people see
        right(
            all("", &["events"]),
            &["create", "patch"],
            "what happened, for `kubectl describe`",
        ),
    ],
};

/// One manager at a time.
pub const LEADER_ELECTION: Role = Role {
    name: "leader-election-role",
    purpose: "one manager at a time",
    scope: Scope::OwnNamespace,
    aggregated_to: &[],
    rights: &[
        right(
            all("coordination.k8s.io", &["leases"]),
            &["create"],
            "the first manager makes it; a name can't be prescribed for that",
        ),
        right(
            named("coordination.k8s.io", &["leases"], &["operator.pulumi.com"]),
            &["get", "update"],
            "who leads, and since when",
        ),
    ],
};

/// Tokens of the manager's own account.
pub const TOKEN_REQUEST: Role = Role {
    name: "token-request-role",
    purpose: "tokens of the manager's own account for agents that ask the API server who calls",
    scope: Scope::OwnNamespace,
    aggregated_to: &[],
    rights: &[right(
        named("", &["serviceaccounts/token"], &["controller-manager"]),
        &["create"],
        "one for each workspace, with that workspace as its audience",
    )],
};

/// Who asks for metrics.
pub const METRICS_AUTH: Role = Role {
    name: "metrics-auth-role",
    purpose: "who asks for metrics, and whether he may",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[
        right(
            all("authentication.k8s.io", &["tokenreviews"]),
            &["create"],
            "who asks",
        ),
        right(
            all("authorization.k8s.io", &["subjectaccessreviews"]),
            &["create"],
            "whether he may",
        ),
    ],
};

/// For whoever scrapes metrics; bound by who installs that.
pub const METRICS_READER: Role = Role {
    name: "metrics-reader",
    purpose: "for whoever scrapes metrics; to be bound to his account",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(Target::Path("/metrics"), &["get"], "the metrics")],
};

/// For people who may change things in a namespace.
pub const EDIT: Role = Role {
    name: "pulumi-kubernetes-operator-edit",
    purpose: "for people who may change things in a namespace",
    scope: Scope::Cluster,
    aggregated_to: &["admin", "edit"],
    rights: &[
        right(
            all(PULUMI, &["stacks", "programs"]),
            &["create", "delete", "deletecollection", "patch", "update"],
            "what they want",
        ),
        right(
            all(AUTO, &["workspaces", "updates"]),
            &["create", "delete", "deletecollection", "patch", "update"],
            "the same by hand",
        ),
    ],
};

/// For people who may see things in a namespace.
pub const VIEW: Role = Role {
    name: "pulumi-kubernetes-operator-view",
    purpose: "for people who may see things in a namespace",
    scope: Scope::Cluster,
    aggregated_to: &["admin", "edit", "view"],
    rights: &[
        right(
            all(
                PULUMI,
                &["stacks", "stacks/status", "programs", "programs/status"],
            ),
            &["get", "list", "watch"],
            "what is wanted, and what came of it",
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
            "what was made of it",
        ),
    ],
};

/// What a manager needs besides whose workspaces are processes beside it.
pub const PROCESS_WORKSPACES: Role = Role {
    name: "pulumi-kubernetes-operator-process-workspaces",
    purpose: "for a manager with `--workspace-runtime process`, besides the other roles",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(
        named("", &["namespaces"], &["kube-system"]),
        &["get"],
        "which cluster this is: its folder is for one cluster",
    )],
};

/// What a manager needs besides that is to notice at once when a Secret changes.
pub const WATCH_SECRETS: Role = Role {
    name: "pulumi-kubernetes-operator-watch-secrets",
    purpose: "for a manager with `--watch-secrets`, besides the other roles: whoever has it can read every Secret where it is bound",
    scope: Scope::Cluster,
    aggregated_to: &[],
    rights: &[right(
        all("", &["secrets"]),
        &["list", "watch"],
        "the versions of those that Stacks refer to: metadata alone is asked for, which no rule can demand",
    )],
};
