//! The client of the API server, with a timeout, a limit of concurrent requests, and metrics.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use axum::{
    body::{Body as Answer, Bytes, HttpBody, to_bytes},
    http::{Request, Response, Uri},
};
use futures::future::BoxFuture;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service};

use crate::{args::Arguments, metrics::Metrics};

/// Where the API server is, and how to log in.
pub(crate) async fn config(arguments: &Arguments) -> anyhow::Result<Config> {
    match &arguments.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {}", path.display()))?;
            Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
        }
        None => Config::infer()
            .await
            .context("no cluster is configured: set --kubeconfig or KUBECONFIG"),
    }
}

/// A client with connections of its own, on the current runtime.
pub(crate) fn client(
    config: Config,
    arguments: &Arguments,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Client> {
    let counted = RequestMetrics {
        metrics: metrics.clone(),
        host: config
            .cluster_url
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default()
            .into(),
    };
    let builder = ClientBuilder::try_from(config)?.with_layer(&counted);
    let bounded = ConcurrencyLimit(Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)));
    Ok(match arguments.request_timeout() {
        Some(timeout) => {
            let timed = builder.with_layer(&RequestTimeout(timeout));
            timed.with_layer(&bounded).build()
        }
        None => builder.with_layer(&bounded).build(),
    })
}

/// Each concurrent request has a connection, which is kept for the next one: without a limit, two
/// hundred Stacks that start at once leave two hundred connections of some 50 KiB behind.
const MAX_CONCURRENT_REQUESTS: usize = 64;

#[derive(Clone)]
struct ConcurrencyLimit(Arc<Semaphore>);

impl<S> Layer<S> for ConcurrencyLimit {
    type Service = ConcurrencyLimitService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ConcurrencyLimitService {
            inner,
            permits: self.0.clone(),
        }
    }
}

#[derive(Clone)]
struct ConcurrencyLimitService<S> {
    inner: S,
    permits: Arc<Semaphore>,
}

impl<S, B> Service<Request<Body>> for ConcurrencyLimitService<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_free = is_stream(request.uri());
        // Nothing is sent before the response is awaited.
        let answer = self.inner.call(request);
        let permits = self.permits.clone();
        Box::pin(async move {
            let _permit = if is_free {
                None
            } else {
                permits.acquire_owned().await.ok()
            };
            answer.await.map_err(Into::into)
        })
    }
}

/// Counts requests by status code.
#[derive(Clone)]
struct RequestMetrics {
    metrics: Arc<Metrics>,
    host: Arc<str>,
}

impl<S> Layer<S> for RequestMetrics {
    type Service = RequestMetricsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestMetricsService {
            inner,
            counted: self.clone(),
        }
    }
}

#[derive(Clone)]
struct RequestMetricsService<S> {
    inner: S,
    counted: RequestMetrics,
}

impl<S, B> Service<Request<Body>> for RequestMetricsService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        let RequestMetrics { metrics, host } = self.counted.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.api_request(&host, method.as_str(), code);
            answer
        })
    }
}

/// Limits the time of a whole response. Watches have no limit: with one on the connection, they
/// would be reopened again and again.
#[derive(Clone, Copy)]
struct RequestTimeout(Duration);

impl<S> Layer<S> for RequestTimeout {
    type Service = RequestTimeoutService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestTimeoutService {
            inner,
            timeout: self.0,
        }
    }
}

#[derive(Clone)]
struct RequestTimeoutService<S> {
    inner: S,
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("the API server did not respond within {0:?} (--kube-api-timeout)")]
struct TimeoutError(Duration);

impl<S, B> Service<Request<Body>> for RequestTimeoutService<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (timeout, is_streaming) = (self.timeout, is_stream(request.uri()));
        let answer = self.inner.call(request);
        let answer = async { Ok(answer.await.map_err(Into::into)?.map(Answer::new)) };
        if is_streaming {
            return Box::pin(answer);
        }
        Box::pin(async move {
            let whole = async {
                let (head, body) = answer.await?.into_parts();
                let bytes = to_bytes(body, usize::MAX).await?;
                Ok(Response::from_parts(head, Answer::from(bytes)))
            };
            tokio::time::timeout(timeout, whole)
                .await
                .unwrap_or_else(|_| Err(TimeoutError(timeout).into()))
        })
    }
}

/// Whether the response is a stream: a watch, or a log that is followed.
fn is_stream(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|part| matches!(part, "watch=true" | "follow=true"))
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    async fn ask(
        path: &str,
        answer: impl Future<Output = Response<Answer>> + Send + 'static,
    ) -> Result<Response<Answer>, BoxError> {
        let mut answer = Some(answer);
        let server = service_fn(move |_: Request<Body>| {
            let answer = answer.take().unwrap();
            async { Ok::<_, BoxError>(answer.await) }
        });
        let request = Request::get(path).body(Body::empty()).unwrap();
        RequestTimeout(SHORT).layer(server).oneshot(request).await
    }

    #[tokio::test]
    async fn api_requests_are_limited_except_watches() {
        let permits = Arc::new(Semaphore::new(1));
        let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
        let server = service_fn(move |request: Request<Body>| {
            let begun = begun.clone();
            async move {
                let path = request.uri().path().to_owned();
                let (end, ended) = tokio::sync::oneshot::channel::<()>();
                begun.send((path, end)).unwrap();
                let _ = ended.await;
                Ok::<_, BoxError>(Response::new(Answer::empty()))
            }
        });
        let server = ConcurrencyLimit(permits.clone()).layer(server);
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            tokio::spawn(server.clone().oneshot(request))
        };
        ask("/api/v1/first");
        let (path, first) = beginnings.recv().await.unwrap();
        assert_eq!(path, "/api/v1/first");
        ask("/api/v1/second");
        ask("/api/v1/pods?watch=true");
        let (path, _watch) = beginnings.recv().await.unwrap();
        assert_eq!(path, "/api/v1/pods");
        assert!(beginnings.try_recv().is_err(), "the second one waits");
        first.send(()).unwrap();
        let (path, _second) = beginnings.recv().await.unwrap();
        assert_eq!(path, "/api/v1/second");
    }

    #[tokio::test]
    async fn api_requests_are_counted_by_status_code() {
        let metrics = Arc::new(Metrics::new().unwrap());
        let counted = RequestMetrics {
            metrics: metrics.clone(),
            host: "10.0.0.1:443".into(),
        };
        for code in [Some(200), Some(200), Some(404), None] {
            let server = service_fn(move |_: Request<Body>| async move {
                let code = code.ok_or_else(|| BoxError::from("cut off"))?;
                let answer = Response::builder().status(code).body(Answer::empty());
                Ok::<_, BoxError>(answer?)
            });
            let request = Request::get("/api/v1/pods").body(Body::empty()).unwrap();
            let answer = counted.layer(server).oneshot(request).await;
            assert_eq!(answer.is_ok(), code.is_some(), "it is passed on");
        }
        let text = metrics.text().unwrap();
        for line in [
            r#"rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="404",host="10.0.0.1:443",method="GET"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="GET"} 1"#,
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
    }

    #[tokio::test]
    async fn api_response_in_time_is_complete() {
        let answer = async { Response::new(Answer::from("here")) };
        let answer = ask("/api/v1/pods", answer).await.unwrap();
        let bytes = to_bytes(answer.into_body(), 9).await.unwrap();
        assert_eq!(bytes.as_ref(), b"here");
    }

    #[tokio::test]
    async fn api_request_without_response_times_out() {
        for path in ["/api/v1/pods", "/api/v1/pods?x=watch=true"] {
            let error = ask(path, std::future::pending()).await.unwrap_err();
            assert!(error.to_string().contains("--kube-api-timeout"), "{error}");
        }
    }

    #[tokio::test]
    async fn api_response_body_without_end_times_out() {
        let endless = || futures::stream::pending::<Result<Bytes, BoxError>>();
        let answer = async move { Response::new(Answer::from_stream(endless())) };
        let answer = ask("/api/v1/pods", answer).await;
        assert!(answer.unwrap_err().is::<TimeoutError>());
    }

    #[tokio::test]
    async fn api_watch_has_no_timeout() {
        for path in [
            "/api/v1/pods?watch=true&x=1",
            "/api/v1/pods/x/log?follow=true",
        ] {
            let late = async {
                tokio::time::sleep(SHORT * 2).await;
                Response::new(Answer::empty())
            };
            assert!(ask(path, late).await.is_ok());
        }
    }
}
