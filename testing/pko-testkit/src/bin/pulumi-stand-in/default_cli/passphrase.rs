//! The passphrase secrets provider, as far as tests observe it: right, wrong or missing passphrase.
//!
//! Secrets are hex-encoded, not encrypted.

use std::{env, fs};

use sha2::{Digest, Sha256};

use super::state_file::StackState;
use crate::cli_error::{CliError, CliResult};

const MISSING: &str = "passphrase must be set with PULUMI_CONFIG_PASSPHRASE or \
                       PULUMI_CONFIG_PASSPHRASE_FILE environment variables";
const INCORRECT: &str = "incorrect passphrase";

/// The kinds of secrets providers, and which of them is this one.
const PROVIDERS: [&str; 6] = [
    "default",
    "passphrase",
    "awskms",
    "azurekeyvault",
    "gcpkms",
    "hashivault",
];

/// The salt of a new stack; `None` for other secrets providers.
pub(super) fn new_salt(provider: &str) -> CliResult<Option<String>> {
    let kind = provider.split("://").next().unwrap_or_default();
    if !PROVIDERS.contains(&kind) {
        let known = PROVIDERS.join(",");
        let text = format!("unknown secrets provider type '{kind}' (supported values: {known})");
        return CliError::result(1, text);
    }
    if !matches!(kind, "default" | "passphrase") {
        return Ok(None);
    }
    match passphrase() {
        Some(passphrase) => Ok(Some(salt(&passphrase))),
        None => CliError::result(
            1,
            format!("could not create secrets manager for new stack: {MISSING}"),
        ),
    }
}

/// Fails if the passphrase is not the stack's. `doing` is the prefix of the error.
pub(super) fn check(stack: &StackState, doing: &str) -> CliResult<()> {
    let Some(expected) = &stack.salt else {
        return Ok(());
    };
    match passphrase() {
        None => CliError::result(1, format!("{doing}{MISSING}")),
        Some(passphrase) if salt(&passphrase) != *expected => {
            CliError::result(1, format!("{doing}{INCORRECT}"))
        }
        Some(_) => Ok(()),
    }
}

/// As [`check`], for commands that only read.
pub(super) fn check_to_decrypt(stack: &StackState) -> CliResult<()> {
    let right = stack.salt.is_none() || passphrase().map(|text| salt(&text)) == stack.salt;
    if right {
        return Ok(());
    }
    CliError::result(
        1,
        "failed to decrypt: incorrect passphrase, please set PULUMI_CONFIG_PASSPHRASE to the correct \
         passphrase or set PULUMI_CONFIG_PASSPHRASE_FILE to a file containing the passphrase",
    )
}

pub(super) fn encrypt(text: &str) -> String {
    format!("v1:{}", hex::encode(text))
}

pub(super) fn decrypt(text: &str) -> CliResult<String> {
    let digits = text
        .strip_prefix("v1:")
        .ok_or("not a secret of the stand-in")?;
    Ok(String::from_utf8(hex::decode(digits)?)?)
}

fn passphrase() -> Option<String> {
    let from_file = || {
        let file = env::var_os("PULUMI_CONFIG_PASSPHRASE_FILE")?;
        Some(fs::read_to_string(file).ok()?.trim().to_owned())
    };
    env::var("PULUMI_CONFIG_PASSPHRASE").ok().or_else(from_file)
}

fn salt(passphrase: &str) -> String {
    let hash = Sha256::digest(passphrase);
    format!("v1:{}", hex::encode(hash))
}
