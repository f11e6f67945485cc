//! Requests for objects. [`patiently`] retries them.

use std::{
    thread,
    time::{Duration, Instant},
};

use kube::{
    api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy, ValidationDirective},
    core::Request,
};
use serde_json::{Value, json};

use super::{cluster::Cluster, discovery::Address, errors::KubernetesError};
use crate::Call;

/// How long a server may be unavailable, such as during a restart.
const PATIENCE: Duration = Duration::from_mins(2);
/// The same for a server that never responded.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a wait checks for cancellation.
const SLICE: Duration = Duration::from_millis(50);

/// Options of an apply request.
#[derive(Clone, Copy)]
pub(crate) struct Application<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// Whether to take ownership of fields of other managers.
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
}

/// Reads an object; none if it does not exist.
pub(crate) fn read(cluster: &Cluster, address: &Address) -> Result<Option<Value>, KubernetesError> {
    match cluster.send(super::cluster::get(&address.path())?) {
        Ok(object) => Ok(Some(object)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Applies an object. Unknown fields are an error.
pub(crate) fn apply(
    cluster: &Cluster,
    address: &Address,
    object: &Value,
    application: Application<'_>,
) -> Result<Value, KubernetesError> {
    let mut parameters = PatchParams::apply(application.manager);
    parameters.force = application.force;
    parameters.dry_run = application.dry_run;
    parameters.field_validation = Some(ValidationDirective::Strict);
    let request =
        Request::new(&address.collection).patch(&address.name, &parameters, &Patch::Apply(object));
    cluster.send(request.map_err(|error| unsendable(&error))?)
}

/// Writes the managed fields of an object, unless it changed since it was read.
pub(crate) fn set_owners(
    cluster: &Cluster,
    address: &Address,
    live: &Value,
    owners: &Value,
) -> Result<Value, KubernetesError> {
    let version = live.pointer("/metadata/resourceVersion");
    let patch = json!({ "metadata": { "managedFields": owners, "resourceVersion": version } });
    let request = Request::new(&address.collection).patch(
        &address.name,
        &PatchParams::default(),
        &Patch::Merge(patch),
    );
    cluster.send(request.map_err(|error| unsendable(&error))?)
}

/// Requests a deletion. A missing object is no error.
pub(crate) fn delete(
    cluster: &Cluster,
    address: &Address,
    policy: PropagationPolicy,
) -> Result<(), KubernetesError> {
    let parameters = DeleteParams {
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    let request = Request::new(&address.collection).delete(&address.name, &parameters);
    match cluster.send(request.map_err(|error| unsendable(&error))?) {
        Ok(_) => Ok(()),
        Err(failure) if failure.is_not_found() => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// The objects with some labels; none if access is denied.
pub(crate) fn list(
    cluster: &Cluster,
    collection: &str,
    labels: &str,
) -> Result<Option<Vec<Value>>, KubernetesError> {
    let request = Request::new(collection).list(&ListParams::default().labels(labels));
    match cluster.send(request.map_err(|error| unsendable(&error))?) {
        Ok(mut list) => match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(Some(items)),
            _ => Ok(Some(Vec::new())),
        },
        Err(failure) if failure.is_forbidden() || failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn unsendable(error: &kube::core::request::Error) -> KubernetesError {
    KubernetesError::Configuration(format!("failed to build a request: {error}"))
}

/// Retries transient errors until the server is unavailable for too long or the run is canceled.
pub(crate) fn with_retries<T>(
    cluster: &Cluster,
    call: &Call<'_>,
    attempt: impl FnMut() -> Result<T, KubernetesError>,
) -> Result<T, KubernetesError> {
    let patience = if cluster.has_answered() {
        PATIENCE
    } else {
        FIRST_PATIENCE
    };
    persistently(call, patience, KubernetesError::is_passing, attempt)
}

/// Retries for some time while `again` accepts the error.
pub(crate) fn persistently<T>(
    call: &Call<'_>,
    patience: Duration,
    again: impl Fn(&KubernetesError) -> bool,
    mut attempt: impl FnMut() -> Result<T, KubernetesError>,
) -> Result<T, KubernetesError> {
    let end = Instant::now() + patience;
    let mut pauses = pauses();
    loop {
        match attempt() {
            Err(failure) if again(&failure) && Instant::now() < end => {
                (call.status)(&format!("retrying: {failure}"));
                if !pause(call, pauses.next().unwrap_or(LONGEST_PAUSE)) {
                    return Err(failure);
                }
            }
            result => return result,
        }
    }
}

/// Growing pauses.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| {
        Some((*pause * 3 / 2).min(LONGEST_PAUSE))
    })
}

/// Sleeps. Returns false if the run is canceled.
#[must_use]
pub(crate) fn pause(call: &Call<'_>, duration: Duration) -> bool {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        if (call.canceled)() {
            return false;
        }
        thread::sleep(SLICE.min(end.saturating_duration_since(Instant::now())));
    }
    !(call.canceled)()
}
