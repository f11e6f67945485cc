//! The client with which `--auth-mode kube` reviews callers.

use std::path::Path;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("unable to load the kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("unable to initialize the Kubernetes authorizer")]
    Client(#[source] kube::Error),
}

/// By the given kubeconfig file, else `KUBECONFIG`, else the pod's service account, else the user's
/// kubeconfig.
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ClientError> {
    let config = config(kubeconfig, context)
        .await
        .map_err(ClientError::Kubeconfig)?;
    Client::try_from(config).map_err(ClientError::Client)
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, String> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..Default::default()
    };
    let file = match kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| error.to_string())?),
        None => Kubeconfig::from_env().map_err(|error| error.to_string())?,
    };
    if let Some(file) = file {
        let config = Config::from_custom_kubeconfig(file, &options).await;
        return config.map_err(|error| error.to_string());
    }
    if let Ok(config) = Config::incluster() {
        return Ok(config);
    }
    let config = Config::from_kubeconfig(&options).await;
    config.map_err(|error| error.to_string())
}
