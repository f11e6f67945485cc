//! Polls an object until it is ready or deleted.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Observation, Progress, ReadinessRule};
use crate::{
    Call,
    kubernetes::{
        cluster::Cluster,
        discovery::{Address, ServedKind},
        errors::KubernetesError,
        object, requests,
        tokens::ResourceKind,
    },
};

/// How long nothing must change before a Service without pods counts as ready.
const SETTLING: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An object that is not ready, and why.
pub(crate) struct Unready {
    /// The object as last seen.
    pub(crate) object: Value,
    pub(crate) reasons: Vec<String>,
}

/// Waits until an object is ready, and returns it.
pub(crate) fn ready(
    cluster: &Cluster,
    call: &Call<'_>,
    judge: &ReadinessRule,
    address: &Address,
    object: Value,
    timeout: Duration,
) -> Result<Value, Unready> {
    let mut look = Lookup {
        cluster,
        call,
        judge,
        address,
        object,
        settling: Settling::default(),
    };
    let end = Instant::now() + timeout;
    let mut pauses = requests::pauses();
    loop {
        let waiting = match look.once() {
            Progress::Ready => return Ok(look.object),
            Progress::Failed(reasons) => return Err(look.unready("failed", reasons)),
            Progress::Waiting(reasons) => reasons,
        };
        (call.status)(&waiting.join("; "));
        if Instant::now() >= end {
            return Err(look.unready("timed out waiting to be ready", waiting));
        }
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        let pause = pause.min(end.saturating_duration_since(Instant::now()));
        if !requests::pause(call, pause) {
            return Err(look.unready("the wait was canceled before it was ready", waiting));
        }
    }
}

/// Checks once whether an existing object is ready.
pub(crate) fn unwell(
    cluster: &Cluster,
    call: &Call<'_>,
    judge: &ReadinessRule,
    address: &Address,
    object: &Value,
) -> Vec<String> {
    let mut look = Lookup {
        cluster,
        call,
        judge,
        address,
        object: object.clone(),
        settling: Settling::default(),
    };
    let sight = look.sight().map(|sight| Observation {
        settled: true,
        ..sight
    });
    match sight.map(|sight| judge.judge(&sight)) {
        Ok(Progress::Waiting(reasons) | Progress::Failed(reasons)) => {
            look.unready("is not ready", reasons).reasons
        }
        // without access there is nothing to report
        Ok(Progress::Ready) | Err(_) => Vec::new(),
    }
}

struct Lookup<'a> {
    cluster: &'a Cluster,
    call: &'a Call<'a>,
    judge: &'a ReadinessRule,
    address: &'a Address,
    object: Value,
    settling: Settling,
}

impl Lookup<'_> {
    fn once(&mut self) -> Progress {
        let seen = requests::with_retries(self.cluster, self.call, || {
            requests::read(self.cluster, self.address)
        });
        match seen {
            Ok(Some(object)) => self.object = object,
            Ok(None) => {
                return Progress::Failed(vec!["it was deleted by another client".to_owned()]);
            }
            Err(failure) => return Progress::Waiting(vec![failure.to_string()]),
        }
        match self.sight() {
            Ok(sight) => self.judge.judge(&sight),
            Err(failure) => Progress::Waiting(vec![failure.to_string()]),
        }
    }

    fn sight(&mut self) -> Result<Observation, KubernetesError> {
        let mut sight = Observation {
            object: self.object.clone(),
            ..Observation::default()
        };
        let labels = self.judge.pod_selector(&self.object);
        if let Some(labels) = labels {
            sight.pods = self
                .list(&ResourceKind::new("v1", "Pod"), "pods", &labels)?
                .unwrap_or_default();
        }
        match self.judge {
            ReadinessRule::Service => {
                let labels = format!("kubernetes.io/service-name={}", object::name(&self.object));
                let kind = ResourceKind::new("discovery.k8s.io/v1", "EndpointSlice");
                sight.slices = self.list(&kind, "endpointslices", &labels)?;
                sight.settled = self
                    .settling
                    .observe(&[&self.object, &versions(sight.slices.as_deref())]);
            }
            ReadinessRule::Claim => sight.storage_class = self.storage_class()?,
            _ => {}
        }
        Ok(sight)
    }

    fn list(
        &self,
        kind: &ResourceKind,
        plural: &str,
        labels: &str,
    ) -> Result<Option<Vec<Value>>, KubernetesError> {
        let served = ServedKind {
            plural: plural.to_owned(),
            namespaced: true,
        };
        let namespace = self.address.namespace.as_deref();
        let place = Address::new(
            kind.clone(),
            &served,
            namespace,
            self.cluster.namespace(),
            "",
        );
        requests::with_retries(self.cluster, self.call, || {
            requests::list(self.cluster, &place.collection, labels)
        })
    }

    fn storage_class(&self) -> Result<Option<Value>, KubernetesError> {
        let Some(name) = object::text(&self.object, "/spec/storageClassName") else {
            return Ok(None);
        };
        let served = ServedKind {
            plural: "storageclasses".to_owned(),
            namespaced: false,
        };
        let kind = ResourceKind::new("storage.k8s.io/v1", "StorageClass");
        let address = Address::new(kind, &served, None, "", name);
        match requests::read(self.cluster, &address) {
            Err(failure) if failure.is_forbidden() => Ok(None),
            result => result,
        }
    }

    fn unready(self, what: &str, reasons: Vec<String>) -> Unready {
        let mut all = vec![format!("{} {what}", self.address.describe())];
        all.extend(reasons);
        Unready {
            object: self.object,
            reasons: all,
        }
    }
}

fn versions(slices: Option<&[Value]>) -> Value {
    let slices = slices.unwrap_or_default().iter();
    slices
        .map(|slice| {
            slice
                .pointer("/metadata/resourceVersion")
                .cloned()
                .unwrap_or_default()
        })
        .collect()
}

#[derive(Default)]
struct Settling {
    last: Option<(String, Instant)>,
}

impl Settling {
    /// Returns whether the objects have been unchanged for long enough.
    fn observe(&mut self, seen: &[&Value]) -> bool {
        let seen = seen.iter().map(ToString::to_string).collect::<String>();
        match &self.last {
            Some((last, since)) if *last == seen => since.elapsed() >= SETTLING,
            _ => {
                self.last = Some((seen, Instant::now()));
                false
            }
        }
    }
}

/// Waits until an object is deleted, or replaced by another one of its name. The error says what
/// blocks the deletion.
pub(crate) fn wait_until_deleted(
    cluster: &Cluster,
    call: &Call<'_>,
    address: &Address,
    timeout: Duration,
) -> Result<(), Vec<String>> {
    let end = Instant::now() + timeout;
    let mut pauses = requests::pauses();
    let mut uid = None;
    loop {
        let object =
            match requests::with_retries(cluster, call, || requests::read(cluster, address)) {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(()),
                Err(failure) => return Err(vec![failure.to_string()]),
            };
        let own = uid.get_or_insert_with(|| object.pointer("/metadata/uid").cloned());
        if *own != object.pointer("/metadata/uid").cloned() {
            return Ok(());
        }
        let held = deletion_blockers(&object);
        (call.status)(&held.join("; "));
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        if Instant::now() >= end || !requests::pause(call, pause) {
            return Err(held);
        }
    }
}

/// What blocks the deletion of an object.
fn deletion_blockers(object: &Value) -> Vec<String> {
    let finalizers: Vec<_> = object::list(object, "/metadata/finalizers")
        .iter()
        .chain(object::list(object, "/spec/finalizers"))
        .filter_map(Value::as_str)
        .collect();
    let mut reasons = Vec::new();
    if !finalizers.is_empty() {
        reasons.push(format!(
            "finalizers block the deletion: {}; remove them if their controller is gone",
            finalizers.join(", ")
        ));
    }
    let conditions = object::list(object, "/status/conditions").iter();
    reasons.extend(
        conditions
            .filter(|condition| object::text(condition, "/status") == Some("True"))
            .filter(|_| object::text(object, "/status/phase") == Some("Terminating"))
            .map(super::conditions::describe),
    );
    if reasons.is_empty() {
        reasons.push("it is being deleted".to_owned());
    }
    reasons
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletion_names_blocking_finalizers() {
        let cases = [
            (
                json!({"metadata": {"finalizers": ["a.example/x", "b"]}}),
                vec!["a.example/x, b"],
            ),
            (
                json!({"spec": {"finalizers": ["kubernetes"]}}),
                vec!["kubernetes"],
            ),
            (
                json!({"status": {"phase": "Terminating", "conditions": [
                    {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain", "message": "pods. has 1"},
                    {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "fine"}]}}),
                vec!["[SomeResourcesRemain] pods. has 1"],
            ),
            (json!({}), vec!["it is being deleted"]),
        ];
        for (object, expected) in cases {
            let found = deletion_blockers(&object);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{found}");
            }
        }
    }

    #[test]
    fn changing_object_is_not_settled() {
        let mut settling = Settling::default();
        assert!(!settling.observe(&[&json!(1)]));
        assert!(!settling.observe(&[&json!(2)]));
        settling.last = settling
            .last
            .map(|(seen, since)| (seen, since.checked_sub(SETTLING).unwrap()));
        assert!(settling.observe(&[&json!(2)]));
        assert!(!settling.observe(&[&json!(3)]));
    }
}
