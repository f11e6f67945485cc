//! SSH, as far as git needs it: one command on a server whose key is known.

#[doc(hidden)]
pub mod fuzz;
mod host_key;
mod known_hosts;
mod pem;
mod private_key;

pub use host_key::{DEFAULT_PORT, HostKey};
pub use known_hosts::{Files as KnownHostFiles, KnownHosts, Place, Problem, Warning};
pub use private_key::KeyError;
