//! Connects, verifies the server, authenticates and starts the command.
//!
//! Each step records its stage, so that an exceeded deadline names it.

use std::{borrow::Cow, io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use russh::{
    ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Error,
    client::{self, AuthResult, Handle, Msg},
    keys::{
        Algorithm, EcdsaCurve, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyBase64 as _,
    },
};
use tokio::net::{TcpStream, lookup_host};

use super::{
    AuthenticationFailure, HostKey, KnownHosts, SshError, SshStage, SshTarget,
    handler::{ConnectionError, Handler, SharedMessages},
    rsa_signer::{RsaSigner, SignError},
};
use crate::{Deadline, metadata_address::is_link_local};

/// Bytes that the server may send ahead.
const WINDOW: u32 = 1024 * 1024;
const WAITING_PACKETS: usize = 16;
/// The minimum for each of several addresses of a server.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(2);

pub(super) struct Handshake {
    pub(super) target: SshTarget,
    pub(super) key: Arc<PrivateKey>,
    pub(super) known_hosts: Arc<KnownHosts>,
    pub(super) deadline: Deadline,
    pub(super) stage: Arc<Mutex<SshStage>>,
    pub(super) messages: SharedMessages,
}

pub(super) struct RunningCommand {
    /// Dropping it closes the connection.
    pub(super) handle: Handle<Handler>,
    pub(super) output: ChannelReadHalf,
    pub(super) input: ChannelWriteHalf<Msg>,
}

impl Handshake {
    pub(super) async fn run(&self) -> Result<RunningCommand, SshError> {
        let stream = self.connect().await?;
        self.set_stage(SshStage::Handshake);
        let mut handle = self.negotiate(stream).await?;
        self.set_stage(SshStage::Authenticate);
        self.authenticate(&mut handle).await?;
        self.set_stage(SshStage::Command);
        let running = self.start_command(handle).await?;
        self.set_stage(SshStage::Transfer);
        Ok(running)
    }

    fn set_stage(&self, stage: SshStage) {
        *self.stage.lock() = stage;
    }

    /// Tries the addresses in turn, each with a share of the time.
    async fn connect(&self) -> Result<TcpStream, SshError> {
        let SshTarget { host, port, .. } = &self.target;
        let found = lookup_host((host.as_str(), *port)).await;
        let found = found.map_err(|error| self.unreachable(&error))?;
        let addresses: Vec<_> = found
            .filter(|address| !is_link_local(address.ip()))
            .collect();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for (index, address) in addresses.iter().enumerate() {
            match self.attempt(*address, addresses.len() - index).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(self.unreachable(&last))
    }

    async fn attempt(&self, address: SocketAddr, left: usize) -> io::Result<TcpStream> {
        let connecting = TcpStream::connect(address);
        let share = u32::try_from(left).unwrap_or(u32::MAX);
        let time = self.deadline.remaining().unwrap_or_default();
        // The last address gets all of it.
        let time = if left == 1 {
            time
        } else {
            (time / share).max(SHORTEST_ATTEMPT)
        };
        let stream = tokio::time::timeout(time, connecting).await;
        let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn negotiate(&self, stream: TcpStream) -> Result<Handle<Handler>, SshError> {
        let handler = Handler {
            target: self.target.clone(),
            known_hosts: Arc::clone(&self.known_hosts),
            messages: self.messages.clone(),
        };
        let config = Arc::new(self.config());
        let connected = client::connect_stream(config, stream, handler).await;
        connected.map_err(|error| self.map_error(error))
    }

    fn config(&self) -> client::Config {
        let mut config = client::Config {
            window_size: WINDOW,
            channel_buffer_size: WAITING_PACKETS,
            ..client::Config::default()
        };
        let SshTarget { host, port, .. } = &self.target;
        let known = self.known_hosts.algorithms(host, *port);
        config.preferred.key = Cow::Owned(preferred_algorithms(&known));
        config
    }

    async fn authenticate(&self, handle: &mut Handle<Handler>) -> Result<(), SshError> {
        let mut partial_success_seen = false;
        for hash in self.rsa_hashes(handle).await? {
            match self.offer_key(handle, hash).await? {
                AuthResult::Success => return Ok(()),
                AuthResult::Failure {
                    partial_success, ..
                } => partial_success_seen |= partial_success,
            }
            if handle.is_closed() {
                break;
            }
        }
        let key = HostKey::from_blob(self.key.public_key_bytes());
        let key = key.ok_or_else(|| self.protocol("failed to encode the private key"))?;
        Err(SshError::AuthenticationFailed(Box::new(
            AuthenticationFailure {
                address: self.target.address(),
                user: self.target.user.clone(),
                key,
                partial_success: partial_success_seen,
                message: self.messages.text(),
            },
        )))
    }

    async fn offer_key(
        &self,
        handle: &mut Handle<Handler>,
        hash: Option<HashAlg>,
    ) -> Result<AuthResult, SshError> {
        let user = &self.target.user;
        if let Some(mut signer) = RsaSigner::new(&self.key) {
            let public = self.key.public_key().clone();
            let tried = handle
                .authenticate_publickey_with(user, public, hash, &mut signer)
                .await;
            return tried.map_err(|error| match error {
                SignError::Gone => self.closed(),
                SignError::Unsigned => self.protocol("failed to sign with the private key"),
            });
        }
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&self.key), hash);
        let tried = handle.authenticate_publickey(user, key).await;
        tried.map_err(|error| self.map_error(error.into()))
    }

    /// The hashes for RSA signatures. SHA-1 is never among them.
    async fn rsa_hashes(&self, handle: &Handle<Handler>) -> Result<Vec<Option<HashAlg>>, SshError> {
        if !matches!(self.key.algorithm(), Algorithm::Rsa { .. }) {
            return Ok(vec![None]);
        }
        let best = handle.best_supported_rsa_hash().await;
        let best = best.map_err(|error| self.map_error(error.into()))?;
        allowed_rsa_hashes(best).ok_or_else(|| SshError::OnlySha1 {
            address: self.target.address(),
        })
    }

    async fn start_command(&self, handle: Handle<Handler>) -> Result<RunningCommand, SshError> {
        let channel = handle.channel_open_session().await;
        let channel = channel.map_err(|error| self.map_error(error.into()))?;
        // Servers that reject the variable answer with protocol version 0.
        let asked = channel.set_env(false, "GIT_PROTOCOL", "version=2").await;
        asked.map_err(|error| self.map_error(error.into()))?;
        let asked = channel.exec(true, self.target.command.as_str()).await;
        asked.map_err(|error| self.map_error(error.into()))?;
        let (mut output, input) = channel.split();
        loop {
            match output.wait().await {
                Some(ChannelMsg::Success) => {
                    return Ok(RunningCommand {
                        handle,
                        output,
                        input,
                    });
                }
                Some(ChannelMsg::Failure) => return Err(self.command_refused()),
                Some(ChannelMsg::ExtendedData { data, .. }) => self.messages.add(&data),
                Some(ChannelMsg::Close) | None => return Err(self.closed()),
                Some(_) => {}
            }
        }
    }

    fn unreachable(&self, error: &io::Error) -> SshError {
        SshError::Unreachable {
            address: self.target.address(),
            reason: error.to_string(),
        }
    }

    fn protocol(&self, reason: &str) -> SshError {
        SshError::Protocol {
            address: self.target.address(),
            reason: reason.to_owned(),
        }
    }

    fn command_refused(&self) -> SshError {
        SshError::CommandRefused {
            address: self.target.address(),
            program: self.target.program(),
            message: self.messages.text(),
        }
    }

    pub(super) fn closed(&self) -> SshError {
        SshError::Closed {
            address: self.target.address(),
            message: self.messages.text(),
        }
    }

    fn map_error(&self, error: ConnectionError) -> SshError {
        match error {
            ConnectionError::Ours(error) => error,
            ConnectionError::Library(
                Error::Disconnect | Error::HUP | Error::SendError | Error::RecvError | Error::IO(_),
            ) => self.closed(),
            ConnectionError::Library(error) => self.protocol(&error.to_string()),
        }
    }
}

/// Supported algorithms, with those of known keys first: any other key would be rejected.
fn preferred_algorithms(known: &[&str]) -> Vec<Algorithm> {
    let curve = |curve| Algorithm::Ecdsa { curve };
    let rsa = |hash| Algorithm::Rsa { hash: Some(hash) };
    let mut all = vec![
        ("ssh-ed25519", Algorithm::Ed25519),
        ("ecdsa-sha2-nistp256", curve(EcdsaCurve::NistP256)),
        ("ecdsa-sha2-nistp384", curve(EcdsaCurve::NistP384)),
        ("ecdsa-sha2-nistp521", curve(EcdsaCurve::NistP521)),
        ("ssh-rsa", rsa(HashAlg::Sha512)),
        ("ssh-rsa", rsa(HashAlg::Sha256)),
    ];
    all.sort_by_key(|(name, _)| !known.contains(name));
    all.into_iter().map(|(_, algorithm)| algorithm).collect()
}

/// `best` is the strongest hash that the server advertises, or `None` if it advertises none.
#[expect(clippy::option_option, reason = "it is how the library says it")]
fn allowed_rsa_hashes(best: Option<Option<HashAlg>>) -> Option<Vec<Option<HashAlg>>> {
    match best {
        Some(Some(hash)) => Some(vec![Some(hash)]),
        Some(None) => None,
        None => Some(vec![Some(HashAlg::Sha256), Some(HashAlg::Sha512)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_hashes_exclude_sha1() {
        assert_eq!(allowed_rsa_hashes(Some(None)), None);
        let sha512 = Some(HashAlg::Sha512);
        assert_eq!(allowed_rsa_hashes(Some(sha512)), Some(vec![sha512]));
        let unadvertised = allowed_rsa_hashes(None).unwrap();
        assert_eq!(unadvertised.len(), 2);
        assert!(unadvertised.iter().all(Option::is_some));
    }

    #[test]
    fn known_algorithms_are_preferred() {
        let names = |known: &[&str]| -> Vec<String> {
            let order = preferred_algorithms(known).into_iter();
            order.map(|algorithm| algorithm.to_string()).collect()
        };
        let usual = names(&[]);
        assert_eq!(usual.first().unwrap(), "ssh-ed25519");
        assert!(
            !usual.contains(&"ssh-rsa".to_owned()),
            "that would be SHA-1"
        );
        assert_eq!(names(&["ssh-rsa"])[..2], ["rsa-sha2-512", "rsa-sha2-256"]);
        let curves = names(&["ecdsa-sha2-nistp521", "ssh-dss"]);
        assert_eq!(curves.first().unwrap(), "ecdsa-sha2-nistp521");
        assert_eq!(curves.len(), usual.len());
    }
}
