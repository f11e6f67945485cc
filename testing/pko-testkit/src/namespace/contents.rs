//! All objects of a namespace, of every kind.

use kube::api::{DynamicObject, ListParams};
use kube::discovery::{ApiCapabilities, ApiResource, Discovery, Scope, verbs};
use kube::{Api, Client};

/// An object, and how to reach it.
pub(super) struct Found {
    pub(super) resource: ApiResource,
    pub(super) object: DynamicObject,
}

/// Lists every kind that has a namespace and can be listed.
pub(super) async fn of(client: &Client, namespace: &str) -> Result<Vec<Found>, kube::Error> {
    let mut found = Vec::new();
    for resource in resources(client).await? {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let objects = match api.list(&ListParams::default()).await {
            Ok(objects) => objects,
            // A kind whose CRD another test is removing
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => continue,
            Err(error) => return Err(error),
        };
        found.extend(objects.items.into_iter().map(|mut object| {
            // An item of a list does not name its kind
            object.types = Some(kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            Found {
                resource: resource.clone(),
                object,
            }
        }));
    }
    Ok(found)
}

async fn resources(client: &Client) -> Result<Vec<ApiResource>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let wanted = |(resource, can): &(ApiResource, ApiCapabilities)| {
        can.scope == Scope::Namespaced
            && can.supports_operation(verbs::LIST)
            // The same objects as the events of the core group
            && resource.group != "events.k8s.io"
    };
    let resources = discovery.groups_alphabetical().into_iter();
    let resources = resources.flat_map(kube::discovery::ApiGroup::recommended_resources);
    Ok(resources
        .filter(wanted)
        .map(|(resource, _)| resource)
        .collect())
}
