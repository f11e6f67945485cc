//! An HTTP server with limits, for clients that are not trusted.
//!
//! # Guarantees
//! A connection of HTTP/1.1 has one request. A connection ends if the head of the request takes too
//! long, or the whole of it: neither slow writers nor slow readers block others. One client address
//! can't take all connections.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::addresses::{AddressLimits, ClientAddresses};

/// For example without free file descriptors.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// For the head of a request, and the TLS handshake.
    pub(crate) head: Duration,
    /// For the whole request, including the response.
    pub(crate) request: Duration,
    /// Concurrent connections; others wait.
    pub(crate) connections: usize,
    /// For each client address.
    pub(crate) address: AddressLimits,
}

pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: ConnectionLimits) {
    accept(listener, limits, |stream| {
        serve_connection(stream, Protocol::Http1, routes.clone(), limits)
    })
    .await;
}

/// Serves HTTP/2 if the acceptor and the client agree on it.
pub(crate) async fn serve_tls(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    routes: Router,
    limits: ConnectionLimits,
) {
    accept(listener, limits, |stream| {
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        async move {
            match timeout(limits.head, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let agreed = stream.get_ref().1.alpn_protocol();
                    let protocol = Protocol::agreed(agreed);
                    serve_connection(stream, protocol, routes, limits).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "Connection ended before TLS"),
                Err(_) => tracing::debug!("Connection closed: TLS handshake took too long"),
            }
        }
    })
    .await;
}

async fn accept<F>(listener: TcpListener, limits: ConnectionLimits, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    let addresses = ClientAddresses::new(limits.address);
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, client)) => {
                let Some(connection) = addresses.open(client.ip()) else {
                    tracing::debug!(%client, "Connection closed: the client has too many");
                    continue;
                };
                let served = serve(stream);
                tokio::spawn(async move {
                    // A connection of the same address ends in time, so a place becomes free.
                    if let Some(turn) = connection.turn().await {
                        served.await;
                        drop(place);
                        turn.end().await;
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "Failed to accept a connection");
                sleep(ACCEPT_RETRY_AFTER).await;
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn agreed(name: Option<&[u8]>) -> Self {
        if name == Some(b"h2") {
            Self::Http2
        } else {
            Self::Http1
        }
    }
}

async fn serve_connection<S>(
    stream: S,
    protocol: Protocol,
    routes: Router,
    limits: ConnectionLimits,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, routes) = (TokioIo::new(stream), TowerToHyperService::new(routes));
    let connection = async {
        match protocol {
            Protocol::Http1 => {
                let mut server = http1::Builder::new();
                server
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits.head)
                    .keep_alive(false);
                server.serve_connection(stream, routes).await
            }
            Protocol::Http2 => {
                let server = http2::Builder::new(TokioExecutor::new());
                server.serve_connection(stream, routes).await
            }
        }
    };
    match timeout(limits.request, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "Connection ended early"),
        Err(_) => tracing::debug!("Connection closed: request took too long"),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const ONE: AddressLimits = AddressLimits {
        open: 8,
        active: 1,
        pause: Duration::ZERO,
    };
    const SHORT: Duration = Duration::from_millis(50);
    /// Longer than any test takes.
    const LONG: Duration = Duration::from_mins(10);

    async fn started(limits: ConnectionLimits) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = || async {
            let pieces =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![0_u8; 65_536]));
            Body::from_stream(pieces)
        };
        let routes = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/endless", get(endless));
        tokio::spawn(serve(listener, routes, limits));
        TcpStream::connect(address).await.unwrap()
    }

    /// Everything up to the end of the connection, which the server may reset.
    async fn all_of(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn bounded_server_closes_after_one_request() {
        let limits = ConnectionLimits {
            head: LONG,
            request: LONG,
            connections: 1,
            address: ONE,
        };
        let mut stream = started(limits).await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = all_of(&mut stream).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn bounded_server_cuts_off_endless_requests() {
        let limits = ConnectionLimits {
            head: SHORT,
            request: LONG,
            connections: 1,
            address: ONE,
        };
        let mut slow = started(limits).await;
        let mut next = TcpStream::connect(slow.peer_addr().unwrap()).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
            .await
            .unwrap();
        assert_eq!(all_of(&mut slow).await, "");
        next.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = all_of(&mut next).await;
        assert!(answer.ends_with("hello"), "{answer}");
    }

    #[tokio::test]
    async fn bounded_server_cuts_off_silent_clients() {
        let limits = ConnectionLimits {
            head: SHORT,
            request: LONG,
            connections: 1,
            address: ONE,
        };
        let mut silent = started(limits).await;
        assert_eq!(all_of(&mut silent).await, "");
    }

    #[tokio::test]
    async fn bounded_server_cuts_off_clients_that_do_not_read() {
        let limits = ConnectionLimits {
            head: LONG,
            request: SHORT,
            connections: 1,
            address: ONE,
        };
        let mut reader = started(limits).await;
        let mut next = TcpStream::connect(reader.peer_addr().unwrap())
            .await
            .unwrap();
        reader
            .write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        // Its slot is free although the client has read nothing.
        next.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = all_of(&mut next).await;
        assert!(answer.ends_with("hello"), "{answer}");
    }

    /// Connects from an address of this machine.
    async fn connect(from: &str, server: std::net::SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(server).await.unwrap()
    }

    #[tokio::test]
    async fn bounded_server_has_places_for_other_addresses() {
        let limits = ConnectionLimits {
            head: LONG,
            request: LONG,
            connections: 16,
            address: ONE,
        };
        let first = started(limits).await;
        let server = first.peer_addr().unwrap();
        let mut silent = vec![first];
        for _ in 0..20 {
            silent.push(connect("127.0.0.1", server).await);
        }
        // Those beyond the limit are closed, and the other address is served.
        let mut last = silent.pop().unwrap();
        assert_eq!(all_of(&mut last).await, "");
        let mut other = connect("127.0.0.2", server).await;
        other
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = all_of(&mut other).await;
        assert!(answer.ends_with("hello"), "{answer}");
    }
}
