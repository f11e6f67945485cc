//! The cluster's name server: it answers at once, and to whatever is no name of the cluster that there is none.
//!
//! It runs as a process of its own (`cluster-part dns`), because it outlives whoever starts the cluster.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::runtime::reflector::{Lookup, Store, store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

mod message;
mod names;

use message::Question;
use names::Names;

/// The longest datagram that there is.
const LARGEST: usize = 65_535;
/// How long a TCP connection may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it knows, kept up to date by watches.
struct Known {
    services: Store<Service>,
    slices: Store<EndpointSlice>,
}

/// Serves names on an address, over UDP and TCP, for as long as the process lives.
pub async fn serve(kubeconfig: &Path, address: SocketAddr) -> Result<(), DnsError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let known = Arc::new(Known {
        services: follow(Api::all(client.clone())),
        slices: follow(Api::all(client)),
    });
    let datagrams = UdpSocket::bind(address).await?;
    let connections = TcpListener::bind(address).await?;
    tokio::try_join!(
        serve_datagrams(&datagrams, &known),
        serve_connections(&connections, &known)
    )?;
    Ok(())
}

/// A copy of all objects of a kind, which a task keeps up to date.
fn follow<K>(api: Api<K>) -> Store<K>
where
    K: Lookup<DynamicType = ()> + kube::Resource<DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (reader, writer) = store();
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    tokio::spawn(events.for_each(|_| ready(())));
    reader
}

impl Known {
    fn names(&self) -> Names {
        Names {
            services: self.services.state(),
            slices: self.slices.state(),
        }
    }
}

async fn serve_datagrams(socket: &UdpSocket, known: &Known) -> io::Result<()> {
    let mut buffer = vec![0; LARGEST];
    loop {
        // Some errors are about an answer that went nowhere, and none is a reason to end
        let Ok((length, sender)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let message = buffer.get(..length).unwrap_or_default();
        if let Some(question) = Question::read(message) {
            let answer = known.names().answer(&question.name, question.kind);
            let _ = socket.send_to(&question.datagram(&answer), sender).await;
        }
    }
}

async fn serve_connections(listener: &TcpListener, known: &Arc<Known>) -> io::Result<()> {
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let known = Arc::clone(known);
        tokio::spawn(async move {
            let _ = serve_connection(connection, &known).await;
        });
    }
}

/// Over TCP each message has its length before it.
async fn serve_connection(mut connection: TcpStream, known: &Known) -> io::Result<()> {
    loop {
        let length = timeout(PATIENCE, connection.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        timeout(PATIENCE, connection.read_exact(&mut message)).await??;
        let Some(question) = Question::read(&message) else {
            return Ok(());
        };
        let answer = known.names().answer(&question.name, question.kind);
        let answer = question.message(&answer);
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        connection.write_u16(length).await?;
        connection.write_all(&answer).await?;
    }
}

/// Why no names are served.
#[derive(thiserror::Error)]
pub enum DnsError {
    /// The kubeconfig can't be read.
    #[error("failed to read the name server's kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    /// The client refuses its configuration.
    #[error("failed to make the name server's client")]
    Client(#[from] kube::Error),
    /// The address can't be had.
    #[error("failed to listen for questions about names")]
    Listen(#[from] io::Error),
}

crate::error_text::debug_is_text!(DnsError);
