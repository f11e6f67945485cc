//! One layer in front of all services, so that none is left open by mistake. Only the health
//! service needs no token.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, header::AUTHORIZATION};
use jiff::Timestamp;
use pko_auth::{reviews::User, token::has_manager_issuer};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{kubernetes::KubernetesAuthorizer, manager::ManagerAuthorizer};
use crate::service::call_log::{Caller, Identity};

const HEALTH_SERVICE: &str = "/grpc.health.v1.Health/";

/// Rejects unauthorized calls. Without an authorizer it accepts all of them.
#[derive(Clone)]
pub(crate) struct AuthLayer(Option<Arc<Authorizer>>);

pub(super) enum Authorizer {
    Manager(ManagerAuthorizer),
    Kubernetes(KubernetesAuthorizer),
    /// The token's issuer decides which of them verifies it.
    Both(ManagerAuthorizer, KubernetesAuthorizer),
}

#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) status: Status,
    /// Present if the caller was authenticated.
    pub(super) user: Option<User>,
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Self { status, user: None }
    }
}

impl Authorizer {
    /// The authenticated user; `None` for a manager, which has no user name.
    async fn authorize(&self, authorization: Option<&str>) -> Result<Option<User>, Rejection> {
        let token = bearer_token(authorization)?;
        let manager = match self {
            Self::Manager(manager) => manager,
            Self::Both(manager, _) if has_manager_issuer(token) => manager,
            Self::Both(_, kubernetes) | Self::Kubernetes(kubernetes) => {
                return kubernetes.authorize(token).await.map(Some);
            }
        };
        manager.authorize(token, Timestamp::now())?;
        Ok(None)
    }

    /// Upstream's name of the mode in its logs.
    fn mode(&self) -> &'static str {
        match self {
            Self::Manager(_) => "manager",
            Self::Kubernetes(_) => "kubernetes",
            Self::Both(..) => "kubernetes,manager",
        }
    }
}

impl AuthLayer {
    pub(super) fn open() -> Self {
        Self(None)
    }

    pub(super) fn new(authorizer: Authorizer) -> Self {
        Self(Some(Arc::new(authorizer)))
    }

    /// Authorizes a call, and records its caller for the call log.
    async fn authorize(
        &self,
        path: &str,
        authorization: Option<&str>,
        caller: Option<&Caller>,
    ) -> Result<(), Status> {
        let Some(authorizer) = self
            .0
            .as_ref()
            .filter(|_| !path.starts_with(HEALTH_SERVICE))
        else {
            return Ok(());
        };
        let (user, result) = match authorizer.authorize(authorization).await {
            Ok(user) => (user, Ok(())),
            Err(rejection) => (rejection.user, Err(rejection.status)),
        };
        if let Some(caller) = caller {
            let mode = authorizer.mode();
            caller.set_identity(identity(mode, user.as_ref(), result.as_ref().err()));
        }
        result
    }
}

fn identity(mode: &'static str, user: Option<&User>, rejection: Option<&Status>) -> Identity {
    Identity {
        mode,
        id: user.and_then(|user| user.uid.clone()).unwrap_or_default(),
        name: user.map(|user| user.name.clone()).unwrap_or_default(),
        rejection: rejection.map(|status| status.message().to_owned()),
    }
}

fn bearer_token(authorization: Option<&str>) -> Result<&str, Status> {
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

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService {
            auth: self.clone(),
            inner,
        }
    }
}

#[derive(Clone)]
pub(crate) struct AuthService<S> {
    auth: AuthLayer,
    inner: S,
}

impl<S> Service<Request<Body>> for AuthService<S>
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
        // Call the service that was polled ready, and keep its clone.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let auth = self.auth.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let authorization = request.headers().get(AUTHORIZATION);
            let authorization = authorization.map(|value| value.to_str().unwrap_or_default());
            let caller = request.extensions().get::<Arc<Caller>>().map(Arc::as_ref);
            match auth.authorize(&path, authorization, caller).await {
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
    fn bearer_token_follows_scheme() {
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
            let token = bearer_token(authorization);
            let token = token.as_ref().map_err(Status::message);
            assert_eq!(token.copied(), expected, "{authorization:?}");
        }
    }
}
