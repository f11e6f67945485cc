//! SSH, as far as git needs it: one command on a server whose key is known.
//!
//! [`connect`] blocks, and everything after it does: reads and writes end at the deadline at the latest, whatever the
//! server does. A server is spoken to only if [`KnownHosts`] has the key that it shows; nothing of ours is shown to
//! any other one. RSA keys sign with SHA-2 only, ours and the server's.

mod error;
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod handshake;
mod host_key;
mod known_hosts;
mod pipe;
mod private_key;
mod rsa_signer;
mod said;
mod session;
mod target;

pub use error::{ChangedHost, Refused, SshError, Stage, UnknownHost};
pub use host_key::{DEFAULT_PORT, HostKey};
pub use known_hosts::{Files as KnownHostFiles, KnownHosts, Place, Problem, Warning};
pub use private_key::KeyError;
pub use session::{Reader, Session, Writer, connect};
pub use target::Target;
