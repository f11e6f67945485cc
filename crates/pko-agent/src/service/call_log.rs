//! Logs each gRPC call when it has finished, with its code.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Instant,
};

use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use jiff::Timestamp;
use tonic::{Code, body::Body, codegen::Bytes, transport::server::TcpConnectInfo};
use tower::{Layer, Service};

const STATUS: &str = "grpc-status";

/// The caller's identity, which the auth layer sets. It is an extension of the request.
#[derive(Debug, Default)]
pub(crate) struct Caller(OnceLock<Identity>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The authorizer's mode.
    pub(crate) mode: &'static str,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The reason if the call was rejected.
    pub(crate) rejection: Option<String>,
}

impl Caller {
    pub(crate) fn set_identity(&self, identity: Identity) {
        // One layer sets it, once a call.
        let _ = self.0.set(identity);
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLog;

impl<S> Layer<S> for CallLog {
    type Service = CallLogService<S>;

    fn layer(&self, inner: S) -> CallLogService<S> {
        CallLogService { inner }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CallLogService<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for CallLogService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut call = CallRecord::new(&request);
        request.extensions_mut().insert(Arc::clone(&call.caller));
        let response = self.inner.call(request);
        Box::pin(async move {
            let (head, body) = response.await?.into_parts();
            // A response without a body has its code here.
            call.read_code(&head.headers);
            Ok(Response::from_parts(
                head,
                Body::new(LoggedBody { body, call }),
            ))
        })
    }
}

/// A call in progress. Dropping it logs the call.
struct CallRecord {
    path: String,
    peer: String,
    caller: Arc<Caller>,
    start: (Timestamp, Instant),
    code: Option<Code>,
}

impl CallRecord {
    fn new(request: &Request<Body>) -> Self {
        let peer = request.extensions().get::<TcpConnectInfo>();
        let peer = peer.and_then(TcpConnectInfo::remote_addr);
        Self {
            path: request.uri().path().to_owned(),
            peer: peer.map_or_else(|| "@".to_owned(), |address| address.to_string()),
            caller: Arc::default(),
            start: (Timestamp::now(), Instant::now()),
            code: None,
        }
    }

    fn read_code(&mut self, headers: &HeaderMap) {
        if let Some(code) = headers.get(STATUS) {
            self.code = Some(Code::from_bytes(code.as_bytes()));
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        // Without a code, the caller disconnected first.
        let code = self.code.unwrap_or(Code::Cancelled);
        let (service, method) = split(&self.path);
        let none = Identity::default();
        let caller = self.caller.0.get().unwrap_or(&none);
        let (started, start) = self.start;
        let elapsed = start.elapsed().as_secs_f64() * 1000.0;
        let (kind, code_name) = (kind(method), name(code));
        // tracing needs a constant level at each call site.
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: "grpc",
                    {
                        grpc.start_time = %started,
                        grpc.service = service,
                        grpc.method = method,
                        peer.address = %self.peer,
                        auth.mode = caller.mode,
                        user.id = %caller.id,
                        user.name = %caller.name,
                        grpc.code = %code_name,
                        grpc.time_ms = elapsed,
                        refusal = caller.rejection.as_deref(),
                    },
                    "finished {kind} call with code {code_name}"
                )
            };
        }
        match level(service, code) {
            Level::Debug => log!(debug),
            Level::Info => log!(info),
            Level::Warn => log!(warn),
            Level::Error => log!(error),
        }
    }
}

fn split(path: &str) -> (&str, &str) {
    path.trim_start_matches('/')
        .split_once('/')
        .unwrap_or((path, ""))
}

fn kind(method: &str) -> &'static str {
    match method {
        "Preview" | "Refresh" | "Up" | "Destroy" | "WatchRun" | "Watch" => "streaming",
        _ => "unary",
    }
}

/// Upstream's spelling.
fn name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

fn level(service: &str, code: Code) -> Level {
    match code {
        // Probes come every few seconds.
        Code::Ok if service == "grpc.health.v1.Health" => Level::Debug,
        Code::Ok
        | Code::Cancelled
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::Unauthenticated => Level::Info,
        Code::DeadlineExceeded
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable => Level::Warn,
        Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => Level::Error,
    }
}

/// An answer that is read; it ends with the code.
struct LoggedBody {
    body: Body,
    call: CallRecord,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.call.read_code(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_path_splits_into_service_and_method() {
        assert_eq!(
            split("/agent.AutomationService/Up"),
            ("agent.AutomationService", "Up")
        );
        assert_eq!(split("nonsense"), ("nonsense", ""));
        assert_eq!((kind("Up"), kind("Info")), ("streaming", "unary"));
    }

    #[test]
    fn call_log_levels_are_upstreams() {
        let table = [
            (Code::Ok, Level::Info, "OK"),
            (Code::Cancelled, Level::Info, "Canceled"),
            (Code::Unauthenticated, Level::Info, "Unauthenticated"),
            (Code::PermissionDenied, Level::Warn, "PermissionDenied"),
            (Code::FailedPrecondition, Level::Warn, "FailedPrecondition"),
            (Code::Unknown, Level::Error, "Unknown"),
        ];
        for (code, expected, text) in table {
            assert_eq!(level("agent.AutomationService", code), expected);
            assert_eq!(name(code), text);
        }
        assert_eq!(level("grpc.health.v1.Health", Code::Ok), Level::Debug);
    }
}
