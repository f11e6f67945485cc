//! Readiness of Services and Ingresses.

use serde_json::Value;

use super::{Observation, Progress};
use crate::kubernetes::object::{list, text};

/// A Service is ready when its pods are, and a load balancer has an address.
///
/// One without pods is ready once nothing changes any more, because later resources may create
/// them.
pub(super) fn judge(sight: &Observation) -> Progress {
    let mut reasons = Vec::new();
    let kind = text(&sight.object, "/spec/type").unwrap_or("ClusterIP");
    if kind == "LoadBalancer" && list(&sight.object, "/status/loadBalancer/ingress").is_empty() {
        reasons.push(
            "the load balancer of the Service has no address yet; does the cluster give out any?"
                .to_owned(),
        );
    }
    if kind != "ExternalName" && has_pods(&sight.object) {
        reasons.extend(endpoints(sight));
    }
    if reasons.is_empty() {
        Progress::Ready
    } else {
        Progress::Waiting(reasons)
    }
}

fn has_pods(service: &Value) -> bool {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    text(service, "/spec/clusterIP") != Some("None")
        && selector.is_some_and(|selector| !selector.is_empty())
}

/// Missing endpoints; empty if access is denied.
fn endpoints(sight: &Observation) -> Option<String> {
    let slices = sight.slices.as_ref()?;
    let all = || slices.iter().flat_map(|slice| list(slice, "/endpoints"));
    let is_ready =
        |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let (known, ready) = (all().count(), all().filter(is_ready).count());
    if ready < known {
        return Some(format!("{ready} of {known} pods of the Service are ready"));
    }
    (known == 0 && !sight.settled).then(|| {
        "the Service has no pods yet; `spec.selector` may not match the labels of any".to_owned()
    })
}

/// An Ingress is ready when it has an address.
pub(super) fn ingress(object: &Value) -> Progress {
    if list(object, "/status/loadBalancer/ingress").is_empty() {
        return Progress::waiting(
            "no controller gave the Ingress an address yet; is there one for its class?",
        );
    }
    Progress::Ready
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slices(ready: &[bool]) -> Vec<Value> {
        let endpoints: Vec<_> = ready
            .iter()
            .map(|ready| json!({"conditions": {"ready": ready}}))
            .collect();
        vec![json!({"endpoints": endpoints})]
    }

    #[test]
    fn service_is_ready_when_endpoints_are() {
        let plain = json!({"spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1"}});
        let cases = [
            (
                "ready pods",
                plain.clone(),
                Some(slices(&[true, true])),
                false,
                true,
            ),
            (
                "a pod is not ready",
                plain.clone(),
                Some(slices(&[true, false])),
                true,
                false,
            ),
            ("no pods yet", plain.clone(), Some(vec![]), false, false),
            (
                "no pods at all",
                plain.clone(),
                Some(slices(&[])),
                true,
                true,
            ),
            ("no right to look", plain, None, false, true),
            (
                "headless",
                json!({"spec": {"selector": {"app": "web"}, "clusterIP": "None"}}),
                Some(vec![]),
                false,
                true,
            ),
            (
                "another name",
                json!({"spec": {"type": "ExternalName", "selector": {"a": "b"}}}),
                Some(vec![]),
                false,
                true,
            ),
            (
                "without selector",
                json!({"spec": {"clusterIP": "10.0.0.1"}}),
                Some(vec![]),
                false,
                true,
            ),
        ];
        for (case, object, slices, settled, ready) in cases {
            let progress = judge(&Observation {
                object,
                slices,
                settled,
                ..Observation::default()
            });
            assert_eq!(progress == Progress::Ready, ready, "{case}: {progress:?}");
        }
    }

    #[test]
    fn load_balancer_needs_address() {
        let object = |status: Value| json!({"spec": {"type": "LoadBalancer"}, "status": status});
        let judged = |object| {
            judge(&Observation {
                object,
                ..Observation::default()
            })
        };
        assert_eq!(
            judged(object(
                json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})
            )),
            Progress::Ready
        );
        assert!(matches!(
            judged(object(json!({"loadBalancer": {}}))),
            Progress::Waiting(_)
        ));
        assert_eq!(
            ingress(&object(
                json!({"loadBalancer": {"ingress": [{"hostname": "x"}]}})
            )),
            Progress::Ready
        );
        assert!(matches!(ingress(&json!({})), Progress::Waiting(_)));
    }
}
