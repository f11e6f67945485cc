//! The programs that the testkit runs: etcd, Kubernetes, CoreDNS, Pulumi and others.
//!
//! They come from `KUBEBUILDER_ASSETS` if that is set. Otherwise they are built from their Go
//! modules, once, into a cache outside of the checkout. The `go.mod` files in `components/` pin
//! their versions, the `go.sum` files their checksums. Files of a module are downloaded the same
//! way ([`crate::flux`]).

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, PathBuf};
use std::process::ExitStatus;

mod build;
mod build_dir;
mod cache;
mod go_module;
mod pinned_modules;

use build::ComponentBuild;
pub(crate) use go_module::GoModule;
use pinned_modules::PinnedModules;

/// A program that the testkit can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// The store behind the API server.
    Etcd,
    KubeApiserver,
    /// The built-in controllers: stateful sets, garbage collection, namespaces, service accounts.
    KubeControllerManager,
    Kubectl,
    /// Finds a node for each pod.
    KubeScheduler,
    /// Runs the pods of a node.
    Kubelet,
    /// Routes the addresses of Services to pods, on a node.
    KubeProxy,
    /// CoreDNS with the plugins of the test cluster (`components/coredns/main.go`).
    CoreDns,
    /// Kubernetes' strategic merge as a filter of lines (`components/kubernetes/strategic-merge`).
    StrategicMerge,
    /// The pause container, and the program of the test images (`components/kubernetes/pause`).
    Pause,
    Pulumi,
    /// Pulumi's language host for YAML, which the CLI finds in its own folder.
    PulumiLanguageYaml,
    /// An emulator of Google Cloud Storage.
    FakeGcsServer,
}

impl Component {
    /// Every component of a control plane.
    pub const CONTROL_PLANE: [Self; 4] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
    ];

    /// The components that a cluster with a node adds.
    pub const NODE: [Self; 4] = [
        Self::KubeScheduler,
        Self::Kubelet,
        Self::KubeProxy,
        Self::CoreDns,
    ];

    /// Pulumi's CLI and its YAML host.
    pub const PULUMI: [Self; 2] = [Self::Pulumi, Self::PulumiLanguageYaml];

    pub const ALL: [Self; 13] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::KubeScheduler,
        Self::Kubelet,
        Self::KubeProxy,
        Self::CoreDns,
        Self::StrategicMerge,
        Self::Pause,
        Self::Pulumi,
        Self::PulumiLanguageYaml,
        Self::FakeGcsServer,
    ];

    /// The file name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::CoreDns => "coredns",
            Self::StrategicMerge => "strategic-merge",
            Self::Pause => "pause",
            Self::Pulumi => "pulumi",
            Self::PulumiLanguageYaml => "pulumi-language-yaml",
            Self::FakeGcsServer => "fake-gcs-server",
        }
    }

    /// The source of a program that is not part of its module.
    fn source(self) -> Option<&'static str> {
        match self {
            Self::StrategicMerge => Some(include_str!(
                "../components/kubernetes/strategic-merge/main.go"
            )),
            Self::Pause => Some(include_str!("../components/kubernetes/pause/main.go")),
            Self::CoreDns => Some(include_str!("../components/coredns/main.go")),
            _ => None,
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::StrategicMerge => "k8s.io/apimachinery",
            Self::Pulumi => "github.com/pulumi/pulumi/pkg/v3",
            Self::PulumiLanguageYaml => "github.com/pulumi/pulumi-yaml",
            Self::FakeGcsServer => "github.com/fsouza/fake-gcs-server",
            Self::CoreDns => "github.com/coredns/coredns",
            _ => "k8s.io/kubernetes",
        }
    }

    fn pinned_modules(self) -> PinnedModules {
        match self {
            Self::Pulumi | Self::PulumiLanguageYaml => PinnedModules::Pulumi,
            Self::FakeGcsServer => PinnedModules::FakeGcsServer,
            Self::CoreDns => PinnedModules::CoreDns,
            _ => PinnedModules::Kubernetes,
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd | Self::FakeGcsServer => self.module().to_owned(),
            Self::StrategicMerge | Self::Pause | Self::CoreDns => format!("./{}", self.name()),
            _ => format!("{}/cmd/{}", self.module(), self.name()),
        }
    }

    /// The program's name in the output of `go build`.
    fn built_name(self) -> &'static str {
        match self {
            Self::Etcd => "server",
            _ => self.name(),
        }
    }
}

/// The environment variables that determine where components come from.
#[derive(Clone, Debug, Default)]
pub struct BuildEnvironment {
    /// `KUBEBUILDER_ASSETS`: a folder with prebuilt programs.
    pub assets: Option<OsString>,
    /// `PKO_CACHE`: the folder for built programs.
    pub cache: Option<OsString>,
    /// `XDG_CACHE_HOME`.
    pub user_cache: Option<OsString>,
    pub home: Option<PathBuf>,
    /// `PATH`, where `go` is looked for.
    pub search_path: Option<OsString>,
}

impl BuildEnvironment {
    #[must_use]
    pub fn from_process() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            assets: set("KUBEBUILDER_ASSETS"),
            cache: set("PKO_CACHE"),
            user_cache: set("XDG_CACHE_HOME"),
            home: env::home_dir(),
            search_path: set("PATH"),
        }
    }
}

/// The source of the programs.
#[derive(Clone, Debug)]
pub struct Components(ComponentSource);

#[derive(Clone, Debug)]
enum ComponentSource {
    Ready(PathBuf),
    Built(ComponentBuild),
}

impl Components {
    /// Touches no file.
    pub fn new(environment: &BuildEnvironment) -> Result<Self, ComponentsError> {
        if let Some(assets) = &environment.assets {
            return Ok(Self(ComponentSource::Ready(absolute(assets.into())?)));
        }
        Ok(Self(ComponentSource::Built(ComponentBuild::of(
            environment,
        )?)))
    }

    /// [`Components::new`] for the environment of this process.
    pub fn from_environment() -> Result<Self, ComponentsError> {
        Self::new(&BuildEnvironment::from_process())
    }

    /// Builds the missing ones, with one `go build` per module.
    ///
    /// Blocks for minutes, with a message on standard error.
    pub fn prepare(&self, components: &[Component]) -> Result<(), ComponentsError> {
        match &self.0 {
            ComponentSource::Ready(directory) => {
                let is_ready = |component: &&Component| {
                    Component::CONTROL_PLANE.contains(component)
                        || directory.join(component.name()).is_file()
                };
                let missing = components.iter().filter(|it| !is_ready(it)).copied();
                let build = ComponentBuild::of(&BuildEnvironment::from_process())?;
                build.all(&missing.collect::<Vec<_>>())
            }
            ComponentSource::Built(build) => build.all(components),
        }
    }

    /// The path of a built program, regardless of `KUBEBUILDER_ASSETS`.
    pub fn built_path(component: Component) -> Result<PathBuf, ComponentsError> {
        ComponentBuild::of(&BuildEnvironment::from_process())?.path(component)
    }

    /// The path of a program, built if needed.
    ///
    /// A build blocks for minutes, with a message on standard error.
    pub fn path(&self, component: Component) -> Result<PathBuf, ComponentsError> {
        match &self.0 {
            ComponentSource::Ready(directory) => {
                let path = directory.join(component.name());
                if path.is_file() {
                    return Ok(path);
                }
                // Such folders have the components of a control plane, seldom those of a node
                if Component::NODE.contains(&component) {
                    return Self::built_path(component);
                }
                Err(ComponentsError::MissingAsset {
                    name: component.name(),
                    directory: directory.clone(),
                })
            }
            ComponentSource::Built(build) => build.path(component),
        }
    }
}

/// The folder of everything that is reused by later runs.
pub fn cache_folder() -> Result<PathBuf, ComponentsError> {
    let folder = cache::directory(&BuildEnvironment::from_process());
    absolute(folder.ok_or(ComponentsError::NoCache)?)
}

/// Programs run and are built in other working directories.
fn absolute(path: PathBuf) -> Result<PathBuf, ComponentsError> {
    let action = "find";
    path::absolute(&path).map_err(|source| ComponentsError::Cache {
        action,
        path,
        source,
    })
}

#[derive(thiserror::Error)]
pub enum ComponentsError {
    #[error("KUBEBUILDER_ASSETS names {}, but there is no `{name}` in it", directory.display())]
    MissingAsset {
        name: &'static str,
        directory: PathBuf,
    },
    #[error("no folder to build into: set PKO_CACHE or HOME")]
    NoCache,
    #[error("PKO_PULUMI names {}, which is not there; unset it to use the pinned CLI", .0.display())]
    NoPulumi(PathBuf),
    #[error(
        "`go` is not on the PATH: install Go {version} or newer (https://go.dev/dl), or point \
         KUBEBUILDER_ASSETS at a folder with etcd, kube-apiserver, kube-controller-manager and kubectl"
    )]
    NoGo {
        /// The minimum version.
        version: String,
    },
    #[error("no go.mod in testing/pko-testkit/components pins {0}")]
    Unpinned(&'static str),
    #[error("failed to {action} {}", path.display())]
    Cache {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("failed to run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("failed to build {names} ({status}); the end of its output:\n{output}")]
    Build {
        names: String,
        status: ExitStatus,
        output: String,
    },
    #[error(
        "failed to build {names}: the disk is full; free some space at {}, or set PKO_CACHE to a \
         folder on another disk",
        folder.display()
    )]
    DiskFull { names: String, folder: PathBuf },
    #[error("failed to download {module} ({status}); the end of its output:\n{output}")]
    Download {
        module: String,
        status: ExitStatus,
        output: String,
    },
}

crate::error_text::debug_is_text!(ComponentsError);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn assets_are_used_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        let components = Components::new(&BuildEnvironment {
            assets: Some(folder.path().into()),
            ..BuildEnvironment::default()
        })
        .unwrap();

        assert_eq!(
            components.path(Component::Etcd).unwrap(),
            folder.path().join("etcd")
        );
        let error = components.path(Component::Kubectl).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "KUBEBUILDER_ASSETS names {}, but there is no `kubectl` in it",
                folder.path().display()
            )
        );
    }

    #[test]
    fn missing_go_names_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let components = Components::new(&BuildEnvironment {
            cache: Some(folder.path().into()),
            search_path: Some(folder.path().into()),
            ..BuildEnvironment::default()
        })
        .unwrap();

        let error = components.path(Component::Etcd).unwrap_err();
        assert!(matches!(error, ComponentsError::NoGo { .. }));
        assert_eq!(
            error.to_string(),
            "`go` is not on the PATH: install Go 1.24 or newer (https://go.dev/dl), or point \
             KUBEBUILDER_ASSETS at a folder with etcd, kube-apiserver, kube-controller-manager \
             and kubectl"
        );
    }

    #[test]
    fn missing_home_and_cache_is_an_error() {
        let error = Components::new(&BuildEnvironment::default()).unwrap_err();
        assert!(matches!(error, ComponentsError::NoCache));
    }
}
