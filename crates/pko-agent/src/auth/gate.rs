//! Stands before all services, so that none can be forgotten. Only the health service is free.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, header::AUTHORIZATION};
use pko_proto::token::is_of_manager;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{
    kubernetes::{KubernetesAuthorizer, User},
    manager::ManagerAuthorizer,
    reviews::ApiReviews,
};
use crate::service::call_log::{Caller, Identity};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// Lets callers in, or not: all of them where nobody guards it.
#[derive(Clone)]
pub(crate) struct Gate(Option<Arc<Guard>>);

/// Who judges the callers.
pub(super) enum Guard {
    Manager(ManagerAuthorizer),
    Kubernetes(KubernetesAuthorizer<ApiReviews>),
    /// Each token is judged by one of them: by our key if it says that it is our manager's, else by the API server.
    Both(ManagerAuthorizer, KubernetesAuthorizer<ApiReviews>),
}

/// A caller that is not let in.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    /// Who it is, if that is known.
    pub(super) user: Option<User>,
}

impl Refusal {
    pub(super) fn of(user: &User, status: Status) -> Self {
        Self {
            status,
            user: Some(user.clone()),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, user: None }
    }
}

impl Guard {
    /// Who it is; a manager that is known by its key has no other name.
    async fn judge(&self, authorization: Option<&str>) -> Result<Option<User>, Refusal> {
        let token = bearer(authorization)?;
        let kubernetes = match self {
            Self::Manager(manager) => return Ok(manager.judge(token).map(|()| None)?),
            Self::Both(manager, _) if is_of_manager(token) => {
                return Ok(manager.judge(token).map(|()| None)?);
            }
            Self::Both(_, kubernetes) | Self::Kubernetes(kubernetes) => kubernetes,
        };
        kubernetes.judge(token).await.map(Some)
    }

    /// As upstream names it in its logs.
    fn mode(&self) -> &'static str {
        match self {
            Self::Manager(_) => "manager",
            Self::Kubernetes(_) => "kubernetes",
            Self::Both(..) => "kubernetes,manager",
        }
    }
}

impl Gate {
    pub(super) fn open() -> Self {
        Self(None)
    }

    pub(super) fn guarded_by(guard: Guard) -> Self {
        Self(Some(Arc::new(guard)))
    }

    /// Lets a call in or not; who it was is said to its line in the log.
    async fn judge(
        &self,
        path: &str,
        authorization: Option<&str>,
        caller: Option<&Caller>,
    ) -> Result<(), Status> {
        let Some(guard) = self.0.as_ref().filter(|_| !path.starts_with(HEALTH)) else {
            return Ok(());
        };
        let (user, judged) = match guard.judge(authorization).await {
            Ok(user) => (user, Ok(())),
            Err(refusal) => (refusal.user, Err(refusal.status)),
        };
        if let Some(caller) = caller {
            caller.is(identity(guard.mode(), user.as_ref(), judged.as_ref().err()));
        }
        judged
    }
}

fn identity(mode: &'static str, user: Option<&User>, refusal: Option<&Status>) -> Identity {
    Identity {
        mode,
        id: user.and_then(|user| user.uid.clone()).unwrap_or_default(),
        name: user.map(|user| user.name.clone()).unwrap_or_default(),
        refusal: refusal.map(|status| status.message().to_owned()),
    }
}

fn bearer(authorization: Option<&str>) -> Result<&str, Status> {
    let missing = || Status::unauthenticated("Request unauthenticated with Bearer");
    let authorization = authorization
        .filter(|text| !text.is_empty())
        .ok_or_else(missing)?;
    let (scheme, token) = authorization
        .split_once(' ')
        .ok_or_else(|| Status::unauthenticated("Bad authorization string"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    Ok(token)
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
            let caller = request.extensions().get::<Arc<Caller>>().map(Arc::as_ref);
            match gate.judge(&path, authorization, caller).await {
                Ok(()) => inner.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_after_its_scheme() {
        let missing = "Request unauthenticated with Bearer";
        let bad = "Bad authorization string";
        let table = [
            (None, Err(missing)),
            (Some(""), Err(missing)),
            (Some("good"), Err(bad)),
            (Some("Bearer"), Err(bad)),
            (Some("basic good"), Err(missing)),
            (Some("Bearer good"), Ok("good")),
            (Some("bearer good"), Ok("good")),
            (Some("BEARER a b"), Ok("a b")),
            (Some("Bearer "), Ok("")),
        ];
        for (authorization, expected) in table {
            let token = bearer(authorization);
            let token = token.as_ref().map_err(Status::message);
            assert_eq!(token.copied(), expected, "{authorization:?}");
        }
    }
}
