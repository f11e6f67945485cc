//! The files of a process workspace: its folder, and the volumes that a pod would mount.
//!
//! A process has no mounts. The content of `/state` in a pod is at `volumes/state` in the
//! workspace's folder, and variables that name a file there get that path. A claim is a folder
//! beside the workspaces of its namespace (`.volumes/CLAIM`), and outlives them.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use pko_api::auto::v1alpha1::WorkspaceSpec;
use serde_json::Value;

use super::environment::{EnvironmentError, KeyValues, ReferenceReader, present};

/// In the folder of a namespace. Names of workspaces can't start with a dot.
const CLAIMS: &str = ".volumes";

/// A volume, and its mount path in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: String,
    pub(super) source: Volume,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Volume {
    Secret(String),
    ConfigMap(String),
    /// Empty at each start of an agent.
    Empty,
    /// A `PersistentVolumeClaim` of this name.
    Claim(String),
}

/// Creates a folder that only this user can enter.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Maps a path in the container to one below `volumes`.
pub(super) fn local_path(folder: &Path, path: &str) -> PathBuf {
    let inside = Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    folder.join("volumes").join(inside.collect::<PathBuf>())
}

fn claim_folder(folder: &Path, claim: &str) -> PathBuf {
    let namespace = folder.parent().unwrap_or(folder);
    namespace.join(CLAIMS).join(claim)
}

/// Maps the value of a variable: the path of a file in a mount, or a `file://` URL of one.
pub(super) fn local_value(folder: &Path, mounts: &[Mount], value: String) -> String {
    let (scheme, rest) = match value.strip_prefix("file://") {
        Some(rest) => ("file://", rest),
        None => ("", value.as_str()),
    };
    let (path, query) = match rest.find('?').filter(|_| !scheme.is_empty()) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let leads_out = Path::new(path)
        .components()
        .any(|part| part == Component::ParentDir);
    let is_inside = |mount: &Mount| Path::new(path).starts_with(&mount.path);
    if leads_out || !mounts.iter().any(is_inside) {
        return value;
    }
    format!("{scheme}{}{query}", local_path(folder, path).display())
}

/// The mounts of the first container.
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
            Some(Mount {
                path: mount.get("mountPath")?.as_str()?.to_owned(),
                source: volume_source(volume)?,
            })
        })
        .collect()
}

fn volume_source(volume: &Value) -> Option<Volume> {
    let text = |pointer: &str| {
        let text = volume.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    if volume.get("emptyDir").is_some() {
        return Some(Volume::Empty);
    }
    text("/secret/secretName")
        .map(Volume::Secret)
        .or_else(|| text("/configMap/name").map(Volume::ConfigMap))
        .or_else(|| text("/persistentVolumeClaim/claimName").map(Volume::Claim))
}

/// Rewrites the content of the mounts, except that of claims.
pub(super) async fn write_mounts(
    folder: &Path,
    mounts: &[Mount],
    reader: &ReferenceReader<'_>,
) -> Result<(), MountError> {
    let volumes = folder.join("volumes");
    if volumes.exists() {
        fs::remove_dir_all(&volumes)?;
    }
    for mount in mounts {
        let path = local_path(folder, &mount.path);
        let data = match &mount.source {
            Volume::Empty => {
                private_folder(&path)?;
                continue;
            }
            Volume::Claim(claim) => {
                link_claim(&claim_folder(folder, claim), &path)?;
                continue;
            }
            Volume::Secret(name) => present(
                reader.secret(name).await?,
                "Secret",
                name,
                None,
                "the workspace's config",
            )?,
            Volume::ConfigMap(name) => present(
                reader.config_map(name).await?,
                "ConfigMap",
                name,
                None,
                "the workspace's config",
            )?,
        };
        write_files(&path, &data)?;
    }
    Ok(())
}

/// Links the folder of a claim.
fn link_claim(claim: &Path, path: &Path) -> io::Result<()> {
    private_folder(claim)?;
    if let Some(parent) = path.parent() {
        private_folder(parent)?;
    }
    symlink(claim, path)
}

fn write_files(folder: &Path, data: &KeyValues) -> io::Result<()> {
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

#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Request(#[from] pko_kube::RequestError),
    #[error("failed to write the workspace's files")]
    Write(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn local_path_stays_in_the_folder() {
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
    fn mounts_of_the_container_are_found() {
        let spec = serde_json::from_value(json!({ "podTemplate": { "spec": {
            "containers": [{ "name": "pulumi", "volumeMounts": [
                { "name": "secret-a", "mountPath": "/s/a" }, { "name": "configmap-b", "mountPath": "/c/b" },
                { "name": "state", "mountPath": "/state" }, { "name": "scratch", "mountPath": "/scratch" },
            ] }],
            "volumes": [
                { "name": "secret-a", "secret": { "secretName": "a" } },
                { "name": "configmap-b", "configMap": { "name": "b" } },
                { "name": "unused", "secret": { "secretName": "c" } },
                { "name": "state", "persistentVolumeClaim": { "claimName": "d" } },
                { "name": "scratch", "emptyDir": {} },
            ],
        } } }))
        .unwrap();
        assert_eq!(
            mounts(&spec),
            [
                Mount {
                    path: "/s/a".into(),
                    source: Volume::Secret("a".into())
                },
                Mount {
                    path: "/c/b".into(),
                    source: Volume::ConfigMap("b".into())
                },
                Mount {
                    path: "/state".into(),
                    source: Volume::Claim("d".into())
                },
                Mount {
                    path: "/scratch".into(),
                    source: Volume::Empty
                },
            ]
        );
    }

    fn mount(path: &str, source: Volume) -> Mount {
        Mount {
            path: path.to_owned(),
            source,
        }
    }

    #[test]
    fn local_value_maps_paths_in_mounts() {
        let mounts = [
            mount("/state", Volume::Claim("state".into())),
            mount("/keys/", Volume::Secret("keys".into())),
        ];
        for (value, expected) in [
            ("file:///state", "file:///w/volumes/state"),
            ("file:///state/", "file:///w/volumes/state"),
            (
                "file:///state/a?no_tmp_dir=true",
                "file:///w/volumes/state/a?no_tmp_dir=true",
            ),
            ("/keys/google.json", "/w/volumes/keys/google.json"),
            ("/state", "/w/volumes/state"),
            ("file:///stateful", "file:///stateful"),
            ("file:///elsewhere", "file:///elsewhere"),
            ("/state/../etc/passwd", "/state/../etc/passwd"),
            ("s3://state", "s3://state"),
            ("state", "state"),
            ("", ""),
        ] {
            let value = local_value(Path::new("/w"), &mounts, value.to_owned());
            assert_eq!(value, expected);
        }
        let value = local_value(Path::new("/w"), &[], "file:///state".to_owned());
        assert_eq!(
            value, "file:///state",
            "without a mount it is this machine's"
        );
    }

    #[test]
    fn claim_folder_outlives_the_workspace() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("namespace/name");
        let claim = claim_folder(&folder, "state");
        let path = local_path(&folder, "/deep/state");
        link_claim(&claim, &path).unwrap();
        fs::write(path.join("kept"), "text").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        link_claim(&claim, &path).unwrap();
        assert_eq!(fs::read_to_string(path.join("kept")).unwrap(), "text");
        assert!(claim.starts_with(all.path().join("namespace/.volumes")));
    }
}
