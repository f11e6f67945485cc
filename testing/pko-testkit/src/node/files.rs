//! The folders of a pod, which stand for its containers' file systems.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, KeyToPath, PodSpec, Volume};

use super::paths::Paths;
use super::references::{ObjectData, Objects, ReferenceKind};

/// The default termination log.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// The folders of one pod.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    logs: PathBuf,
}

impl Files {
    /// Makes them; the logs stay when the pod is gone.
    pub(super) fn make(node: &Path, name: &str) -> io::Result<Self> {
        let files = Self {
            folder: node.join("pods").join(name),
            logs: node.join("logs").join(name),
        };
        fs::create_dir_all(&files.folder)?;
        fs::create_dir_all(&files.logs)?;
        Ok(files)
    }

    pub(super) fn logs(&self) -> &Path {
        &self.logs
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that marks the processes of a container.
    pub(super) fn container(&self, container: &str) -> PathBuf {
        self.folder.join("containers").join(container)
    }

    pub(super) fn home(&self, container: &str) -> PathBuf {
        self.container(container).join("home")
    }

    pub(super) fn temporary(&self, container: &str) -> PathBuf {
        self.container(container).join("tmp")
    }

    pub(super) fn termination_log(&self, container: &str) -> PathBuf {
        self.container(container).join("termination-log")
    }

    fn volume(&self, volume: &str) -> PathBuf {
        self.folder.join("volumes").join(volume)
    }

    /// Creates the folders of a container, and an empty termination log.
    pub(super) fn make_container(&self, container: &str) -> io::Result<()> {
        fs::create_dir_all(self.home(container))?;
        fs::create_dir_all(self.temporary(container))?;
        fs::write(self.termination_log(container), "")
    }

    /// Which folder stands for which path of a container.
    pub(super) fn paths(&self, container: &Container) -> Paths {
        let mounts = container.volume_mounts.iter().flatten();
        let mounts = mounts.map(|mount| {
            let volume = self.volume(&mount.name);
            let inside = mount.sub_path.as_deref().unwrap_or_default();
            let real = if inside.is_empty() {
                volume
            } else {
                volume.join(inside)
            };
            (mount.mount_path.clone(), real)
        });
        let log = container.termination_message_path.clone();
        let log = log.unwrap_or_else(|| TERMINATION_LOG.to_owned());
        let log = (log, self.termination_log(&container.name));
        Paths::new(mounts.chain([log]).collect())
    }

    /// Creates the volumes of a pod. Errors are the kubelet's messages.
    pub(super) fn mount(&self, spec: &PodSpec, objects: &Objects) -> Result<(), String> {
        for volume in spec.volumes.iter().flatten() {
            let folder = self.volume(&volume.name);
            let contents = contents(volume, objects)
                .and_then(|contents| write(&folder, &contents).map_err(|error| error.to_string()));
            contents.map_err(|problem| {
                let name = &volume.name;
                format!("MountVolume.SetUp failed for volume \"{name}\" : {problem}")
            })?;
        }
        Ok(())
    }

    /// Removes all but the logs.
    pub(super) fn remove(&self) {
        // A process that is being killed may still write: then the node's end removes the rest
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The files of a volume. An emptyDir has none; so have the kinds that no workspace needs.
fn contents(volume: &Volume, objects: &Objects) -> Result<ObjectData, String> {
    let (values, items) = if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        let values = objects.values(ReferenceKind::Secret, name, secret.optional)?;
        (values, &secret.items)
    } else if let Some(map) = &volume.config_map {
        let values = objects.values(ReferenceKind::ConfigMap, &map.name, map.optional)?;
        (values, &map.items)
    } else {
        (None, &None)
    };
    let values = values.cloned().unwrap_or_default();
    match items.as_deref() {
        None | Some([]) => Ok(values),
        Some(items) => items
            .iter()
            .map(|item| select_item(item, &values))
            .collect(),
    }
}

fn select_item(item: &KeyToPath, values: &ObjectData) -> Result<(String, Vec<u8>), String> {
    let key = &item.key;
    match values.get(key) {
        Some(value) => Ok((item.path.clone(), value.clone())),
        None => Err(format!("references non-existent config key: {key}")),
    }
}

fn write(folder: &Path, contents: &ObjectData) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (path, value) in contents {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, value)?;
    }
    Ok(())
}
