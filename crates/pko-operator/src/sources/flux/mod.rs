//! Flux sources, and any other kind with `status.artifact`.
//!
//! A kind is watched once for all Stacks that refer to it, from the first to the last of them. A
//! kind that is not installed is looked up at each reconcile of such a Stack, so that it is found
//! once it is installed.

mod cache;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kube::{
    Client, ResourceExt as _,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    discovery::Scope,
    runtime::reflector::Store,
};
use parking_lot::{Mutex, MutexGuard};
use pko_api::{Decoded, Stack};
use pko_core::stack::{Artifact, FluxSourceRef, SourceError, flux_source};
use pko_kube::{EventStream, RequestError};

use super::{AbortOnDrop, SourceResult, reference};
use crate::watch::StackTrigger;
use cache::{ArtifactCache, WatchFailure};

pub(crate) struct FluxKinds {
    client: Client,
    stacks: Store<Decoded<Stack>>,
    namespaces: Vec<String>,
    trigger: StackTrigger,
    watched: Mutex<HashMap<GroupVersionKind, WatchedKind>>,
}

#[derive(Clone)]
struct WatchedKind {
    resource: ApiResource,
    cache: Arc<ArtifactCache>,
    _task: Arc<AbortOnDrop>,
}

pub(super) fn kind_of(wanted: &FluxSourceRef) -> GroupVersionKind {
    GroupVersionKind::gvk(&wanted.group, &wanted.version, &wanted.kind)
}

/// With the prefix of upstream's message.
fn unresolved(why: &str) -> SourceError {
    SourceError::Unavailable(format!("could not resolve sourceRef: {why}"))
}

/// The manager lacks a permission.
fn forbidden(resource: &ApiResource, message: &str) -> SourceError {
    let (plural, group) = (&resource.plural, &resource.group);
    unresolved(&format!(
        "{message}; bind a role to the manager's service account that may get, list and watch {plural}.{group}"
    ))
}

impl FluxKinds {
    pub(super) fn new(
        client: &Client,
        stacks: Store<Decoded<Stack>>,
        namespaces: Vec<String>,
        trigger: &StackTrigger,
    ) -> Self {
        Self {
            client: client.clone(),
            stacks,
            namespaces,
            trigger: trigger.clone(),
            watched: Mutex::default(),
        }
    }

    /// The artifact for a Stack, or why there is none.
    pub(crate) async fn find(
        &self,
        stack: &Stack,
        wanted: &FluxSourceRef,
    ) -> Result<SourceResult, RequestError> {
        let kind = kind_of(wanted);
        let watched = match self.watched(&kind) {
            Some(watched) => watched,
            None => match self.discover(&kind, wanted).await? {
                Ok(resource) => self.watch(&kind, &resource),
                Err(problem) => return Ok(Err(problem)),
            },
        };
        if let Some(WatchFailure::Forbidden(message)) = watched.cache.failure() {
            return Ok(Err(forbidden(&watched.resource, &message)));
        }
        let namespace = stack.namespace().unwrap_or_default();
        if let Some(object) = watched.cache.get(&namespace, &wanted.name) {
            return Ok(flux_source(object.artifact.as_ref(), wanted));
        }
        self.live(&watched.resource, &namespace, wanted).await
    }

    /// The kind if it is watched and still served.
    fn watched(&self, kind: &GroupVersionKind) -> Option<WatchedKind> {
        let mut watched = self.lock();
        let found = watched.get(kind)?;
        if found.cache.failure() == Some(WatchFailure::Gone) {
            watched.remove(kind);
            return None;
        }
        Some(found.clone())
    }

    /// Looks the kind up at the API server.
    async fn discover(
        &self,
        kind: &GroupVersionKind,
        wanted: &FluxSourceRef,
    ) -> Result<Result<ApiResource, SourceError>, RequestError> {
        let missing = || {
            let (kind, version) = (&wanted.kind, wanted.api_version());
            unresolved(&format!(
                "no matches for kind \"{kind}\" in version \"{version}\"; install it, or name a version that is installed"
            ))
        };
        match pko_kube::discover(&self.client, kind).await {
            Ok(Some((resource, Scope::Namespaced))) => Ok(Ok(resource)),
            Ok(Some((resource, Scope::Cluster))) => Ok(Err(unresolved(&format!(
                "{}.{} are cluster-scoped; a source must be in the namespace of its Stack",
                resource.plural, resource.group
            )))),
            Ok(None) => Ok(Err(missing())),
            Err(error) => Err(failed("look for", wanted, "", error)),
        }
    }

    /// Watches a kind, unless it is watched.
    fn watch(&self, kind: &GroupVersionKind, resource: &ApiResource) -> WatchedKind {
        let mut watched = self.lock();
        let begin = || {
            let cache = Arc::new(ArtifactCache::default());
            let listener = StackNotifier {
                kind: kind.clone(),
                stacks: self.stacks.clone(),
                trigger: self.trigger.clone(),
            };
            let events = self.events(resource);
            let task = tokio::spawn(watch::run(events, Arc::clone(&cache), listener));
            tracing::info!(
                kind = kind.kind,
                version = kind.api_version(),
                "Watching sources"
            );
            WatchedKind {
                resource: resource.clone(),
                cache,
                _task: Arc::new(AbortOnDrop(task)),
            }
        };
        watched.entry(kind.clone()).or_insert_with(begin).clone()
    }

    /// A watch of the kind in each namespace of this manager.
    fn events(&self, resource: &ApiResource) -> Vec<(Option<String>, EventStream<DynamicObject>)> {
        let events =
            |namespace: Option<&str>| pko_kube::watch_dynamic(&self.client, namespace, resource);
        if self.namespaces.is_empty() {
            return vec![(None, events(None))];
        }
        let namespaces = self.namespaces.iter();
        namespaces
            .map(|namespace| (Some(namespace.clone()), events(Some(namespace))))
            .collect()
    }

    /// Reads the object live: the watch has not started, or the object does not exist.
    async fn live(
        &self,
        resource: &ApiResource,
        namespace: &str,
        wanted: &FluxSourceRef,
    ) -> Result<SourceResult, RequestError> {
        match pko_kube::find_dynamic(&self.client, resource, namespace, &wanted.name).await {
            Ok(Some(object)) => Ok(flux_source(artifact_of(&object).as_ref(), wanted)),
            Ok(None) => Ok(Err(unresolved(&format!(
                "{}.{} \"{}\" not found",
                resource.plural, resource.group, wanted.name
            )))),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                Ok(Err(forbidden(resource, &status.message)))
            }
            Err(error) => Err(failed("read", wanted, namespace, error)),
        }
    }

    /// Stops the watches of all other kinds.
    pub(super) fn keep_only(&self, wanted: &HashSet<GroupVersionKind>) {
        self.lock().retain(|kind, _| wanted.contains(kind));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupVersionKind, WatchedKind>> {
        self.watched.lock()
    }
}

fn artifact_of(object: &DynamicObject) -> Option<Artifact> {
    Artifact::of(&object.data)
}

fn failed(
    action: &'static str,
    wanted: &FluxSourceRef,
    namespace: &str,
    source: kube::Error,
) -> RequestError {
    RequestError {
        action,
        kind: wanted.kind.clone(),
        namespace: namespace.to_owned(),
        name: wanted.name.clone(),
        source: Box::new(source),
    }
}

/// Triggers the Stacks that refer to objects of a kind.
struct StackNotifier {
    kind: GroupVersionKind,
    stacks: Store<Decoded<Stack>>,
    trigger: StackTrigger,
}

impl StackNotifier {
    /// One object has changed.
    fn notify(&self, namespace: &str, name: &str) {
        self.notify_matching(|stack, wanted| {
            stack.namespace().as_deref() == Some(namespace) && wanted.name == name
        });
    }

    /// All may have changed.
    fn notify_all(&self) {
        self.notify_matching(|_, _| true);
    }

    fn notify_matching(&self, meant: impl Fn(&Stack, &FluxSourceRef) -> bool) {
        for stack in self.stacks.state() {
            let Ok(stack) = stack.as_result() else {
                continue;
            };
            if let Some(super::SourceRef::Flux(wanted)) = super::wanted(stack)
                && kind_of(&wanted) == self.kind
                && meant(stack, &wanted)
            {
                let _ = self.trigger.send(reference(stack));
            }
        }
    }
}
