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
