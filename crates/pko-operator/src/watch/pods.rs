//! Watches of the Services, StatefulSets and pods of workspaces, selected by label.

use std::sync::Arc;

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service},
};
use kube::runtime::reflector::ObjectRef;
use pko_api::{Decoded, Update, Workspace, names::labels};
use pko_core::workspace::pod::{trim_pod, trim_service, trim_stateful_set};
use tokio::sync::mpsc::UnboundedReceiver;

use super::shared::{SharedWatch, WatchConfig};
use crate::workspace_runtime::{Children, ServedPrograms};

/// What triggers the reconcile of a Workspace, besides its own changes.
pub(crate) struct WorkspaceStreams {
    pub(crate) services: BoxStream<'static, Arc<Service>>,
    pub(crate) stateful_sets: BoxStream<'static, Arc<StatefulSet>>,
    pub(crate) pods: BoxStream<'static, Arc<Pod>>,
    pub(crate) updates: BoxStream<'static, Arc<Decoded<Update>>>,
    /// Workspaces whose runtime or setup has changed.
    pub(crate) triggers: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
}

/// None if workspaces are processes.
pub(crate) struct PodWatches(Option<PodWatchSet>);

struct PodWatchSet {
    services: SharedWatch<Service>,
    stateful_sets: SharedWatch<StatefulSet>,
    pods: SharedWatch<Pod>,
}

impl PodWatches {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn new(config: &WatchConfig) -> Self {
        let selector = format!(
            "{}={}",
            labels::AUTO_COMPONENT_KEY,
            labels::WORKSPACE_COMPONENT
        );
        Self(Some(PodWatchSet {
            services: SharedWatch::selected(config, &selector, trim_service),
            stateful_sets: SharedWatch::selected(config, &selector, trim_stateful_set),
            pods: SharedWatch::selected(config, &selector, trim_pod),
        }))
    }

    pub(crate) fn children(&self, programs: ServedPrograms) -> Option<Children> {
        let watches = self.0.as_ref()?;
        Some(Children::new(
            (watches.services.store(), watches.services.progress()),
            (
                watches.stateful_sets.store(),
                watches.stateful_sets.progress(),
            ),
            watches.pods.store(),
            programs,
        ))
    }

    pub(crate) fn streams(
        &mut self,
        updates: impl futures::Stream<Item = Arc<Decoded<Update>>> + Send + 'static,
        triggers: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
    ) -> WorkspaceStreams {
        let updates = updates.boxed();
        match &mut self.0 {
            Some(watches) => WorkspaceStreams {
                services: watches.services.listen().boxed(),
                stateful_sets: watches.stateful_sets.listen().boxed(),
                pods: watches.pods.listen().boxed(),
                updates,
                triggers,
            },
            None => WorkspaceStreams {
                services: stream::pending().boxed(),
                stateful_sets: stream::pending().boxed(),
                pods: stream::pending().boxed(),
                updates,
                triggers,
            },
        }
    }

    /// Watches until the manager ends.
    pub(crate) async fn run(self) {
        match self.0 {
            Some(watches) => {
                let all = (
                    watches.services.run(),
                    watches.stateful_sets.run(),
                    watches.pods.run(),
                );
                tokio::join!(all.0, all.1, all.2);
            }
            None => std::future::pending().await,
        }
    }
}
