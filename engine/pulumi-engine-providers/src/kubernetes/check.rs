//! Completes inputs: kind, name, namespace. May ask the server whether a kind is namespaced.

use pulumi_engine_model::property::{Properties, Property};
use serde_json::Value;

use super::{
    Kubernetes, naming, normalize, object, tokens, tokens::ResourceKind, wait::ReadinessRule,
};
use crate::{Call, CheckFailure, CheckRequest, Checked, ProviderError};

impl Kubernetes {
    pub(super) fn check_inputs(
        &self,
        call: &Call<'_>,
        request: &CheckRequest<'_>,
    ) -> Result<Checked, ProviderError> {
        let token = tokens::own(call.urn.qualified_type());
        let given = merge_others(request.inputs);
        let mut inputs = object::from_properties(&given);
        let kind = tokens::kind_of(token, &inputs).map_err(ProviderError::Failed)?;
        let mut failures = contradictions(&inputs, &kind);
        complete_kind(&mut inputs, &kind);
        inputs = normalize::inputs(inputs);
        failures.extend(wrong_metadata(&inputs));
        if let Err(reason) = ReadinessRule::of(&kind, &inputs, &self.settings) {
            failures.push(failure("metadata.annotations", reason));
        }
        let old = request.old.map(object::from_properties);
        naming::complete(
            &mut inputs,
            old.as_ref(),
            call.urn.name(),
            request.random_seed,
        );
        self.complete_namespace(&mut inputs, &kind);
        let mut inputs = object::to_properties(&inputs);
        object::mark_secrets(&mut inputs, &given);
        Ok(Checked { inputs, failures })
    }

    fn complete_namespace(&self, inputs: &mut Value, kind: &ResourceKind) {
        let has_metadata = inputs
            .get("metadata")
            .is_none_or(|it| it.is_object() || it.is_null());
        if has_metadata && object::namespace(inputs).is_none() && self.is_namespaced(kind) {
            let namespace = self.default_namespace().to_owned();
            object::set_metadata(inputs, "namespace", Some(Value::String(namespace)));
        }
    }
}

/// Merges `others`, where some of Pulumi's languages put the fields of custom resources.
fn merge_others(inputs: &Properties) -> Properties {
    let mut merged = inputs.clone();
    if let Some(Property::Object(others)) = merged.remove("otherFields") {
        merged.extend(others);
    }
    merged
}

fn complete_kind(inputs: &mut Value, kind: &ResourceKind) {
    if let Value::Object(entries) = inputs {
        entries.insert("apiVersion".to_owned(), Value::String(kind.api_version()));
        entries.insert("kind".to_owned(), Value::String(kind.kind.clone()));
    }
}

fn failure(property: &str, reason: impl Into<String>) -> CheckFailure {
    CheckFailure {
        property: property.to_owned(),
        reason: reason.into(),
    }
}

/// Failures for inputs whose kind differs from that of the type.
fn contradictions(inputs: &Value, kind: &ResourceKind) -> Vec<CheckFailure> {
    let api_version = kind.api_version();
    [("apiVersion", &api_version), ("kind", &kind.kind)]
        .into_iter()
        .filter_map(|(property, expected)| {
            let given = object::text(inputs, &format!("/{property}"))?;
            (given != expected).then(|| {
                failure(
                    property,
                    format!(
                        "the type of the resource is `{expected}`, not `{given}`: leave it out"
                    ),
                )
            })
        })
        .collect()
}

fn wrong_metadata(inputs: &Value) -> Vec<CheckFailure> {
    let metadata = inputs.get("metadata");
    let is_known = !metadata.is_some_and(object::has_unknown);
    if is_known && metadata.is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return vec![failure("metadata", "must be a map")];
    }
    let generated =
        object::text(inputs, "/metadata/generateName").filter(|_| !naming::is_named(inputs));
    let generated = generated.map(|_| {
        failure(
            "metadata.generateName",
            "is not possible with server-side apply: leave it out, and the object is named after the resource",
        )
    });
    generated.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pulumi_engine_model::urn::Urn;

    /// A provider without a cluster, which these checks do not need.
    fn provider() -> Kubernetes {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "home"}}],
            "users": [{"name": "u", "user": {}}],
        });
        let inputs = Properties::from([(
            "kubeconfig".to_owned(),
            Property::String(kubeconfig.to_string()),
        )]);
        Kubernetes::new(&inputs, &|_| None).unwrap()
    }

    fn properties(value: Value) -> Properties {
        let Property::Object(entries) = Property::from_json(value) else {
            panic!("no object");
        };
        entries
    }

    fn check(token: &str, old: Option<Value>, inputs: Value) -> Checked {
        let urn = Urn::new(format!("urn:pulumi:dev::demo::{token}::web"));
        let call = Call {
            urn: &urn,
            preview: true,
            timeout: None,
            canceled: &|| false,
            status: &|_| {},
        };
        let (old, inputs) = (old.map(properties), properties(inputs));
        let request = CheckRequest {
            old: old.as_ref(),
            inputs: &inputs,
            random_seed: b"seed",
        };
        provider().check(&call, &request).unwrap()
    }

    use crate::Provider;

    #[test]
    fn check_completes_kind_name_namespace() {
        let checked = check(
            "kubernetes:apps/v1:Deployment",
            None,
            json!({"spec": {"replicas": 2}}),
        );
        assert_eq!(checked.failures, []);
        let object = object::from_properties(&checked.inputs);
        assert_eq!(object["apiVersion"], "apps/v1");
        assert_eq!(object["kind"], "Deployment");
        assert_eq!(object["metadata"]["namespace"], "home");
        assert!(object::name(&object).starts_with("web-"));
    }

    #[test]
    fn check_cluster_scoped_gets_no_namespace() {
        for token in [
            "kubernetes:core/v1:Namespace",
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        ] {
            let checked = check(token, None, json!({"metadata": {"name": "a"}}));
            assert_eq!(
                object::from_properties(&checked.inputs)["metadata"],
                json!({"name": "a"})
            );
        }
    }

    #[test]
    fn check_keeps_generated_name() {
        let first = check("kubernetes:core/v1:ConfigMap", None, json!({}));
        let old = object::from_properties(&first.inputs);
        let second = check(
            "kubernetes:core/v1:ConfigMap",
            Some(old),
            json!({"data": {"a": "b"}}),
        );
        assert_eq!(second.inputs["metadata"], first.inputs["metadata"]);
    }

    #[test]
    fn check_secret_string_data_is_secret() {
        let checked = check(
            "kubernetes:core/v1:Secret",
            None,
            json!({"stringData": {"a": "hush"}}),
        );
        assert!(checked.inputs["data"].contains_secret());
        assert!(!checked.inputs.contains_key("stringData"));
        assert!(!format!("{:?}", checked.inputs).contains("aHVzaA"));
    }

    #[test]
    fn check_wrong_inputs_name_property() {
        let cases = [
            (json!({"kind": "Pod"}), "kind", "`ConfigMap`, not `Pod`"),
            (json!({"apiVersion": "v2"}), "apiVersion", "`v1`, not `v2`"),
            (json!({"metadata": "x"}), "metadata", "must be a map"),
            (
                json!({"metadata": {"generateName": "x-"}}),
                "metadata.generateName",
                "leave it out",
            ),
            (
                json!({"metadata": {"annotations": {"pulumi.com/waitFor": "x"}}}),
                "metadata.annotations",
                "condition=",
            ),
        ];
        for (inputs, property, reason) in cases {
            let failures = check("kubernetes:core/v1:ConfigMap", None, inputs).failures;
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert_eq!(failures[0].property, property);
            assert!(failures[0].reason.contains(reason), "{failures:?}");
        }
    }

    #[test]
    fn check_keeps_unknown_inputs() {
        let unknown = json!(pulumi_engine_model::property::UNKNOWN);
        let urn = Urn::new("urn:pulumi:dev::demo::kubernetes:core/v1:ConfigMap::web");
        let call = Call {
            urn: &urn,
            preview: true,
            timeout: None,
            canceled: &|| false,
            status: &|_| {},
        };
        let inputs = object::to_properties(&json!({"metadata": unknown, "data": {"a": unknown}}));
        let request = CheckRequest {
            old: None,
            inputs: &inputs,
            random_seed: b"",
        };
        let checked = provider().check(&call, &request).unwrap();
        assert_eq!(checked.failures, []);
        assert_eq!(checked.inputs["metadata"], Property::Unknown);
        assert_eq!(checked.inputs["data"], inputs["data"]);
    }
}
