//! Readiness of objects, by kind or as the program configures it. Only [`until`] does I/O.

mod claim;
mod conditions;
mod definition;
mod expression;
mod job;
mod pod;
mod service;
pub(crate) mod until;
mod workload;

use std::time::Duration;

use serde_json::Value;

use super::{object, settings::KubernetesConfig, tokens::ResourceKind};
use expression::Expression;

const SKIP: &str = "pulumi.com/skipAwait";
const WAIT_FOR: &str = "pulumi.com/waitFor";
const TIMEOUT: &str = "pulumi.com/timeoutSeconds";
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
const VOLUME_TIMEOUT: Duration = Duration::from_mins(5);

/// The readiness of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    Ready,
    Waiting(Vec<String>),
    /// It will not become ready, for these reasons.
    Failed(Vec<String>),
}

impl Progress {
    fn waiting(reason: impl Into<String>) -> Self {
        Self::Waiting(vec![reason.into()])
    }
}

/// An object and related ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Observation {
    pub object: Value,
    /// Its pods, if they matter and access is allowed.
    pub pods: Vec<Value>,
    /// The `EndpointSlice`s of a Service; none if access is denied.
    pub slices: Option<Vec<Value>>,
    /// The `StorageClass` of a claim.
    pub storage_class: Option<Value>,
    /// Whether nothing has changed for a while.
    pub settled: bool,
}

/// The rule that decides whether an object is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadinessRule {
    /// Deployments, by their rollout.
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicationController,
    Job,
    Pod,
    /// By endpoints and addresses.
    Service,
    /// By addresses.
    Ingress,
    Claim,
    Volume,
    Quota,
    /// Tokens that a controller writes.
    Token,
    Definition,
    /// Any kind, by standard conditions.
    Conditions,
    /// As the program configures it.
    Expressions(Vec<Expression>),
}

impl ReadinessRule {
    /// The rule of an object; none if it is ready once it exists. Fails for malformed annotations.
    pub(super) fn of(
        kind: &ResourceKind,
        inputs: &Value,
        settings: &KubernetesConfig,
    ) -> Result<Option<Self>, String> {
        if object::is_annotated(inputs, SKIP) {
            return Ok(None);
        }
        if let Some(text) = object::annotation(inputs, WAIT_FOR).filter(|text| !text.is_empty()) {
            return Ok(Some(Self::Expressions(Expression::parse_all(text)?)));
        }
        Ok(Self::of_kind(kind, inputs).or(settings.await_all.then_some(Self::Conditions)))
    }

    fn of_kind(kind: &ResourceKind, inputs: &Value) -> Option<Self> {
        Some(match (kind.group.as_str(), kind.kind.as_str()) {
            ("apps", "Deployment") => Self::Deployment,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("apps", "DaemonSet") => Self::DaemonSet,
            ("", "ReplicationController") => Self::ReplicationController,
            ("batch", "Job") => Self::Job,
            ("", "Pod") => Self::Pod,
            ("", "Service") => Self::Service,
            ("networking.k8s.io", "Ingress") => Self::Ingress,
            ("", "PersistentVolumeClaim") => Self::Claim,
            ("", "PersistentVolume") => Self::Volume,
            ("", "ResourceQuota") => Self::Quota,
            ("", "Secret")
                if object::text(inputs, "/type") == Some("kubernetes.io/service-account-token") =>
            {
                Self::Token
            }
            _ if kind.is_definition() => Self::Definition,
            _ => return None,
        })
    }

    /// The readiness of the object.
    #[must_use]
    pub(super) fn judge(&self, sight: &Observation) -> Progress {
        match self {
            Self::Deployment => workload::deployment(sight),
            Self::StatefulSet => workload::stateful_set(sight),
            Self::DaemonSet => workload::daemon_set(sight),
            Self::ReplicationController => workload::replication_controller(sight),
            Self::Job => job::judge(sight),
            Self::Pod => pod::judge(&sight.object),
            Self::Service => service::judge(sight),
            Self::Ingress => service::ingress(&sight.object),
            Self::Claim => claim::judge(sight),
            Self::Volume => claim::volume(&sight.object),
            Self::Quota => definition::quota(&sight.object),
            Self::Token => definition::token(&sight.object),
            Self::Definition => definition::definition(&sight.object),
            Self::Conditions => conditions::judge(&sight.object),
            Self::Expressions(expressions) => expression::judge(expressions, &sight.object),
        }
    }

    /// The selector of the pods that explain why the object is not ready.
    #[must_use]
    pub(super) fn pod_selector(&self, object: &Value) -> Option<String> {
        let pointer = match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::Job => {
                "/spec/selector/matchLabels"
            }
            Self::ReplicationController => "/spec/selector",
            _ => return None,
        };
        let labels = object.pointer(pointer)?.as_object()?;
        let parts: Vec<_> = labels
            .iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
            .collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// Whether a refresh reports that the object is not ready. Other kinds are only checked after
    /// an apply.
    #[must_use]
    pub(super) fn is_heeded_by_refresh(&self) -> bool {
        matches!(
            self,
            Self::Deployment
                | Self::StatefulSet
                | Self::DaemonSet
                | Self::Job
                | Self::Pod
                | Self::Service
                | Self::Ingress
        )
    }

    /// The default timeout.
    #[must_use]
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Claim | Self::Volume => VOLUME_TIMEOUT,
            _ => DEFAULT_TIMEOUT,
        }
    }
}

/// The timeout of the program: the option overrides the annotation.
#[must_use]
pub(super) fn timeout(option: Option<Duration>, inputs: &Value) -> Option<Duration> {
    option.or_else(|| {
        let seconds = object::annotation(inputs, TIMEOUT)?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    })
}

/// The timeout of a deletion.
#[must_use]
pub(super) fn deletion_timeout(option: Option<Duration>, inputs: &Value) -> Duration {
    timeout(option, inputs).unwrap_or(DEFAULT_TIMEOUT)
}

/// Whether not to wait for a deletion. Only these kinds follow the annotation then.
#[must_use]
pub(super) fn skips_deletion(kind: &ResourceKind, inputs: &Value) -> bool {
    let heeds = matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        ("", "Namespace" | "Pod" | "ReplicationController")
            | ("apps", "DaemonSet" | "Deployment" | "StatefulSet")
            | ("batch", "Job")
    );
    heeds && object::is_annotated(inputs, SKIP)
}

/// Whether the controller has observed the current generation.
fn is_observed(object: &Value) -> bool {
    let generation = object::number(object, "/metadata/generation").unwrap_or(0);
    object::number(object, "/status/observedGeneration").unwrap_or(0) >= generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(api_version: &str, kind: &str, inputs: &Value) -> Option<ReadinessRule> {
        ReadinessRule::of(
            &ResourceKind::new(api_version, kind),
            inputs,
            &KubernetesConfig::default(),
        )
        .unwrap()
    }

    #[test]
    fn readiness_rule_of_kind() {
        let cases = [
            ("apps/v1", "Deployment", Some(ReadinessRule::Deployment)),
            ("apps/v1", "StatefulSet", Some(ReadinessRule::StatefulSet)),
            ("apps/v1", "DaemonSet", Some(ReadinessRule::DaemonSet)),
            ("batch/v1", "Job", Some(ReadinessRule::Job)),
            ("batch/v1", "CronJob", None),
            ("v1", "Pod", Some(ReadinessRule::Pod)),
            ("v1", "Service", Some(ReadinessRule::Service)),
            ("v1", "ConfigMap", None),
            ("v1", "Namespace", None),
            ("v1", "Secret", None),
            ("v1", "PersistentVolumeClaim", Some(ReadinessRule::Claim)),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                Some(ReadinessRule::Definition),
            ),
            ("pulumi.com/v1", "Stack", None),
            ("example.com/v1", "Deployment", None),
        ];
        for (api_version, kind, expected) in cases {
            assert_eq!(judge(api_version, kind, &json!({})), expected, "{kind}");
        }
        let token = json!({"type": "kubernetes.io/service-account-token"});
        assert_eq!(judge("v1", "Secret", &token), Some(ReadinessRule::Token));
    }

    #[test]
    fn readiness_annotation_overrides_kind() {
        let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
        assert_eq!(
            judge("apps/v1", "Deployment", &annotated(SKIP, "true")),
            None
        );
        assert_eq!(
            judge("apps/v1", "Deployment", &annotated(SKIP, "false")),
            Some(ReadinessRule::Deployment)
        );
        let custom = judge(
            "pulumi.com/v1",
            "Stack",
            &annotated(WAIT_FOR, "condition=Ready"),
        );
        assert!(matches!(custom, Some(ReadinessRule::Expressions(_))));
        let wrong = annotated(WAIT_FOR, "whatever");
        let refusal = ReadinessRule::of(
            &ResourceKind::new("v1", "Pod"),
            &wrong,
            &KubernetesConfig::default(),
        )
        .unwrap_err();
        assert!(refusal.contains("whatever"), "{refusal}");
    }

    #[test]
    fn readiness_of_any_kind_is_opt_in() {
        let settings = KubernetesConfig {
            await_all: true,
            ..KubernetesConfig::default()
        };
        let kind = ResourceKind::new("pulumi.com/v1", "Stack");
        assert_eq!(
            ReadinessRule::of(&kind, &json!({}), &settings),
            Ok(Some(ReadinessRule::Conditions))
        );
    }

    #[test]
    fn timeout_option_overrides_annotation() {
        let inputs = json!({"metadata": {"annotations": {TIMEOUT: "7"}}});
        let seconds = Duration::from_secs;
        assert_eq!(timeout(Some(seconds(3)), &inputs), Some(seconds(3)));
        assert_eq!(timeout(None, &inputs), Some(seconds(7)));
        assert_eq!(timeout(None, &json!({})), None);
        assert_eq!(deletion_timeout(None, &json!({})), DEFAULT_TIMEOUT);
        let nonsense = json!({"metadata": {"annotations": {TIMEOUT: "soon"}}});
        assert_eq!(timeout(None, &nonsense), None);
    }

    #[test]
    fn readiness_pods_match_selector() {
        let object =
            json!({"spec": {"selector": {"matchLabels": {"app": "web", "tier": "front"}}}});
        assert_eq!(
            ReadinessRule::Deployment.pod_selector(&object).as_deref(),
            Some("app=web,tier=front")
        );
        assert_eq!(ReadinessRule::Service.pod_selector(&object), None);
        assert_eq!(ReadinessRule::Job.pod_selector(&json!({})), None);
    }

    #[test]
    fn skip_await_on_delete_is_limited_to_kinds() {
        let inputs = json!({"metadata": {"annotations": {SKIP: "true"}}});
        assert!(skips_deletion(
            &ResourceKind::new("v1", "Namespace"),
            &inputs
        ));
        assert!(!skips_deletion(
            &ResourceKind::new("v1", "ConfigMap"),
            &inputs
        ));
        assert!(!skips_deletion(
            &ResourceKind::new("v1", "Namespace"),
            &json!({})
        ));
    }
}
