//! A connection to one API server, with its own runtime, because provider calls are synchronous.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::Request;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::Value;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
};

use super::{
    discovery::ServedKind, errors::KubernetesError, settings::KubernetesConfig,
    tokens::ResourceKind,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The read timeout. No request here is a watch.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
const NO_NAMESPACE: &str = "default";

/// An API server and a cache of its kinds.
pub(crate) struct Cluster {
    /// None only during drop.
    runtime: Option<Runtime>,
    client: Client,
    namespace: String,
    /// Kinds by group and version.
    kinds: Mutex<HashMap<String, Vec<(String, ServedKind)>>>,
    /// Whether the server has ever responded.
    answered: AtomicBool,
    /// Whether the last optional request failed.
    silent: AtomicBool,
}

impl Cluster {
    /// Resolves address and credentials. Sends no request yet.
    pub(crate) fn new(settings: &KubernetesConfig) -> Result<Self, KubernetesError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kubernetes")
            .enable_all()
            .build()
            .map_err(|error| {
                KubernetesError::Configuration(format!("failed to start a runtime: {error}"))
            })?;
        let mut config = runtime.block_on(configuration(settings))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let given = settings.namespace.clone();
        let namespace = given.unwrap_or_else(|| config.default_namespace.clone());
        let client = {
            let _entered = runtime.enter();
            Client::try_from(config).map_err(KubernetesError::from_client)?
        };
        let namespace = if namespace.is_empty() {
            NO_NAMESPACE.to_owned()
        } else {
            namespace
        };
        Ok(Self {
            runtime: Some(runtime),
            client,
            namespace,
            kinds: Mutex::default(),
            answered: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        })
    }

    /// The namespace of objects that name none.
    #[must_use]
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the server has ever responded. If not, its address is probably wrong.
    #[must_use]
    pub(crate) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether optional requests should be skipped.
    #[must_use]
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    pub(crate) fn send(&self, request: Request<Vec<u8>>) -> Result<Value, KubernetesError> {
        self.run(async {
            self.client
                .request(request)
                .await
                .map_err(KubernetesError::from_client)
        })
    }

    /// How the server serves a kind, if it does. `anew` bypasses the cache.
    pub(crate) fn discover(
        &self,
        kind: &ResourceKind,
        anew: bool,
    ) -> Result<Option<ServedKind>, KubernetesError> {
        self.run(async {
            // locked during the request, so concurrent callers share one
            let mut known = self.kinds.lock().await;
            let api_version = kind.api_version();
            let find = |kinds: &Vec<(String, ServedKind)>| {
                let mut kinds = kinds.iter();
                kinds
                    .find(|(name, _)| *name == kind.kind)
                    .map(|(_, served)| served.clone())
            };
            let answer = known.get(&api_version).map(find);
            match answer {
                Some(Some(served)) if !anew => return Ok(Some(served)),
                Some(None) if !anew => return Ok(None),
                _ => {}
            }
            let kinds = self.list_kinds(kind).await?;
            let served = find(&kinds);
            known.insert(api_version, kinds);
            Ok(served)
        })
    }

    async fn list_kinds(
        &self,
        kind: &ResourceKind,
    ) -> Result<Vec<(String, ServedKind)>, KubernetesError> {
        let request = get(&ServedKind::root(kind))?;
        match self
            .client
            .request::<Value>(request)
            .await
            .map_err(KubernetesError::from_client)
        {
            Ok(list) => Ok(ServedKind::from_list(&list)),
            Err(failure) if failure.is_not_found() => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    fn run<T>(
        &self,
        future: impl Future<Output = Result<T, KubernetesError>>,
    ) -> Result<T, KubernetesError> {
        let Some(runtime) = &self.runtime else {
            return Err(KubernetesError::Canceled);
        };
        let result = runtime.block_on(future);
        let is_silent = matches!(result, Err(KubernetesError::Unreachable(_)));
        self.silent.store(is_silent, Ordering::Relaxed);
        self.answered.fetch_or(!is_silent, Ordering::Relaxed);
        result
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // no important task is left, and the dropping thread may not be allowed to block
            runtime.shutdown_background();
        }
    }
}

/// A GET request.
pub(crate) fn get(path: &str) -> Result<Request<Vec<u8>>, KubernetesError> {
    Request::get(path).body(Vec::new()).map_err(|error| {
        KubernetesError::Configuration(format!("`{path}` is no path of the API: {error}"))
    })
}

async fn configuration(settings: &KubernetesConfig) -> Result<Config, KubernetesError> {
    let options = KubeConfigOptions {
        context: settings.context.clone(),
        cluster: settings.cluster.clone(),
        user: None,
    };
    let unusable = |error: KubeconfigError| {
        KubernetesError::Configuration(format!(
            "failed to use the kubeconfig of provider `kubernetes`: {error}"
        ))
    };
    if let Some(kubeconfig) = kubeconfig(settings)? {
        return Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(unusable);
    }
    if let Some(kubeconfig) = renamed_kubeconfig(settings)? {
        return Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(unusable);
    }
    let ambient =
        settings.ambient.is_some() || settings.context.is_some() || settings.cluster.is_some();
    if !ambient && let Ok(config) = Config::incluster() {
        return Ok(config);
    }
    Config::from_kubeconfig(&options).await.map_err(|error| {
        KubernetesError::Configuration(format!(
            "there is no Kubernetes cluster to talk to: set `kubeconfig` on the provider (`kubernetes:kubeconfig` in \
             the stack's config) or KUBECONFIG, or run in a cluster ({error})"
        ))
    })
}

/// A kubeconfig of the provider: a path if the file exists, else the content.
fn kubeconfig(settings: &KubernetesConfig) -> Result<Option<Kubeconfig>, KubernetesError> {
    let Some(given) = &settings.kubeconfig else {
        return Ok(None);
    };
    read_kubeconfig(given).map(Some).map_err(|_| {
        // the parser's error may quote the content
        KubernetesError::Configuration(
            "`kubeconfig` of provider `kubernetes` is neither the path of a file nor the content of a kubeconfig".to_owned(),
        )
    })
}

/// A kubeconfig from its path or content.
pub(super) fn read_kubeconfig(given: &str) -> Result<Kubeconfig, KubeconfigError> {
    let path = path(given);
    if path.is_file() {
        // resolves relative files against its folder
        Kubeconfig::read_from(&path)
    } else {
        Kubeconfig::from_yaml(given)
    }
}

/// The kubeconfig of a variable that is mapped to KUBECONFIG.
fn renamed_kubeconfig(settings: &KubernetesConfig) -> Result<Option<Kubeconfig>, KubernetesError> {
    let own = std::env::var("KUBECONFIG").ok();
    let Some(files) = settings
        .ambient
        .as_ref()
        .filter(|files| own.as_ref() != Some(files))
    else {
        return Ok(None);
    };
    let files = std::env::split_paths(files).filter(|file| !file.as_os_str().is_empty());
    let read = files.map(Kubeconfig::read_from);
    let merged = read.reduce(|whole, next| whole?.merge(next?));
    merged.transpose().map_err(|error| {
        KubernetesError::Configuration(format!(
            "failed to read the kubeconfig that `envVarMappings` of provider `kubernetes` names: {error}"
        ))
    })
}

fn path(given: &str) -> PathBuf {
    match (given.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        // content is no path, and too long for one
        _ if fs::metadata(given).is_err() => PathBuf::new(),
        _ => PathBuf::from(given),
    }
}
