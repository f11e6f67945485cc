//! An SSH client for git: runs one command on a server whose key is known.
//!
//! - [`connect`] and the session block. Reads and writes fail at the deadline.
//! - The server must present a key from [`KnownHosts`] before anything is sent to it.
//! - RSA signatures use SHA-2, ours and the server's.

mod blocking_pipe;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod handshake;
mod host_key;
mod known_hosts;
mod private_key;
mod rsa_signer;
mod server_messages;
mod session;
mod target;

pub use error::{AuthenticationFailure, HostKeyChanged, SshError, SshStage, UnknownHost};
pub use host_key::{DEFAULT_PORT, HostKey};
pub use known_hosts::{
    KnownHosts, KnownHostsFiles, KnownHostsLocation, KnownHostsProblem, KnownHostsWarning,
};
pub use private_key::PrivateKeyError;
pub use session::{SshReader, SshSession, SshWriter, connect};
pub use target::SshTarget;
