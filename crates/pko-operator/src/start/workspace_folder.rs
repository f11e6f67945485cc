//! The folder of process workspaces.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use kube::Client;

/// A folder that belongs to this manager and this cluster alone: what belongs to no Workspace of
/// the cluster is removed from it. Unlocked on drop.
pub(super) struct WorkspaceFolder {
    pub(super) path: PathBuf,
    lock: File,
}

impl Drop for WorkspaceFolder {
    /// A child between its fork and its exec has a copy of the file, which would keep the lock.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl WorkspaceFolder {
    pub(super) async fn claim(path: &Path, client: &Client) -> anyhow::Result<Self> {
        let name = path.display();
        fs::create_dir_all(path).with_context(|| format!("--workspace-dir {name}"))?;
        let path = path.canonicalize()?;
        let lock = File::create(path.join(".lock"))?;
        if lock.try_lock().is_err() {
            anyhow::bail!("--workspace-dir {name}: another manager uses this folder");
        }
        let cluster = pko_kube::cluster_uid(client).await?.unwrap_or_default();
        let owner = path.join(".cluster");
        match fs::read_to_string(&owner) {
            Ok(other) if other != cluster => {
                anyhow::bail!(
                    "--workspace-dir {name} has the workspaces of another cluster: use another folder for this one"
                )
            }
            Ok(_) => {}
            Err(_) => fs::write(&owner, cluster)?,
        }
        Ok(Self { path, lock })
    }
}
