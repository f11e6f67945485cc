//! Objects with artifacts: Flux's own, and those of any other kind that has `status.artifact`.
//!
//! A kind is watched once for all Stacks that name it, from the first to the last of them. A kind that nobody has
//! installed is looked for at each look of such a Stack, so that it is found when it is.

mod cache;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::{
    Client, ResourceExt as _,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    discovery::Scope,
    runtime::{reflector::Store, watcher},
};
use pko_api::{Decoded, Stack};
use pko_core::stack::{Artifact, FluxSourceRef, SourceError, flux_source};
use pko_kube::{EventStream, RequestError};

use super::{Found, Task, Wake, reference};
use cache::{Cache, Trouble};

const PAGE_SIZE: u32 = 100;

/// The kinds that are watched.
pub(crate) struct Kinds {
    client: Client,
    stacks: Store<Decoded<Stack>>,
    namespaces: Vec<String>,
    wake: Wake,
    watched: Mutex<HashMap<GroupVersionKind, Watched>>,
}

#[derive(Clone)]
struct Watched {
    resource: ApiResource,
    cache: Arc<Cache>,
    _task: Arc<Task>,
}

/// The kind of an object that a Stack names.
pub(super) fn kind_of(wanted: &FluxSourceRef) -> GroupVersionKind {
    GroupVersionKind::gvk(&wanted.group, &wanted.version, &wanted.kind)
}

/// What could not be resolved, in upstream's words.
fn unresolved(why: &str) -> SourceError {
    SourceError::Unavailable(format!("could not resolve sourceRef: {why}"))
}

/// The API server does not let us: whoever runs the manager has to say that we may.
fn forbidden(resource: &ApiResource, said: &str) -> SourceError {
    let (plural, group) = (&resource.plural, &resource.group);
    unresolved(&format!(
        "{said}; give the manager's account a role that allows it to get, list and watch {plural}.{group}"
    ))
}

impl Kinds {
    /// For the Stacks of this cache; nothing is watched yet.
    pub(super) fn new(
        client: &Client,
        stacks: Store<Decoded<Stack>>,
        namespaces: Vec<String>,
        wake: &Wake,
    ) -> Self {
        Self {
            client: client.clone(),
            stacks,
            namespaces,
            wake: wake.clone(),
            watched: Mutex::default(),
        }
    }

    /// The artifact that a Stack wants, or why there is none.
    pub(crate) async fn find(
        &self,
        stack: &Stack,
        wanted: &FluxSourceRef,
    ) -> Result<Found, RequestError> {
        let kind = kind_of(wanted);
        let watched = match self.known(&kind) {
            Some(watched) => watched,
            None => match self.discover(&kind, wanted).await? {
                Ok(resource) => self.watch(&kind, &resource),
                Err(problem) => return Ok(Err(problem)),
            },
        };
        if let Some(Trouble::Forbidden(said)) = watched.cache.trouble() {
            return Ok(Err(forbidden(&watched.resource, &said)));
        }
        let namespace = stack.namespace().unwrap_or_default();
        if let Some(object) = watched.cache.get(&namespace, &wanted.name) {
            return Ok(flux_source(object.artifact.as_ref(), wanted));
        }
        self.live(&watched.resource, &namespace, wanted).await
    }

    /// The kind if it is watched, and is still there.
    fn known(&self, kind: &GroupVersionKind) -> Option<Watched> {
        let mut watched = self.lock();
        let found = watched.get(kind)?;
        if found.cache.trouble() == Some(Trouble::Gone) {
            watched.remove(kind);
            return None;
        }
        Some(found.clone())
    }

    /// The kind as the API server knows it.
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
                "{}.{} are in no namespace, and a source is in that of its Stack",
                resource.plural, resource.group
            )))),
            Ok(None) => Ok(Err(missing())),
            Err(error) => Err(failed("look for", wanted, "", error)),
        }
    }

    /// Watches a kind, unless somebody was faster.
    fn watch(&self, kind: &GroupVersionKind, resource: &ApiResource) -> Watched {
        let mut watched = self.lock();
        let begin = || {
            let cache = Arc::new(Cache::default());
            let listener = Listener {
                kind: kind.clone(),
                stacks: self.stacks.clone(),
                wake: self.wake.clone(),
            };
            let events = self.events(resource);
            let task = tokio::spawn(watch::run(events, Arc::clone(&cache), listener));
            tracing::info!(
                kind = kind.kind,
                version = kind.api_version(),
                "Watching sources"
            );
            Watched {
                resource: resource.clone(),
                cache,
                _task: Arc::new(Task(task)),
            }
        };
        watched.entry(kind.clone()).or_insert_with(begin).clone()
    }

    /// A watch of the kind in each namespace of this manager.
    fn events(&self, resource: &ApiResource) -> Vec<(Option<String>, EventStream<DynamicObject>)> {
        let events = |namespace: Option<&str>| {
            let config = watcher::Config::default().page_size(PAGE_SIZE);
            pko_kube::watch_dynamic(&self.client, namespace, resource, config)
        };
        if self.namespaces.is_empty() {
            return vec![(None, events(None))];
        }
        let namespaces = self.namespaces.iter();
        namespaces
            .map(|namespace| (Some(namespace.clone()), events(Some(namespace))))
            .collect()
    }

    /// What the API server itself says: the watch has not begun, or the object is not there.
    async fn live(
        &self,
        resource: &ApiResource,
        namespace: &str,
        wanted: &FluxSourceRef,
    ) -> Result<Found, RequestError> {
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

    /// Ends the watches of all other kinds.
    pub(super) fn keep_only(&self, wanted: &HashSet<GroupVersionKind>) {
        self.lock().retain(|kind, _| wanted.contains(kind));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupVersionKind, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The artifact of an object.
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

/// Who is told about the objects of a kind.
struct Listener {
    kind: GroupVersionKind,
    stacks: Store<Decoded<Stack>>,
    wake: Wake,
}

impl Listener {
    /// There is news of an object.
    fn tell(&self, namespace: &str, name: &str) {
        self.tell_those(|stack, wanted| {
            stack.namespace().as_deref() == Some(namespace) && wanted.name == name
        });
    }

    /// There is news of all.
    fn tell_all(&self) {
        self.tell_those(|_, _| true);
    }

    fn tell_those(&self, meant: impl Fn(&Stack, &FluxSourceRef) -> bool) {
        for stack in self.stacks.state() {
            let Ok(stack) = stack.as_result() else {
                continue;
            };
            if let Some(super::SourceRef::Flux(wanted)) = super::wanted(stack)
                && kind_of(&wanted) == self.kind
                && meant(stack, &wanted)
            {
                let _ = self.wake.send(reference(stack));
            }
        }
    }
}
