//! Callbacks of russh: verifies the server's key, collects messages, and rejects channels that the
//! server opens.

use std::sync::Arc;

use parking_lot::Mutex;
use russh::{
    Channel, Error,
    client::{self, ChannelOpenHandle, DisconnectReason, Msg, Session},
    keys::PublicKeyBase64 as _,
};

use super::{
    HostKey, HostKeyChanged, KnownHosts, SshError, SshTarget, UnknownHost,
    known_hosts::HostKeyVerdict, server_messages::ServerMessages,
};

pub(super) struct Handler {
    pub(super) target: SshTarget,
    pub(super) known_hosts: Arc<KnownHosts>,
    pub(super) messages: SharedMessages,
}

/// Messages of the server, shared with the code that reports errors.
#[derive(Clone, Default)]
pub(super) struct SharedMessages(Arc<Mutex<ServerMessages>>);

#[derive(Debug)]
pub(super) enum ConnectionError {
    Ours(SshError),
    Library(Error),
}

impl SharedMessages {
    pub(super) fn add(&self, text: &[u8]) {
        self.0.lock().add(text);
    }

    pub(super) fn text(&self) -> String {
        self.0.lock().text()
    }
}

impl From<Error> for ConnectionError {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl Handler {
    fn verify_host_key(&self, key: HostKey) -> Result<(), SshError> {
        let SshTarget { host, port, .. } = &self.target;
        let address = self.target.address();
        match self.known_hosts.verify(host, *port, &key) {
            HostKeyVerdict::Trusted => Ok(()),
            HostKeyVerdict::Revoked(location) => Err(SshError::HostKeyRevoked {
                address,
                key: Box::new(key),
                location,
            }),
            HostKeyVerdict::Unknown => Err(SshError::UnknownHost(Box::new(UnknownHost {
                address,
                line: key.known_hosts_line(host, *port),
                key,
                skipped: self.known_hosts.warnings().to_vec(),
            }))),
            HostKeyVerdict::Changed(known) => {
                Err(SshError::HostKeyChanged(Box::new(HostKeyChanged {
                    address,
                    line: key.known_hosts_line(host, *port),
                    key,
                    known,
                })))
            }
        }
    }

    fn protocol_error(&self, reason: &str) -> SshError {
        SshError::Protocol {
            address: self.target.address(),
            reason: reason.to_owned(),
        }
    }
}

type HandlerResult = Result<(), ConnectionError>;

impl client::Handler for Handler {
    type Error = ConnectionError;

    async fn check_server_key(
        &mut self,
        shown: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, ConnectionError> {
        let russh::keys::PublicKeyOrCertificate::PublicKey { key, .. } = shown else {
            let error = self.protocol_error("the server presents a certificate instead of a key");
            return Err(ConnectionError::Ours(error));
        };
        let Some(key) = HostKey::from_blob(key.public_key_bytes()) else {
            let error = self.protocol_error("the server's key is invalid");
            return Err(ConnectionError::Ours(error));
        };
        self.verify_host_key(key).map_err(ConnectionError::Ours)?;
        Ok(true)
    }

    async fn auth_banner(&mut self, banner: &str, _: &mut Session) -> HandlerResult {
        self.messages.add(banner.as_bytes());
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<ConnectionError>) -> HandlerResult {
        match reason {
            DisconnectReason::ReceivedDisconnect(information) => {
                self.messages.add(b" ");
                self.messages.add(information.message.as_bytes());
                Ok(())
            }
            DisconnectReason::Error(error) => Err(error),
        }
    }

    // Dropping the handle rejects the channel.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
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
    ) -> HandlerResult {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> HandlerResult {
        Ok(())
    }
}
