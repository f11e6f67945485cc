//! The resource versions of ConfigMaps, and of Secrets with `--watch-secrets`: which Stacks a
//! change concerns, and what a Stack refers to now.
//!
//! # Guarantees
//! A Stack that a change triggers finds it here. Only a live read proves that an object does not
//! exist.
//!
//! # Costs
//! A cluster may have ten thousand ConfigMaps. Only metadata is requested, and of that only the
//! version is kept: about a hundred bytes for each.

mod index;

use std::{collections::BTreeSet, sync::Arc};

use futures::{StreamExt as _, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Client, Resource, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Stack};
use pko_core::stack::{ReferenceKind, Versions, references};
use pko_kube::RequestError;

use self::index::{ListProgress, ObjectNames, VersionIndex};
use super::StackTrigger;
use super::shared::{NamespaceEvents, WatchConfig, keep_all};
use crate::leader_election::LeaderStatus;

pub(crate) struct ReferenceVersions {
    config_maps: Arc<VersionIndex>,
    /// None if Secrets are not watched.
    secrets: Option<Arc<VersionIndex>>,
}

impl ReferenceVersions {
    /// Whether Secrets are watched.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets.is_some()
    }

    pub(crate) async fn config_maps(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<String>,
    ) -> Result<Versions, RequestError> {
        find_versions::<ConfigMap>(client, Some(&self.config_maps), namespace, names).await
    }

    /// Without their contents.
    pub(crate) async fn secrets(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<String>,
    ) -> Result<Versions, RequestError> {
        find_versions::<Secret>(client, self.secrets.as_deref(), namespace, names).await
    }
}

async fn find_versions<K>(
    client: &Client,
    known: Option<&VersionIndex>,
    namespace: &str,
    names: BTreeSet<String>,
) -> Result<Versions, RequestError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
{
    if let Some(known) = known {
        known.wait_until_listed().await;
    }
    let mut versions = Versions::new();
    for name in names {
        let version = match known.and_then(|known| known.get(namespace, &name)) {
            Some(version) => Some(version),
            None => pko_kube::find::<PartialObjectMeta<K>>(client, namespace, &name)
                .await?
                .and_then(|object| object.resource_version()),
        };
        versions.insert(name, version);
    }
    Ok(versions)
}

/// Watches before they run.
pub(crate) struct VersionWatches {
    config_maps: VersionWatch<ConfigMap>,
    secrets: Option<VersionWatch<Secret>>,
}

impl VersionWatches {
    pub(crate) fn new(config: &WatchConfig, with_secrets: bool) -> Self {
        Self {
            config_maps: VersionWatch::new(config, ReferenceKind::ConfigMap),
            secrets: with_secrets.then(|| VersionWatch::new(config, ReferenceKind::Secret)),
        }
    }

    pub(crate) fn known(&self) -> ReferenceVersions {
        let secrets = self.secrets.as_ref();
        ReferenceVersions {
            config_maps: self.config_maps.known.clone(),
            secrets: secrets.map(|watch| watch.known.clone()),
        }
    }

    /// Watches until the manager ends, and triggers the Stacks that a change concerns.
    pub(crate) async fn run(self, stacks: Store<Decoded<Stack>>, trigger: StackTrigger) {
        let secrets = async {
            match self.secrets {
                Some(watch) => watch.run(stacks.clone(), trigger.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(
            secrets,
            self.config_maps.run(stacks.clone(), trigger.clone())
        );
    }
}

struct VersionWatch<K> {
    kind: ReferenceKind,
    sources: Vec<NamespaceEvents<PartialObjectMeta<K>>>,
    known: Arc<VersionIndex>,
    leader: LeaderStatus,
}

impl<K> VersionWatch<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + Send + Sync + 'static,
{
    fn new(config: &WatchConfig, kind: ReferenceKind) -> Self {
        Self {
            kind,
            sources: config.events(None, keep_all),
            known: Arc::default(),
            leader: config.leader(),
        }
    }

    async fn run(self, stacks: Store<Decoded<Stack>>, trigger: StackTrigger) {
        let namespaces = self.sources.iter().map(|(namespace, _)| namespace.clone());
        let mut lists = ListProgress::new(self.known, namespaces);
        let sources = self
            .sources
            .into_iter()
            .map(|(namespace, events)| events.map(move |event| (namespace.clone(), event)));
        let mut events = stream::select_all(sources);
        while let Some((namespace, event)) = events.next().await {
            let changed = match event {
                Ok(event) => lists.apply(&namespace, event),
                Err(error) => {
                    tracing::warn!(kind = %self.kind, %error, "Watch of metadata failed; retrying");
                    lists.stop_waiting(&namespace);
                    ObjectNames::new()
                }
            };
            // A new leader reconciles all Stacks.
            if !changed.is_empty() && self.leader.is_leader() {
                for stack in concerned(&stacks, self.kind, &changed) {
                    let _ = trigger.send(stack);
                }
            }
        }
    }
}

/// The Stacks that refer to one of these objects.
fn concerned(
    stacks: &Store<Decoded<Stack>>,
    kind: ReferenceKind,
    changed: &ObjectNames,
) -> Vec<ObjectRef<Decoded<Stack>>> {
    let refers = |stack: &Decoded<Stack>| {
        let namespace = stack.namespace().unwrap_or_default();
        let (Some(names), Ok(stack)) = (changed.get(&*namespace), stack.as_result()) else {
            return false;
        };
        let mut references = references(&stack.spec);
        references.any(|reference| reference.kind == kind && names.contains(reference.name))
    };
    let stacks = stacks.state().into_iter();
    stacks
        .filter(|stack| refers(stack))
        .map(|stack| ObjectRef::from_obj(stack.as_ref()))
        .collect()
}
