//! Client connections, and the handling of their requests.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{self, watch};
use tokio::time::sleep;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::list_replays::{ListReplays, ListRequest};
use super::request::ApiRequest;
use super::rules::{RequestAction, Rules};
use super::watches::{self, WatchEnd};
use super::{KillPoint, WriteFailure};

/// Between attempts to have the port back after an outage.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// Why a connection breaks instead of an answer.
pub(super) type ProxyIoError = Box<dyn std::error::Error + Send + Sync>;

/// See [`super::FaultProxy`].
pub(super) struct ProxyState {
    pub(super) port: u16,
    pub(super) server_port: u16,
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
    pub(super) rules: Mutex<Rules>,
    pub(super) lists: Mutex<ListReplays>,
    /// Ends the watches that are open.
    pub(super) ends: watch::Sender<WatchEnd>,
    /// How many kills are over: dead connections from before them end instead of staying silent.
    pub(super) resumed: watch::Sender<usize>,
    pub(super) outage: watch::Sender<bool>,
    pub(super) listens: (Mutex<bool>, Condvar),
}

impl ProxyState {
    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock()
    }

    pub(super) fn lists(&self) -> MutexGuard<'_, ListReplays> {
        self.lists.lock()
    }

    /// Serves for ever, but for outages.
    pub(super) async fn serve(self: Arc<Self>, listener: std::net::TcpListener) {
        let Ok(mut listener) = TcpListener::from_std(listener) else {
            // Only a runtime without I/O refuses
            return;
        };
        loop {
            self.note_listening(true);
            self.accept(listener).await;
            self.note_listening(false);
            wait_for_value(&self.outage, false).await;
            listener = self.listen_again().await;
        }
    }

    fn note_listening(&self, listens: bool) {
        let (state, changed) = &self.listens;
        *state.lock() = listens;
        changed.notify_all();
    }

    /// Until an outage; the listener ends with it, so that clients are refused.
    async fn accept(self: &Arc<Self>, listener: TcpListener) {
        loop {
            tokio::select! {
                biased;
                () = wait_for_value(&self.outage, true) => return,
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(Arc::clone(self).connection(stream));
                    }
                }
            }
        }
    }

    async fn listen_again(&self) -> TcpListener {
        loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await {
                Ok(listener) => return listener,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let connection = Connection {
            kills: self.rules().kills,
            server: sync::Mutex::default(),
            proxy: Arc::clone(&self),
        };
        // Events of watches are small, and wait for nothing
        let _ = stream.set_nodelay(true);
        let serving = async {
            let stream = self.acceptor.accept(stream).await?;
            let answer = service_fn(|request| connection.answer(request));
            let http = hyper::server::conn::http1::Builder::new();
            http.serve_connection(TokioIo::new(stream), answer).await?;
            Ok::<(), ProxyIoError>(())
        };
        tokio::select! {
            _ = serving => {}
            () = wait_for_value(&self.outage, true) => {}
        }
    }
}

/// One connection of a client, with one of its own to the API server.
struct Connection {
    /// The number of kills before it was opened.
    kills: usize,
    server: sync::Mutex<Option<SendRequest<Full<Bytes>>>>,
    proxy: Arc<ProxyState>,
}

impl Connection {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, ProxyIoError> {
        let request_info = ApiRequest::of(request.method(), request.uri());
        let action_taken = {
            let mut rules = self.proxy.rules();
            (self.kills >= rules.kills).then(|| rules.decide(&request_info))
        };
        let Some(action_taken) = action_taken else {
            return Err(self.silence().await);
        };
        match action_taken {
            RequestAction::Pass if request_info.is_list() => self.list(request_info, request).await,
            RequestAction::Pass if request_info.is_watch() => {
                let answer = self.forward(request).await?;
                Ok(watches::with_faults(
                    &self.proxy,
                    request_info.resource,
                    answer,
                ))
            }
            RequestAction::Pass => {
                let answer = self.forward(request).await?;
                Ok(answer.map(|body| body.map_err(io::Error::other).boxed()))
            }
            RequestAction::PendingKill(when, action) => {
                if when == KillPoint::After {
                    self.commit(request).await?;
                }
                action();
                Err(self.silence().await)
            }
            RequestAction::Fail(WriteFailure::TooManyRequests) => Ok(too_many_requests()),
            RequestAction::Fail(WriteFailure::ServerError) => Ok(server_error()),
            RequestAction::Fail(WriteFailure::TimeoutAfterCommit) => {
                self.commit(request).await?;
                Ok(timeout())
            }
            RequestAction::Fail(WriteFailure::CutAfterCommit) => {
                self.commit(request).await?;
                Err(io::Error::from(io::ErrorKind::ConnectionReset).into())
            }
        }
    }

    /// Replays a recorded list if that is due.
    async fn list(
        &self,
        request_info: ApiRequest,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyIoError> {
        let list = ListRequest::of(request.uri(), request.headers());
        let recorded = self.proxy.lists().observe(&request_info.resource, list);
        if let Some(recorded) = recorded {
            return Ok(json_answer(StatusCode::OK, recorded));
        }
        let answer = self.forward(request).await?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed()))
    }

    /// Stays silent until the kill is over; then the connection breaks.
    async fn silence(&self) -> ProxyIoError {
        let mut resumed = self.proxy.resumed.subscribe();
        let is_over = |kills: &usize| *kills > self.kills;
        // The sender lives as long as the proxy
        let _ = resumed.wait_for(is_over).await;
        io::Error::from(io::ErrorKind::ConnectionReset).into()
    }

    /// Has a request done to its end, and keeps the answer to itself.
    async fn commit(&self, request: Request<Incoming>) -> Result<(), ProxyIoError> {
        let answer = self.forward(request).await?;
        answer.into_body().collect().await?;
        Ok(())
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, ProxyIoError> {
        let (mut parts, body) = request.into_parts();
        // Compressed responses can't be split into events
        parts.headers.remove(header::ACCEPT_ENCODING);
        let body = Full::new(body.collect().await?.to_bytes());
        let mut server = self.server.lock().await;
        let mut sender = match reusable_connection(server.take()).await {
            Some(sender) => sender,
            None => self.proxy.connect().await?,
        };
        let answer = sender
            .send_request(Request::from_parts(parts, body))
            .await?;
        *server = Some(sender);
        Ok(answer)
    }
}

/// A connection to the API server that it has not ended in the meantime.
async fn reusable_connection(
    sender: Option<SendRequest<Full<Bytes>>>,
) -> Option<SendRequest<Full<Bytes>>> {
    let mut sender = sender?;
    sender.ready().await.ok()?;
    Some(sender)
}

impl ProxyState {
    /// Records the current response to each list requested so far.
    pub(super) async fn record_lists(&self) -> Result<(), ProxyIoError> {
        let requested = self.lists().requests();
        for list in requested {
            let mut server = self.connect().await?;
            let answer = server.send_request(list.request()?).await?;
            let content = answer.into_body().collect().await?.to_bytes();
            self.lists().record(list, content);
        }
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ProxyIoError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server_port));
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let stream = self.connector.connect(name, stream).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn wait_for_value(value: &watch::Sender<bool>, wanted: bool) {
    let mut value = value.subscribe();
    if value.wait_for(|value| *value == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn too_many_requests() -> Response<Body> {
    let message = "too many requests, please try again later";
    let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
    let second = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, second);
    answer
}

fn server_error() -> Response<Body> {
    let code = StatusCode::INTERNAL_SERVER_ERROR;
    status(
        code,
        "InternalError",
        "Internal error occurred: injected fault",
    )
}

/// The API server's response when its storage times out.
fn timeout() -> Response<Body> {
    let code = StatusCode::GATEWAY_TIMEOUT;
    let message = "Timeout: request did not complete within the allotted timeout";
    status(code, "Timeout", message)
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    json_answer(code, Bytes::from(body.to_string()))
}

fn json_answer(code: StatusCode, body: Bytes) -> Response<Body> {
    let body = Full::new(body);
    let mut answer = Response::new(body.map_err(|never: Infallible| match never {}).boxed());
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
