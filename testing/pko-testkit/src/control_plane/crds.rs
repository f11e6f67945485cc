//! Installs CRDs and waits until they are served.

use std::collections::BTreeSet;

use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{AccessError, ControlPlane};
use crate::eventually::{DEADLINE, PAUSE};

impl ControlPlane {
    /// Applies CRDs, given as [`CustomResourceDefinition`]s or as JSON values, and waits until
    /// every served version of each is established and discoverable.
    pub async fn install_crds<T: Serialize>(&self, crds: &[T]) -> Result<(), InstallError> {
        let client = self.client()?;
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut installed = Vec::new();
        for crd in crds {
            let value = serde_json::to_value(crd)?;
            let name = value
                .pointer("/metadata/name")
                .and_then(|name| name.as_str());
            let name = name.ok_or(InstallError::Nameless)?.to_owned();
            let parameters = PatchParams::apply("pko-testkit").force();
            installed.push(api.patch(&name, &parameters, &Patch::Apply(value)).await?);
        }
        for crd in installed {
            wait_until_served(&client, &crd).await?;
        }
        Ok(())
    }
}

async fn wait_until_served(
    client: &Client,
    crd: &CustomResourceDefinition,
) -> Result<(), InstallError> {
    let deadline = Instant::now() + DEADLINE;
    let mut missing: BTreeSet<&str> = crd
        .spec
        .versions
        .iter()
        .filter(|v| v.served)
        .map(|v| v.name.as_str())
        .collect();
    while let Some(version) = missing.first().copied() {
        if is_discoverable(client, crd, version).await? && is_listed(client, crd, version).await? {
            missing.remove(version);
        } else if Instant::now() > deadline {
            let api = Api::<CustomResourceDefinition>::all(client.clone());
            let status = api.get(&crd.name_any()).await?.status;
            return Err(InstallError::NotServed {
                name: crd.name_any(),
                version: version.to_owned(),
                status: serde_json::to_string(&status)?,
            });
        } else {
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

async fn is_discoverable(
    client: &Client,
    crd: &CustomResourceDefinition,
    version: &str,
) -> Result<bool, InstallError> {
    let group = &crd.spec.group;
    let resources = match client
        .list_api_group_resources(&format!("{group}/{version}"))
        .await
    {
        // A new group's first answer is a page of text, not a status with a reason
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
        other => other?,
    };
    Ok(resources
        .resources
        .iter()
        .any(|resource| resource.name == crd.spec.names.plural))
}

/// A resource can be discoverable a moment before its handler answers.
async fn is_listed(
    client: &Client,
    crd: &CustomResourceDefinition,
    version: &str,
) -> Result<bool, InstallError> {
    let path = format!(
        "/apis/{}/{version}/{}?limit=1",
        crd.spec.group, crd.spec.names.plural
    );
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    match client.request_text(request).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Why a CRD is not installed.
#[derive(thiserror::Error)]
pub enum InstallError {
    /// There is no way in.
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("failed to install a CRD")]
    Refused(#[from] kube::Error),
    #[error("failed to encode a CRD")]
    Encode(#[from] serde_json::Error),
    #[error("a CRD has no metadata.name")]
    Nameless,
    /// The API server took it, but does not serve it.
    #[error("{name} is installed, but its version {version} is not served; its status: {status}")]
    NotServed {
        name: String,
        version: String,
        status: String,
    },
}

crate::error_text::debug_is_text!(InstallError);
