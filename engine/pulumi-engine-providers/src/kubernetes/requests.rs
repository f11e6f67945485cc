//! The requests that are made for objects. They do I/O; [`patiently`] makes the same one again while trouble passes.

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

/// How long a server may be away, such as when it is restarted.
const PATIENCE: Duration = Duration::from_mins(2);
/// The same for a server that never answered.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often whoever waits asks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(50);

/// How an object is applied.
#[derive(Clone, Copy)]
pub(crate) struct Application<'a> {
    /// Who owns its fields then.
    pub(crate) manager: &'a str,
    /// Whether fields that others own are taken from them.
    pub(crate) force: bool,
    /// Whether nothing may be changed.
    pub(crate) dry_run: bool,
}

/// Reads an object; none if it is not there.
pub(crate) fn read(cluster: &Cluster, address: &Address) -> Result<Option<Value>, KubernetesError> {
    match cluster.send(super::cluster::get(&address.path())?) {
        Ok(object) => Ok(Some(object)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Applies an object. Fields that the server does not know are an error.
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

/// Writes who owns the fields of an object, unless it was changed since it was read.
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

/// Asks for an object to be deleted; one that is not there is no error.
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

/// The objects with some labels; none where we may not look.
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

/// Tries until it succeeds, for as long as the trouble is one that passes, the server is not away for too long, and
/// the user does not want to stop.
pub(crate) fn patiently<T>(
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

/// Tries until it succeeds, for some time and while `again` says so of the failures.
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

/// Pauses that grow.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| {
        Some((*pause * 3 / 2).min(LONGEST_PAUSE))
    })
}

/// Waits; false if the user wants to stop.
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
