//! The versions of all ConfigMaps, and of all Secrets if that is wanted: which Stacks a change concerns, and what a Stack
//! refers to now.
//!
//! # Guarantees
//! Whoever is woken by a change finds it here. That an object does not exist is believed from a live read only.
//!
//! # Costs
//! A cluster may have ten thousand ConfigMaps. Only metadata is asked for, and of that only the version is kept: about a
//! hundred bytes for each.

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
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use pko_api::{Decoded, Stack};
use pko_core::stack::{ReferenceKind, Versions, references};
use pko_kube::RequestError;
use tokio::sync::mpsc::UnboundedSender;

use self::index::{Known, Lists, Names};
use super::shared::{Source, Watching, whole};
use crate::leader_election::Elected;

/// How many objects are listed at a time; there is little to each.
const PAGE: u32 = 500;

/// What wakes a Stack's controller.
pub(crate) type Wake = UnboundedSender<ObjectRef<Decoded<Stack>>>;

/// What is known of the objects that Stacks refer to.
pub(crate) struct KnownVersions {
    config_maps: Arc<Known>,
    /// Where they are watched.
    secrets: Option<Arc<Known>>,
}

impl KnownVersions {
    /// Whether a change of a Secret is seen as it happens.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets.is_some()
    }

    /// The versions of these ConfigMaps.
    pub(crate) async fn config_maps(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<String>,
    ) -> Result<Versions, RequestError> {
        found::<ConfigMap>(client, Some(&self.config_maps), namespace, names).await
    }

    /// The versions of these Secrets, without their contents.
    pub(crate) async fn secrets(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<String>,
    ) -> Result<Versions, RequestError> {
        found::<Secret>(client, self.secrets.as_deref(), namespace, names).await
    }
}

async fn found<K>(
    client: &Client,
    known: Option<&Known>,
    namespace: &str,
    names: BTreeSet<String>,
) -> Result<Versions, RequestError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
{
    if let Some(known) = known {
        known.are_listed().await;
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

/// The watches, before they run.
pub(crate) struct VersionFeeds {
    config_maps: VersionFeed<ConfigMap>,
    secrets: Option<VersionFeed<Secret>>,
}

impl VersionFeeds {
    pub(crate) fn new(watching: &Watching, with_secrets: bool) -> Self {
        Self {
            config_maps: VersionFeed::new(watching, ReferenceKind::ConfigMap),
            secrets: with_secrets.then(|| VersionFeed::new(watching, ReferenceKind::Secret)),
        }
    }

    /// What they find out.
    pub(crate) fn known(&self) -> KnownVersions {
        let secrets = self.secrets.as_ref();
        KnownVersions {
            config_maps: self.config_maps.known.clone(),
            secrets: secrets.map(|feed| feed.known.clone()),
        }
    }

    /// Watches until the manager ends, and wakes the Stacks of which something has changed.
    pub(crate) async fn run(self, stacks: Store<Decoded<Stack>>, wake: Wake) {
        let secrets = async {
            match self.secrets {
                Some(feed) => feed.run(stacks.clone(), wake.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(secrets, self.config_maps.run(stacks.clone(), wake.clone()));
    }
}

struct VersionFeed<K> {
    kind: ReferenceKind,
    sources: Vec<Source<PartialObjectMeta<K>>>,
    known: Arc<Known>,
    elected: Elected,
}

impl<K> VersionFeed<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + Send + Sync + 'static,
{
    fn new(watching: &Watching, kind: ReferenceKind) -> Self {
        Self {
            kind,
            sources: watching.events(&watcher::Config::default().page_size(PAGE), whole),
            known: Arc::default(),
            elected: watching.elected(),
        }
    }

    async fn run(self, stacks: Store<Decoded<Stack>>, wake: Wake) {
        let namespaces = self.sources.iter().map(|(namespace, _)| namespace.clone());
        let mut lists = Lists::new(self.known, namespaces);
        let sources = self
            .sources
            .into_iter()
            .map(|(namespace, events)| events.map(move |event| (namespace.clone(), event)));
        let mut events = stream::select_all(sources);
        while let Some((namespace, event)) = events.next().await {
            let changed = match event {
                Ok(event) => lists.follow(&namespace, event),
                Err(error) => {
                    tracing::warn!(kind = %self.kind, %error, "Watch of metadata was cut off; it is tried again");
                    lists.give_up(&namespace);
                    Names::new()
                }
            };
            // Whoever begins to lead looks at all Stacks.
            if !changed.is_empty() && self.elected.is_so() {
                for stack in concerned(&stacks, self.kind, &changed) {
                    let _ = wake.send(stack);
                }
            }
        }
    }
}

/// The Stacks that refer to one of these objects.
fn concerned(
    stacks: &Store<Decoded<Stack>>,
    kind: ReferenceKind,
    changed: &Names,
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
