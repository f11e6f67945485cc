//! The files of a process workspace: its folder, and the Secrets and ConfigMaps that a pod would mount.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use pko_api::auto::v1alpha1::WorkspaceSpec;
use serde_json::Value;

use super::environment::{Data, EnvironmentError, Reader, present};

/// A Secret or a ConfigMap, and where a pod would mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: String,
    pub(super) source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Secret(String),
    ConfigMap(String),
}

/// Makes a folder that only this user can enter.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Where a file of the workspace's pod is for a process: below the folder's `volumes`.
pub(super) fn local_path(folder: &Path, path: &str) -> PathBuf {
    let inside = Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    folder.join("volumes").join(inside.collect::<PathBuf>())
}

/// The mounts of the workspace's container.
pub(super) fn mounts(spec: &WorkspaceSpec) -> Vec<Mount> {
    let pod = spec
        .pod_template
        .as_ref()
        .and_then(|template| template.spec.clone());
    let pod = Value::Object(pod.unwrap_or_default());
    let mounts = pod
        .pointer("/containers/0/volumeMounts")
        .and_then(Value::as_array);
    let volumes = pod.get("volumes").and_then(Value::as_array);
    mounts
        .into_iter()
        .flatten()
        .filter_map(|mount| {
            let volume = volumes?
                .iter()
                .find(|volume| volume.get("name") == mount.get("name"))?;
            let text = |pointer: &str| {
                volume
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            let secret = text("/secret/secretName").map(Source::Secret);
            let source = secret.or_else(|| text("/configMap/name").map(Source::ConfigMap))?;
            Some(Mount {
                path: mount.get("mountPath")?.as_str()?.to_owned(),
                source,
            })
        })
        .collect()
}

/// Writes what the mounts hold, anew.
pub(super) async fn write_mounts(
    folder: &Path,
    spec: &WorkspaceSpec,
    reader: &Reader<'_>,
) -> Result<(), MountError> {
    let volumes = folder.join("volumes");
    if volumes.exists() {
        fs::remove_dir_all(&volumes)?;
    }
    for mount in mounts(spec) {
        let data = match &mount.source {
            Source::Secret(name) => present(
                reader.secret(name).await?,
                "Secret",
                name,
                None,
                "the workspace's config",
            )?,
            Source::ConfigMap(name) => present(
                reader.config_map(name).await?,
                "ConfigMap",
                name,
                None,
                "the workspace's config",
            )?,
        };
        write_files(&local_path(folder, &mount.path), &data)?;
    }
    Ok(())
}

fn write_files(folder: &Path, data: &Data) -> io::Result<()> {
    private_folder(folder)?;
    for (key, value) in data {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(folder.join(key))?;
        io::Write::write_all(&mut file, value)?;
    }
    Ok(())
}

/// Why the mounts could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    /// What is referred to could not be read.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The API server did not answer.
    #[error(transparent)]
    Request(#[from] pko_kube::RequestError),
    /// A file could not be written.
    #[error("failed to write the workspace's files")]
    Write(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_stays_inside_of_the_folder() {
        let folder = Path::new("/w");
        assert_eq!(
            local_path(folder, "/var/run/x/key"),
            Path::new("/w/volumes/var/run/x/key")
        );
        assert_eq!(
            local_path(folder, "/../../etc/passwd"),
            Path::new("/w/volumes/etc/passwd")
        );
    }

    #[test]
    fn the_mounts_of_the_container_are_found() {
        let spec = serde_json::from_value(json!({ "podTemplate": { "spec": {
            "containers": [{ "name": "pulumi", "volumeMounts": [
                { "name": "secret-a", "mountPath": "/s/a" }, { "name": "configmap-b", "mountPath": "/c/b" },
            ] }],
            "volumes": [
                { "name": "secret-a", "secret": { "secretName": "a" } },
                { "name": "configmap-b", "configMap": { "name": "b" } },
                { "name": "unused", "secret": { "secretName": "c" } },
            ],
        } } }))
        .unwrap();
        assert_eq!(
            mounts(&spec),
            [
                Mount {
                    path: "/s/a".into(),
                    source: Source::Secret("a".into())
                },
                Mount {
                    path: "/c/b".into(),
                    source: Source::ConfigMap("b".into())
                },
            ]
        );
    }
}
