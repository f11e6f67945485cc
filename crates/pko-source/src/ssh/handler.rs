//! What the server may do while we are connected: show its key, say something, and nothing else. It can't open
//! channels to us.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use russh::{
    Channel, Error,
    client::{self, ChannelOpenHandle, DisconnectReason, Msg, Session},
    keys::PublicKeyBase64 as _,
};

use super::{
    ChangedHost, HostKey, KnownHosts, SshError, Target, UnknownHost, known_hosts::Verdict,
    said::Said,
};

pub(super) struct Handler {
    pub(super) target: Target,
    pub(super) known_hosts: Arc<KnownHosts>,
    pub(super) heard: Heard,
}

/// What the server said, for whoever reports an error.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Said>>);

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// For a reason of ours
    Ours(SshError),
    /// For a reason of the library's
    Library(Error),
}

impl Heard {
    pub(super) fn add(&self, text: &[u8]) {
        self.lock().add(text);
    }

    pub(super) fn text(&self) -> String {
        self.lock().text()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl Handler {
    /// Whether the server is who it says it is.
    fn judge(&self, key: HostKey) -> Result<(), SshError> {
        let Target { host, port, .. } = &self.target;
        let address = self.target.address();
        match self.known_hosts.judge(host, *port, &key) {
            Verdict::Known => Ok(()),
            Verdict::Revoked(place) => Err(SshError::RevokedHost {
                address,
                key: Box::new(key),
                place,
            }),
            Verdict::Unknown => Err(SshError::UnknownHost(Box::new(UnknownHost {
                address,
                line: key.known_hosts_line(host, *port),
                key,
                skipped: self.known_hosts.warnings().to_vec(),
            }))),
            Verdict::Changed(known) => Err(SshError::ChangedHost(Box::new(ChangedHost {
                address,
                line: key.known_hosts_line(host, *port),
                key,
                known,
            }))),
        }
    }

    fn not_understood(&self, reason: &str) -> SshError {
        SshError::Protocol {
            address: self.target.address(),
            reason: reason.to_owned(),
        }
    }
}

type Outcome = Result<(), Ended>;

impl client::Handler for Handler {
    type Error = Ended;

    async fn check_server_key(
        &mut self,
        shown: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, Ended> {
        let russh::keys::PublicKeyOrCertificate::PublicKey { key, .. } = shown else {
            let error = self.not_understood("the server shows a certificate, not a key");
            return Err(Ended::Ours(error));
        };
        let Some(key) = HostKey::from_blob(key.public_key_bytes()) else {
            let error = self.not_understood("the server's key can't be read");
            return Err(Ended::Ours(error));
        };
        self.judge(key).map_err(Ended::Ours)?;
        Ok(true)
    }

    async fn auth_banner(&mut self, banner: &str, _: &mut Session) -> Outcome {
        self.heard.add(banner.as_bytes());
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Ended>) -> Outcome {
        match reason {
            DisconnectReason::ReceivedDisconnect(information) => {
                self.heard.add(b" ");
                self.heard.add(information.message.as_bytes());
                Ok(())
            }
            DisconnectReason::Error(error) => Err(error),
        }
    }

    // Whoever drops the handle says no.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Outcome {
        Ok(())
    }
}
