//! Flux sources, and other kinds with `status.artifact` whose API groups are allowed.
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
    Client, ResourceExt as _, api::ApiResource, core::GroupVersionKind, discovery::Scope,
    runtime::reflector::Store,
};
use parking_lot::{Mutex, MutexGuard};
use pko_api::{Decoded, Stack};
use pko_core::stack::{Artifact, FluxSourceGroups, FluxSourceRef, SourceError, flux_source};
use pko_kube::{EventStream, RequestError, StatusObject};
use serde_json::json;

use super::{AbortOnDrop, SourceResult, reference};
use crate::watch::StackTrigger;
use cache::{ArtifactCache, WatchFailure};

/// Each watched kind is a list and a watch of all its objects.
const MAX_KINDS: usize = 32;

pub(crate) struct FluxKinds {
    client: Client,
    stacks: Store<Decoded<Stack>>,
    namespaces: Vec<String>,
    groups: FluxSourceGroups,
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

fn too_many_kinds(kind: &GroupVersionKind) -> SourceError {
    let (kind, version) = (&kind.kind, kind.api_version());
    unresolved(&format!(
        "kind \"{kind}\" in version \"{version}\" can't be watched: Stacks refer to {MAX_KINDS} other kinds, which \
         is the limit; let them use fewer kinds, or allow fewer groups with --flux-source-groups"
    ))
}

impl FluxKinds {
    pub(super) fn new(
        client: &Client,
        stacks: Store<Decoded<Stack>>,
        namespaces: Vec<String>,
        groups: FluxSourceGroups,
        trigger: &StackTrigger,
    ) -> Self {
        Self {
            client: client.clone(),
            stacks,
            namespaces,
            groups,
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
        if let Err(problem) = self.groups.check(wanted) {
            return Ok(Err(problem));
        }
        let kind = kind_of(wanted);
        let watched = match self.watched(&kind) {
            Some(watched) => Ok(watched),
            None => match self.discover(&kind, wanted).await? {
                Ok(resource) => self.watch(&kind, &resource),
                Err(problem) => Err(problem),
            },
        };
        let watched = match watched {
            Ok(watched) => watched,
            Err(problem) => return Ok(Err(problem)),
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
    fn watch(
        &self,
        kind: &GroupVersionKind,
        resource: &ApiResource,
    ) -> Result<WatchedKind, SourceError> {
        let mut watched = self.lock();
        if watched.len() >= MAX_KINDS && !watched.contains_key(kind) {
            return Err(too_many_kinds(kind));
        }
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
        Ok(watched.entry(kind.clone()).or_insert_with(begin).clone())
    }

    /// A watch of the kind in each namespace of this manager.
    fn events(&self, resource: &ApiResource) -> Vec<(Option<String>, EventStream<StatusObject>)> {
        let events =
            |namespace: Option<&str>| pko_kube::watch_status(&self.client, namespace, resource);
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
        match pko_kube::find_status(&self.client, resource, namespace, &wanted.name).await {
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

fn artifact_of(object: &StatusObject) -> Option<Artifact> {
    Artifact::of(&json!({ "status": object.status }))
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
