//! The watches of what workspaces in pods consist of; by label, so that nobody else's pods are looked at.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service},
};
use kube::runtime::reflector::{ObjectRef, Store};
use pko_api::{Decoded, Program, Update, Workspace, names::labels};
use pko_core::workspace::pod::{keep_of_pod, keep_of_service, keep_of_stateful_set};
use tokio::sync::mpsc::UnboundedReceiver;

use super::shared::{Feed, Watching};
use crate::{controllers::workspace::Wakers, workspace_runtime::Children};

/// The watches; none where workspaces are processes.
pub(crate) struct PodFeeds(Option<Feeds>);

struct Feeds {
    services: Feed<Service>,
    stateful_sets: Feed<StatefulSet>,
    pods: Feed<Pod>,
}

impl PodFeeds {
    /// Nothing is watched.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn new(watching: &Watching) -> Self {
        let ours = format!(
            "{}={}",
            labels::AUTO_COMPONENT_KEY,
            labels::WORKSPACE_COMPONENT
        );
        Self(Some(Feeds {
            services: Feed::selected(watching, &ours, keep_of_service),
            stateful_sets: Feed::selected(watching, &ours, keep_of_stateful_set),
            pods: Feed::selected(watching, &ours, keep_of_pod),
        }))
    }

    /// The caches that they fill.
    pub(crate) fn children(&self, programs: Store<Decoded<Program>>) -> Option<Children> {
        let feeds = self.0.as_ref()?;
        Some(Children::new(
            (feeds.services.store(), feeds.services.progress()),
            (feeds.stateful_sets.store(), feeds.stateful_sets.progress()),
            feeds.pods.store(),
            programs,
        ))
    }

    /// What wakes Workspaces.
    pub(crate) fn wakers(
        &mut self,
        updates: impl futures::Stream<Item = Arc<Decoded<Update>>> + Send + 'static,
        woken: UnboundedReceiver<ObjectRef<Decoded<Workspace>>>,
    ) -> Wakers {
        let updates = updates.boxed();
        match &mut self.0 {
            Some(feeds) => Wakers {
                services: feeds.services.listen().boxed(),
                stateful_sets: feeds.stateful_sets.listen().boxed(),
                pods: feeds.pods.listen().boxed(),
                updates,
                woken,
            },
            None => Wakers {
                services: stream::pending().boxed(),
                stateful_sets: stream::pending().boxed(),
                pods: stream::pending().boxed(),
                updates,
                woken,
            },
        }
    }

    /// Watches until the manager ends.
    pub(crate) async fn run(self) {
        match self.0 {
            Some(feeds) => {
                let all = (
                    feeds.services.run(),
                    feeds.stateful_sets.run(),
                    feeds.pods.run(),
                );
                tokio::join!(all.0, all.1, all.2);
            }
            None => std::future::pending().await,
        }
    }
}
