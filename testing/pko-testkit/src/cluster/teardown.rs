//! Removes a cluster, complete or partly created.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cluster_dir::{ClusterDir, attempt};
use super::network::NodeNetwork;
use super::{ClusterError, DOWN_PROGRAM, cgroups, namespaces};
use crate::lifeline::Lifeline;

/// Takes a cluster down when it is dropped, or when this process ends. The cluster need not be up
/// yet.
pub(super) fn lifeline(dir: &ClusterDir) -> Result<Lifeline, ClusterError> {
    let program = down_program().ok_or(ClusterError::NoDownProgram)?;
    let arguments = [program.as_os_str(), dir.name().as_ref()];
    Lifeline::start("pko-cluster-lifeline", r#"exec "$@""#, arguments)
        .map_err(ClusterError::Lifeline)
}

/// `cluster-down` in `$PKO_BIN_DIR`, or where cargo puts programs.
fn down_program() -> Option<PathBuf> {
    let this = env::current_exe().unwrap_or_default();
    let beside = this.ancestors().skip(1).take(2).map(Path::to_owned);
    let folders = match env::var_os("PKO_BIN_DIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => beside.collect(),
    };
    let mut programs = folders.iter().map(|folder| folder.join(DOWN_PROGRAM));
    programs.find(|path| path.is_file())
}

/// Leaves no process, mount, interface, cgroup or file. Idempotent.
pub(super) fn take_down(dir: &ClusterDir) -> Result<(), ClusterError> {
    let network = NodeNetwork::of(dir);
    namespaces::end(dir)?;
    if let Some(network) = network {
        network.disconnect();
    }
    cgroups::remove(dir)?;
    attempt("remove", dir.folder(), |folder| {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    })
}
