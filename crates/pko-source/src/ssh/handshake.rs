//! From nothing to a running command: connection, keys, who we are, the command. Each step knows its name, for
//! whoever says what took too long.

use std::{
    borrow::Cow,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use russh::{
    ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Error,
    client::{self, AuthResult, Handle, Msg},
    keys::{
        Algorithm, EcdsaCurve, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyBase64 as _,
    },
};
use tokio::net::{TcpStream, lookup_host};

use super::{
    HostKey, KnownHosts, Refused, SshError, Stage, Target,
    handler::{Ended, Handler, Heard},
    rsa_signer::{RsaSigner, SignError},
};
use crate::Deadline;

/// How much the server may send before we have read it.
const WINDOW: u32 = 1024 * 1024;
/// How many packets may wait for the pipe.
const WAITING_PACKETS: usize = 16;
/// The shortest time that one of several addresses of a server gets.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(2);

/// What is wanted, from whom, and how far it got.
pub(super) struct Handshake {
    pub(super) target: Target,
    pub(super) key: Arc<PrivateKey>,
    pub(super) known_hosts: Arc<KnownHosts>,
    pub(super) deadline: Deadline,
    pub(super) stage: Arc<Mutex<Stage>>,
    pub(super) heard: Heard,
}

/// A command that runs.
pub(super) struct Running {
    /// The connection, which lives as long as this.
    pub(super) handle: Handle<Handler>,
    pub(super) output: ChannelReadHalf,
    pub(super) input: ChannelWriteHalf<Msg>,
}

impl Handshake {
    pub(super) async fn run(&self) -> Result<Running, SshError> {
        let stream = self.connect().await?;
        self.enter(Stage::Handshake);
        let mut handle = self.shake_hands(stream).await?;
        self.enter(Stage::Authenticate);
        self.authenticate(&mut handle).await?;
        self.enter(Stage::Command);
        let running = self.start(handle).await?;
        self.enter(Stage::Transfer);
        Ok(running)
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// One address after the other, each with its share of the time.
    async fn connect(&self) -> Result<TcpStream, SshError> {
        let Target { host, port, .. } = &self.target;
        let found = lookup_host((host.as_str(), *port)).await;
        let addresses: Vec<_> = found.map_err(|error| self.unreachable(&error))?.collect();
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
        // The last one has all of it, and the deadline itself ends that.
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

    async fn shake_hands(&self, stream: TcpStream) -> Result<Handle<Handler>, SshError> {
        let handler = Handler {
            target: self.target.clone(),
            known_hosts: Arc::clone(&self.known_hosts),
            heard: self.heard.clone(),
        };
        let config = Arc::new(self.config());
        let shaken = client::connect_stream(config, stream, handler).await;
        shaken.map_err(|ended| self.ended(ended))
    }

    fn config(&self) -> client::Config {
        let mut config = client::Config {
            window_size: WINDOW,
            channel_buffer_size: WAITING_PACKETS,
            ..client::Config::default()
        };
        let Target { host, port, .. } = &self.target;
        let known = self.known_hosts.algorithms(host, *port);
        config.preferred.key = Cow::Owned(preferred(&known));
        config
    }

    async fn authenticate(&self, handle: &mut Handle<Handler>) -> Result<(), SshError> {
        let mut wants_more = false;
        for hash in self.hashes(handle).await? {
            match self.show_key(handle, hash).await? {
                AuthResult::Success => return Ok(()),
                AuthResult::Failure {
                    partial_success, ..
                } => wants_more |= partial_success,
            }
            if handle.is_closed() {
                break;
            }
        }
        let key = HostKey::from_blob(self.key.public_key_bytes());
        let key = key.ok_or_else(|| self.protocol("our own key can't be written"))?;
        Err(SshError::Refused(Box::new(Refused {
            address: self.target.address(),
            user: self.target.user.clone(),
            key,
            wants_more,
            said: self.heard.text(),
        })))
    }

    async fn show_key(
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
                SignError::Unsigned => self.protocol("our key does not sign"),
            });
        }
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&self.key), hash);
        let tried = handle.authenticate_publickey(user, key).await;
        tried.map_err(|error| self.ended(error.into()))
    }

    /// How an RSA key may sign. SHA-1 is never among them: a server that takes nothing else is refused.
    async fn hashes(&self, handle: &Handle<Handler>) -> Result<Vec<Option<HashAlg>>, SshError> {
        if !matches!(self.key.algorithm(), Algorithm::Rsa { .. }) {
            return Ok(vec![None]);
        }
        let best = handle.best_supported_rsa_hash().await;
        let best = best.map_err(|error| self.ended(error.into()))?;
        safe_hashes(best).ok_or_else(|| SshError::OnlySha1 {
            address: self.target.address(),
        })
    }

    async fn start(&self, handle: Handle<Handler>) -> Result<Running, SshError> {
        let channel = handle.channel_open_session().await;
        let channel = channel.map_err(|error| self.ended(error.into()))?;
        // Many servers take no variables: then it is protocol version 0, and git knows what to do.
        let asked = channel.set_env(false, "GIT_PROTOCOL", "version=2").await;
        asked.map_err(|error| self.ended(error.into()))?;
        let asked = channel.exec(true, self.target.command.as_str()).await;
        asked.map_err(|error| self.ended(error.into()))?;
        let (mut output, input) = channel.split();
        loop {
            match output.wait().await {
                Some(ChannelMsg::Success) => {
                    return Ok(Running {
                        handle,
                        output,
                        input,
                    });
                }
                Some(ChannelMsg::Failure) => return Err(self.command_refused()),
                Some(ChannelMsg::ExtendedData { data, .. }) => self.heard.add(&data),
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
            said: self.heard.text(),
        }
    }

    pub(super) fn closed(&self) -> SshError {
        SshError::Closed {
            address: self.target.address(),
            said: self.heard.text(),
        }
    }

    fn ended(&self, ended: Ended) -> SshError {
        match ended {
            Ended::Ours(error) => error,
            Ended::Library(
                Error::Disconnect | Error::HUP | Error::SendError | Error::RecvError | Error::IO(_),
            ) => self.closed(),
            Ended::Library(error) => self.protocol(&error.to_string()),
        }
    }
}

/// The kinds of key that we understand, those by which the server is known first: another one would be refused.
fn preferred(known: &[&str]) -> Vec<Algorithm> {
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

/// What the server says that it takes at best, which is nothing if it does not say.
#[expect(clippy::option_option, reason = "it is how the library says it")]
fn safe_hashes(best: Option<Option<HashAlg>>) -> Option<Vec<Option<HashAlg>>> {
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
    fn an_rsa_key_never_signs_with_sha_1() {
        assert_eq!(safe_hashes(Some(None)), None);
        let sha512 = Some(HashAlg::Sha512);
        assert_eq!(safe_hashes(Some(sha512)), Some(vec![sha512]));
        let unsaid = safe_hashes(None).unwrap();
        assert_eq!(unsaid.len(), 2);
        assert!(unsaid.iter().all(Option::is_some));
    }

    #[test]
    fn a_key_that_is_known_is_asked_for_first() {
        let names = |known: &[&str]| -> Vec<String> {
            let order = preferred(known).into_iter();
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
