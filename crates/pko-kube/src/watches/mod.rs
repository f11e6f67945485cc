//! Watches: a list followed by changes, restarted with backoff after an error.

use std::fmt::Debug;

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;

pub type EventStream<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// Watches the objects of a kind in one namespace, or in all.
#[must_use]
pub fn watch<K>(client: &Client, namespace: Option<&str>, config: watcher::Config) -> EventStream<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    let objects = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    watcher(objects, config).default_backoff().boxed()
}

/// Watches the objects of a kind that is known at run time only, in one namespace or in all.
#[must_use]
pub fn watch_dynamic(
    client: &Client,
    namespace: Option<&str>,
    resource: &ApiResource,
    config: watcher::Config,
) -> EventStream<DynamicObject> {
    let objects = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    watcher(objects, config).default_backoff().boxed()
}
