//! Takes a cluster away, whole or half-made.

use std::fs;
use std::io;

use super::network::Network;
use super::place::{Place, attempt};
use super::{ClusterError, cgroups, namespaces};

/// Leaves no process, mount, interface, cgroup or file; what is already gone is no error.
pub(super) fn take_down(place: &Place) -> Result<(), ClusterError> {
    let network = Network::of(place);
    namespaces::end(place)?;
    if let Some(network) = network {
        network.disconnect();
    }
    cgroups::remove(place)?;
    attempt(
        "remove",
        place.folder(),
        |folder| match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        },
    )
}
