//! The programs of a control plane: where they are, and how they get there.
//!
//! They come from `KUBEBUILDER_ASSETS` where that is set. Otherwise they are built from their Go
//! modules, once, into a cache outside the checkout. The `go.mod` files in `components/` are the one
//! place where their versions are pinned, the `go.sum` files what they are checked against. Files
//! that are of use as they are come the same way ([`crate::flux`]).

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, PathBuf};
use std::process::ExitStatus;

mod build;
mod cache;
mod module;
mod pins;
mod workshop;

use build::Build;
pub(crate) use module::Module;
use pins::Pins;

/// A program that the testkit can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The built-in controllers: stateful sets, garbage collection, namespaces, service accounts.
    KubeControllerManager,
    /// The command line.
    Kubectl,
    /// Finds a node for each pod.
    KubeScheduler,
    /// Runs the pods of a node.
    Kubelet,
    /// Leads the addresses of Services to pods, on a node.
    KubeProxy,
    /// Kubernetes' strategic merge as a program of ours (`components/kubernetes/strategic-merge`), which answers a
    /// line with a line.
    StrategicMerge,
    /// What holds a pod together and what our test images run (`components/kubernetes/pause`), a static program of ours.
    Pause,
    /// Pulumi's own CLI.
    Pulumi,
    /// Its host for YAML programs, which it looks for beside itself.
    PulumiLanguageYaml,
    /// A server with Google Cloud Storage's API.
    FakeGcsServer,
}

impl Component {
    /// Every component of a control plane.
    pub const ALL: [Self; 4] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
    ];

    /// What a cluster with a node has besides.
    pub const NODE: [Self; 3] = [Self::KubeScheduler, Self::Kubelet, Self::KubeProxy];

    /// Pulumi's CLI and what it runs YAML programs with.
    pub const PULUMI: [Self; 2] = [Self::Pulumi, Self::PulumiLanguageYaml];

    /// All that can be built.
    pub const EVERY: [Self; 12] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::KubeScheduler,
        Self::Kubelet,
        Self::KubeProxy,
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
            Self::StrategicMerge => "strategic-merge",
            Self::Pause => "pause",
            Self::Pulumi => "pulumi",
            Self::PulumiLanguageYaml => "pulumi-language-yaml",
            Self::FakeGcsServer => "fake-gcs-server",
        }
    }

    /// The source of a program that is ours and no part of its module.
    fn source(self) -> Option<&'static str> {
        match self {
            Self::StrategicMerge => Some(include_str!(
                "../components/kubernetes/strategic-merge/main.go"
            )),
            Self::Pause => Some(include_str!("../components/kubernetes/pause/main.go")),
            _ => None,
        }
    }

    /// The module that has its source.
    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::StrategicMerge => "k8s.io/apimachinery",
            Self::Pulumi => "github.com/pulumi/pulumi/pkg/v3",
            Self::PulumiLanguageYaml => "github.com/pulumi/pulumi-yaml",
            Self::FakeGcsServer => "github.com/fsouza/fake-gcs-server",
            _ => "k8s.io/kubernetes",
        }
    }

    /// The module of ours that pins it.
    fn pins(self) -> Pins {
        match self {
            Self::Pulumi | Self::PulumiLanguageYaml => Pins::Pulumi,
            Self::FakeGcsServer => Pins::FakeGcsServer,
            _ => Pins::Kubernetes,
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd | Self::FakeGcsServer => self.module().to_owned(),
            Self::StrategicMerge | Self::Pause => format!("./{}", self.name()),
            _ => format!("{}/cmd/{}", self.module(), self.name()),
        }
    }

    /// What `go build` calls the program.
    fn built_name(self) -> &'static str {
        match self {
            Self::Etcd => "server",
            _ => self.name(),
        }
    }
}

/// What of the environment decides where components come from.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `KUBEBUILDER_ASSETS`: a folder with ready programs.
    pub assets: Option<OsString>,
    /// `PKO_CACHE`: a folder for what is built.
    pub cache: Option<OsString>,
    /// `XDG_CACHE_HOME`.
    pub user_cache: Option<OsString>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// `PATH`, where `go` is looked for.
    pub search_path: Option<OsString>,
}

impl Surroundings {
    /// Reads them from the environment of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
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

/// Where the programs come from.
#[derive(Clone, Debug)]
pub struct Components(Origin);

#[derive(Clone, Debug)]
enum Origin {
    Ready(PathBuf),
    Built(Build),
}

impl Components {
    /// Decides where components come from; touches no file yet.
    pub fn new(surroundings: &Surroundings) -> Result<Self, ComponentsError> {
        if let Some(assets) = &surroundings.assets {
            return Ok(Self(Origin::Ready(absolute(assets.into())?)));
        }
        Ok(Self(Origin::Built(Build::of(surroundings)?)))
    }

    /// [`Components::new`] for the environment of this process.
    pub fn from_environment() -> Result<Self, ComponentsError> {
        Self::new(&Surroundings::of_this_process())
    }

    /// Builds all of these that are to be built and are missing, with one `go build` a module.
    ///
    /// Blocks for minutes; says so on standard error.
    pub fn prepare(&self, components: &[Component]) -> Result<(), ComponentsError> {
        match &self.0 {
            Origin::Ready(directory) => {
                let is_ready = |component: &&Component| {
                    Component::ALL.contains(component) || directory.join(component.name()).is_file()
                };
                let missing = components.iter().filter(|it| !is_ready(it)).copied();
                let build = Build::of(&Surroundings::of_this_process())?;
                build.all(&missing.collect::<Vec<_>>())
            }
            Origin::Built(build) => build.all(components),
        }
    }

    /// The path of a program that is ours, whatever `KUBEBUILDER_ASSETS` has.
    pub fn own(component: Component) -> Result<PathBuf, ComponentsError> {
        Build::of(&Surroundings::of_this_process())?.path(component)
    }

    /// The path of a program, which is built first if need be.
    ///
    /// Blocks, for minutes when something is built; says so on standard error.
    pub fn path(&self, component: Component) -> Result<PathBuf, ComponentsError> {
        match &self.0 {
            Origin::Ready(directory) => {
                let path = directory.join(component.name());
                if path.is_file() {
                    return Ok(path);
                }
                // Such folders have the parts of a control plane, seldom those of a node
                if Component::NODE.contains(&component) {
                    return Self::own(component);
                }
                Err(ComponentsError::MissingAsset {
                    name: component.name(),
                    directory: directory.clone(),
                })
            }
            Origin::Built(build) => build.path(component),
        }
    }
}

/// The folder of everything that is kept from run to run.
pub fn cache_folder() -> Result<PathBuf, ComponentsError> {
    let folder = cache::directory(&Surroundings::of_this_process());
    absolute(folder.ok_or(ComponentsError::NoCache)?)
}

/// Programs are run, and built, in other directories than this process's.
fn absolute(path: PathBuf) -> Result<PathBuf, ComponentsError> {
    let action = "find";
    path::absolute(&path).map_err(|source| ComponentsError::Cache {
        action,
        path,
        source,
    })
}

/// Why a component is not there.
#[derive(thiserror::Error)]
pub enum ComponentsError {
    /// `KUBEBUILDER_ASSETS` lacks a program.
    #[error("KUBEBUILDER_ASSETS names {}, but there is no `{name}` in it", directory.display())]
    MissingAsset {
        /// The program.
        name: &'static str,
        /// The folder.
        directory: PathBuf,
    },
    /// Neither `PKO_CACHE` nor a home directory.
    #[error("no folder to build into: set PKO_CACHE or HOME")]
    NoCache,
    /// `PKO_PULUMI` names no program.
    #[error("PKO_PULUMI names {}, which is not there; unset it to use the pinned CLI", .0.display())]
    NoPulumi(PathBuf),
    /// Go is needed and missing.
    #[error(
        "`go` is not on the PATH: install Go {version} or newer (https://go.dev/dl), or point \
         KUBEBUILDER_ASSETS at a folder with etcd, kube-apiserver, kube-controller-manager and kubectl"
    )]
    NoGo {
        /// The oldest Go that will do.
        version: String,
    },
    /// A pinned version is missing from the `go.mod` that should have it.
    #[error("no go.mod in testing/pko-testkit/components pins {0}")]
    Unpinned(&'static str),
    /// A file of the cache can't be used.
    #[error("failed to {action} {}", path.display())]
    Cache {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Go did not start.
    #[error("failed to run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// `go build` failed.
    #[error("failed to build {names} ({status}); the end of what `go build` said:\n{output}")]
    Build {
        /// The components.
        names: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its output.
        output: String,
    },
    /// There is no room for what is built.
    #[error(
        "failed to build {names}: the disk is full; free some space at {}, or set PKO_CACHE to a \
         folder on another disk",
        folder.display()
    )]
    DiskFull {
        /// The components.
        names: String,
        /// Where they are built.
        folder: PathBuf,
    },
    /// `go mod download` failed.
    #[error(
        "failed to download {module} ({status}); the end of what `go mod download` said:\n{output}"
    )]
    Download {
        /// The module and its version.
        module: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its output.
        output: String,
    },
}

crate::error_text::debug_is_text!(ComponentsError);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ready_programs_are_used_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        let components = Components::new(&Surroundings {
            assets: Some(folder.path().into()),
            ..Surroundings::default()
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
    fn without_go_one_sentence_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let components = Components::new(&Surroundings {
            cache: Some(folder.path().into()),
            search_path: Some(folder.path().into()),
            ..Surroundings::default()
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
    fn without_a_home_the_cache_is_asked_for() {
        let error = Components::new(&Surroundings::default()).unwrap_err();
        assert!(matches!(error, ComponentsError::NoCache));
    }
}
