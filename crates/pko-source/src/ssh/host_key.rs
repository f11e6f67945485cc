//! A server's public key in the formats of the wire and of `known_hosts`. Does no I/O.

use std::fmt;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD},
};
use ring::digest;

pub const DEFAULT_PORT: u16 = 22;

/// Contains no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey {
    algorithm: String,
    blob: Vec<u8>,
}

impl HostKey {
    /// Parses the fields of a `known_hosts` line, which must agree.
    pub(super) fn parse(algorithm: &str, base64: &str) -> Option<Self> {
        let key = Self::from_blob(BASE64_STANDARD.decode(base64).ok()?)?;
        (key.algorithm == algorithm).then_some(key)
    }

    /// Parses the wire format, which starts with the algorithm's name.
    pub(super) fn from_blob(blob: Vec<u8>) -> Option<Self> {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let name = rest.get(..length)?;
        let printable = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        if !printable || rest.len() == length {
            return None;
        }
        let algorithm = String::from_utf8(name.to_vec()).ok()?;
        Some(Self { algorithm, blob })
    }

    /// For instance `ssh-ed25519`.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// `SHA256:…`, as OpenSSH prints it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.blob);
        format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(hash))
    }

    /// The `known_hosts` line for this key.
    #[must_use]
    pub fn known_hosts_line(&self, host: &str, port: u16) -> String {
        let name = known_hosts_name(host, port);
        let key = BASE64_STANDARD.encode(&self.blob);
        format!("{name} {} {key}", self.algorithm)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.algorithm, self.fingerprint())
    }
}

/// The name of a server in `known_hosts`, with its port unless that is 22.
pub(super) fn known_hosts_name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == DEFAULT_PORT {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    #[test]
    fn host_key_fingerprint_matches_openssh() {
        let key = HostKey::parse("ssh-ed25519", KEY).unwrap();
        assert_eq!(key.algorithm(), "ssh-ed25519");
        assert_eq!(
            key.fingerprint(),
            "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
        );
        assert_eq!(
            key.known_hosts_line("GitHub.com", 22),
            format!("github.com ssh-ed25519 {KEY}")
        );
        assert_eq!(
            key.known_hosts_line("::1", 2222),
            format!("[::1]:2222 ssh-ed25519 {KEY}")
        );
    }

    #[test]
    fn host_key_invalid_text_is_rejected() {
        assert_eq!(HostKey::parse("ssh-rsa", KEY), None, "another kind");
        for text in [
            "",
            "AAAA",
            "!",
            "AAAAC3NzaC1lZDI1NTE5",
            "/////w==",
            "AAAAAA==",
        ] {
            assert_eq!(HostKey::parse("ssh-ed25519", text), None, "{text}");
        }
    }
}
