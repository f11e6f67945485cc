//! Where workspaces run. Today that is beside the manager, as processes.

mod environment;
mod files;
mod process;
mod record;
mod source;
mod support;

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

pub(crate) use process::{Processes, Tokens};

use crate::agent_client::Credentials;

/// The agent of a workspace.
#[derive(Clone)]
pub(crate) struct AgentAt {
    /// Where it listens: `unix:PATH` or `host:port`.
    pub(crate) address: String,
    /// What it wants to see.
    pub(crate) credentials: Credentials,
    /// Whose journal it keeps: another one knows nothing of runs that were begun in this one.
    pub(crate) instance: String,
}

/// The first bytes of a text's hash, in hexadecimal.
fn short_hash(text: &[u8], bytes: usize) -> String {
    Sha256::digest(text)
        .iter()
        .take(bytes)
        .fold(String::new(), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        })
}
