//! A `ValidatingAdmissionPolicy` that warns about Stacks. It rejects none, because upstream's
//! operator accepts such Stacks. `deploy/policies` is generated from it. The operator's conditions
//! report the same problems, for clusters without the policy. No I/O.

use k8s_openapi::Resource as _;
use serde_json::{Value, json};

use crate::{Stack, policy_objects};

/// The name of the policy and of its binding.
pub const NAME: &str = "pulumi-kubernetes-operator-stacks";

/// A CEL expression that later expressions refer to.
struct Variable {
    name: &'static str,
    expression: &'static str,
}

struct Check {
    /// A CEL expression that is true if there is nothing to report.
    holds: &'static str,
    /// A CEL expression for the warning.
    warning: &'static str,
}

const fn variable(name: &'static str, expression: &'static str) -> Variable {
    Variable { name, expression }
}

/// Each may refer to earlier ones. An empty field counts as an absent one.
const VARIABLES: &[Variable] = &[
    variable(
        "git",
        "object.?spec.?projectRepo.orValue('') != '' || object.?spec.?branch.orValue('') != '' || \
         object.?spec.?commit.orValue('') != '' || object.?spec.?repoDir.orValue('') != '' || \
         object.?spec.?shallow.orValue(false) || object.?spec.?gitAuthSecret.orValue('') != '' || \
         object.?spec.?gitAuth.hasValue()",
    ),
    variable(
        "sources",
        "(variables.git ? ['git'] : []) + \
         (object.?spec.?fluxSource.hasValue() ? ['spec.fluxSource'] : []) + \
         (object.?spec.?programRef.hasValue() ? ['spec.programRef'] : [])",
    ),
    variable(
        "credentials",
        "(object.?spec.?gitAuthSecret.orValue('') != '' ? ['spec.gitAuthSecret'] : []) + \
         (object.?spec.?gitAuth.?sshAuth.hasValue() ? ['spec.gitAuth.sshAuth'] : []) + \
         (object.?spec.?gitAuth.?accessToken.hasValue() ? ['spec.gitAuth.accessToken'] : []) + \
         (object.?spec.?gitAuth.?githubApp.hasValue() ? ['spec.gitAuth.githubApp'] : []) + \
         (object.?spec.?gitAuth.?basicAuth.hasValue() ? ['spec.gitAuth.basicAuth'] : [])",
    ),
    // The schema allows any value as config; the operator rejects one that is not a map.
    variable("anyConfig", "object.?spec.?config.orValue({})"),
    variable(
        "config",
        "type(variables.anyConfig) == map ? variables.anyConfig : {}",
    ),
    variable("configRef", "object.?spec.?configRef.orValue({})"),
    variable("configRefs", "object.?spec.?configRefs.orValue({})"),
    variable("secrets", "object.?spec.?secrets.orValue({})"),
    variable("secretsRef", "object.?spec.?secretsRef.orValue({})"),
    variable("envRefs", "object.?spec.?envRefs.orValue({})"),
    variable(
        "repeated",
        "variables.config.filter(k, k in variables.configRef || k in variables.configRefs || \
         k in variables.secrets || k in variables.secretsRef) + \
         variables.configRef.filter(k, k in variables.configRefs || k in variables.secrets || \
         k in variables.secretsRef) + \
         variables.configRefs.filter(k, k in variables.secrets || k in variables.secretsRef) + \
         variables.secrets.filter(k, k in variables.secretsRef)",
    ),
    variable("prerequisites", "object.?spec.?prerequisites.orValue([])"),
    variable(
        "duration",
        "'^[+]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+)$'",
    ),
    variable(
        "durations",
        "variables.prerequisites.map(p, p.?requirement.?succeededWithinDuration.orValue('1s'))\
         .filter(d, !d.matches(variables.duration) || !d.matches('[1-9]'))",
    ),
    variable(
        "own",
        "['', string(object.metadata.?namespace.orValue(''))]",
    ),
    variable(
        "foreign",
        "variables.envRefs.filter(k, \
         !(variables.envRefs[k].?secret.?namespace.orValue('') in variables.own) || \
         !(variables.envRefs[k].?configMap.?namespace.orValue('') in variables.own))\
         .map(k, 'spec.envRefs.' + k) + \
         variables.secretsRef.filter(k, \
         !(variables.secretsRef[k].?secret.?namespace.orValue('') in variables.own))\
         .map(k, 'spec.secretsRef.' + k)",
    ),
];

const CHECKS: &[Check] = &[
    Check {
        holds: "size(variables.sources) < 2",
        warning: "'several sources: only ' + variables.sources[0] + ' is used, not ' + \
                  variables.sources.filter(s, s != variables.sources[0]).join(', ') + '; keep one'",
    },
    Check {
        holds: "size(variables.credentials) < 2",
        warning: "'several credentials: only ' + variables.credentials[0] + ' is used, not ' + \
                  variables.credentials.filter(c, c != variables.credentials[0]).join(', ') + '; keep one'",
    },
    Check {
        holds: "size(variables.repeated) == 0",
        warning: "'spec.config, configRef, configRefs, secrets and secretsRef set a key twice; the Stack will stall: ' + \
                  variables.repeated.join(', ')",
    },
    Check {
        holds: "!variables.prerequisites.exists(p, p.name == object.metadata.?name.orValue(''))",
        warning: "'spec.prerequisites contains the Stack itself; the Stack will stall: ' + object.metadata.name",
    },
    Check {
        holds: "size(variables.durations) == 0",
        warning: "'spec.prerequisites[].requirement.succeededWithinDuration is not a duration such as 10m or 1h30m; the Stack will stall: ' + \
                  variables.durations.join(', ')",
    },
    Check {
        holds: "size(variables.foreign) == 0",
        warning: "'cross-namespace refs are not allowed; the Stack will stall: ' + variables.foreign.join(', ')",
    },
    Check {
        holds: "object.?spec.?resyncFrequencySeconds.orValue(60) >= 60",
        warning: "'spec.resyncFrequencySeconds is below the minimum; 60 is used: ' + \
                  string(object.spec.resyncFrequencySeconds)",
    },
    Check {
        holds: "object.?spec.?retryMaxBackoffDurationSeconds.orValue(0) >= 0",
        warning: "'spec.retryMaxBackoffDurationSeconds is negative; one day is used: ' + \
                  string(object.spec.retryMaxBackoffDurationSeconds)",
    },
];

/// The policy. If it fails, the API server accepts the Stack without a warning.
#[must_use]
pub fn policy() -> Value {
    let variables = VARIABLES
        .iter()
        .map(|variable| json!({ "name": variable.name, "expression": variable.expression }));
    let validations = CHECKS
        .iter()
        .map(|check| json!({ "expression": check.holds, "messageExpression": check.warning }));
    json!({
        "apiVersion": policy_objects::API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": policy_objects::metadata(NAME),
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [Stack::GROUP],
                "apiVersions": [Stack::VERSION],
                "resources": [Stack::URL_PATH_SEGMENT],
                "operations": ["CREATE", "UPDATE"],
                // The default. Without it, each `kubectl apply` would report a change.
                "scope": "*",
            }] },
            "variables": variables.collect::<Vec<_>>(),
            "validations": validations.collect::<Vec<_>>(),
        },
    })
}

/// Binds the policy to the whole cluster, with warnings only.
#[must_use]
pub fn binding() -> Value {
    policy_objects::binding(NAME, &["Warn", "Audit"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_policy_decodes_as_kubernetes_types() {
        use k8s_openapi::api::admissionregistration::v1::{
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        };

        let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy()).unwrap();
        let spec = policy.spec.unwrap();
        assert_eq!(spec.validations.unwrap().len(), CHECKS.len());
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding()).unwrap();
        let spec = binding.spec.unwrap();
        assert_eq!(spec.policy_name, policy.metadata.name);
        let actions = spec.validation_actions.unwrap();
        assert!(
            !actions.contains(&"Deny".to_owned()),
            "the policy rejects nothing"
        );
    }

    #[test]
    fn admission_variables_are_all_used() {
        let used: Vec<String> = VARIABLES
            .iter()
            .map(|variable| variable.expression)
            .chain(CHECKS.iter().flat_map(|check| [check.holds, check.warning]))
            .map(str::to_owned)
            .collect();
        for variable in VARIABLES {
            let name = format!("variables.{}", variable.name);
            assert!(used.iter().any(|text| text.contains(&name)), "{name}");
        }
    }
}
