//! An HTTP server for whoever can reach it: nobody holds a connection for long, and there are never too many.
//!
//! # Guarantees
//! A connection of HTTP/1.1 is for one request. Any ends when the head of the request is not there in time, and in any case when
//! the whole of it has taken too long: neither slow writers nor slow readers keep others out.

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

/// After a connection that could not be taken, such as for want of file descriptors.
const TAKE_AGAIN: Duration = Duration::from_millis(100);

/// How much is given to those who connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the head of a request may take.
    pub(crate) head: Duration,
    /// How long all of it may take, the answer included.
    pub(crate) request: Duration,
    /// How many connections there are at a time; others wait for their turn.
    pub(crate) connections: usize,
}

/// Serves by HTTP until it is dropped.
pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: Limits) {
    accept(listener, limits, |stream| {
        spoken(stream, Protocol::Http1, routes.clone(), limits)
    })
    .await;
}

/// Serves by HTTPS until it is dropped, with HTTP/2 where acceptor and caller agree on that.
pub(crate) async fn serve_tls(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    routes: Router,
    limits: Limits,
) {
    accept(listener, limits, |stream| {
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        async move {
            match timeout(limits.head, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let agreed = stream.get_ref().1.alpn_protocol();
                    let protocol = Protocol::agreed(agreed);
                    spoken(stream, protocol, routes, limits).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "Connection ended before TLS"),
                Err(_) => tracing::debug!("Connection was ended: no TLS in time"),
            }
        }
    })
    .await;
}

/// Takes connections, never too many at a time.
async fn accept<F>(listener: TcpListener, limits: Limits, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream);
                tokio::spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "Connection could not be taken");
                sleep(TAKE_AGAIN).await;
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

async fn spoken<S>(stream: S, protocol: Protocol, routes: Router, limits: Limits)
where
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
        Err(_) => tracing::debug!("Connection was ended: it took too long"),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    /// Longer than any test takes.
    const LONG: Duration = Duration::from_mins(10);

    async fn started(limits: Limits) -> TcpStream {
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

    /// All that comes until the server ends the connection, which it may do rudely.
    async fn all_of(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn a_request_is_answered_and_the_connection_ends() {
        let limits = Limits {
            head: LONG,
            request: LONG,
            connections: 1,
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
    async fn who_never_ends_a_request_is_cut_off_and_the_next_one_is_served() {
        let limits = Limits {
            head: SHORT,
            request: LONG,
            connections: 1,
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
    async fn who_sends_nothing_is_cut_off() {
        let limits = Limits {
            head: SHORT,
            request: LONG,
            connections: 1,
        };
        let mut silent = started(limits).await;
        assert_eq!(all_of(&mut silent).await, "");
    }

    #[tokio::test]
    async fn who_never_reads_an_answer_is_cut_off() {
        let limits = Limits {
            head: LONG,
            request: SHORT,
            connections: 1,
        };
        let mut reader = started(limits).await;
        let mut next = TcpStream::connect(reader.peer_addr().unwrap())
            .await
            .unwrap();
        reader
            .write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        // Its place is free again, though it has read nothing.
        next.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = all_of(&mut next).await;
        assert!(answer.ends_with("hello"), "{answer}");
    }
}
