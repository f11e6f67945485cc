//! Stands before all services, so that none can be forgotten. Only the health service is free.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, header::AUTHORIZATION};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{ApiReviews, KubernetesAuthorizer};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// Lets callers in, or not.
#[derive(Clone)]
pub(crate) enum Gate {
    Open,
    Kubernetes(Arc<KubernetesAuthorizer<ApiReviews>>),
}

impl Gate {
    async fn judge(&self, path: &str, authorization: Option<&str>) -> Result<(), Status> {
        match self {
            Self::Open => Ok(()),
            Self::Kubernetes(_) if path.starts_with(HEALTH) => Ok(()),
            Self::Kubernetes(authorizer) => authorizer.judge(authorization).await,
        }
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            gate: self.clone(),
            inner,
        }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    gate: Gate,
    inner: S,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready is the one to call.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let gate = self.gate.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let authorization = request.headers().get(AUTHORIZATION);
            let authorization = authorization.map(|value| value.to_str().unwrap_or_default());
            match gate.judge(&path, authorization).await {
                Ok(()) => inner.call(request).await,
                Err(status) => {
                    tracing::info!(path, code = ?status.code(), "A call was refused");
                    Ok(status.into_http())
                }
            }
        })
    }
}
