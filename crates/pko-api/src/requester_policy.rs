//! A `ValidatingAdmissionPolicy` that denies Stacks and Workspaces whose requester could not run
//! their pod. Does no I/O.
//!
//! Without it, a right to create Stacks is a right to run any pod as any service account of the
//! namespace, because the manager creates the pod. It is not part of the installation: upstream has
//! no such check. `deploy/policies/requesters.yaml` is generated from this file.

use serde_json::{Value, json};

use crate::policy_objects;

/// The name of the policy and of its binding.
pub const NAME: &str = "pulumi-kubernetes-operator-requesters";

/// The manager creates Workspaces only for Stacks that were checked.
const IS_NOT_MANAGER: &str = "request.userInfo.username != \
     'system:serviceaccount:pulumi-kubernetes-operator:controller-manager'";
/// Changes of labels and finalizers start no other pod.
const CHANGES_SPEC: &str =
    "request.operation == 'CREATE' || object.?spec.orValue({}) != oldObject.?spec.orValue({})";

/// The service accounts in a spec. The template of a Stack sets those of its Workspace.
const ACCOUNTS: &str = "[object.?spec.?serviceAccountName.orValue(''), \
     object.?spec.?podTemplate.?spec.?serviceAccountName.orValue(''), \
     object.?spec.?podTemplate.?spec.?serviceAccount.orValue(''), \
     object.?spec.?workspaceTemplate.?spec.?serviceAccountName.orValue(''), \
     object.?spec.?workspaceTemplate.?spec.?podTemplate.?spec.?serviceAccountName.orValue(''), \
     object.?spec.?workspaceTemplate.?spec.?podTemplate.?spec.?serviceAccount.orValue('')]\
     .filter(a, a != '' && a != 'default')";
/// Not usable in messages, which the API server evaluates without `authorizer`.
///
/// Kubernetes has no verb for running a pod as a service account. Its role `edit` includes
/// `impersonate`; `use` is for users who should get nothing else.
const DENIED: &str = "variables.accounts.filter(a, \
     !authorizer.group('').resource('serviceaccounts').namespace(object.metadata.namespace).name(a)\
     .check('impersonate').allowed() && \
     !authorizer.group('').resource('serviceaccounts').namespace(object.metadata.namespace).name(a)\
     .check('use').allowed())";
const MAY_CREATE_PODS: &str = "authorizer.group('').resource('pods')\
     .namespace(object.metadata.namespace).check('create').allowed()";

/// The policy. If it fails, the API server rejects the object.
#[must_use]
pub fn policy() -> Value {
    let rule = |group: &str, version: &str, resource: &str| {
        json!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        })
    };
    json!({
        "apiVersion": policy_objects::API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": policy_objects::metadata(NAME),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [
                rule("pulumi.com", "v1", "stacks"),
                rule("auto.pulumi.com", "v1alpha1", "workspaces"),
            ] },
            "matchConditions": [
                { "name": "is-not-manager", "expression": IS_NOT_MANAGER },
                { "name": "changes-spec", "expression": CHANGES_SPEC },
            ],
            "variables": [
                { "name": "accounts", "expression": ACCOUNTS },
                { "name": "denied", "expression": DENIED },
            ],
            "validations": [
                {
                    "expression": MAY_CREATE_PODS,
                    "messageExpression":
                        "'its workspace is a pod, and you may not create pods in namespace ' + \
                         object.metadata.namespace + '; ask for that right'",
                    "reason": "Forbidden",
                },
                {
                    "expression": "size(variables.denied) == 0",
                    "messageExpression":
                        "'you may not run pods as service account ' + variables.accounts.join(' or ') + \
                         '; ask for the verb use on it'",
                    "reason": "Forbidden",
                },
            ],
        },
    })
}

/// Binds the policy to the whole cluster.
#[must_use]
pub fn binding() -> Value {
    policy_objects::binding(NAME, &["Deny"])
}
