//! Adds a valid token to each call, however long the connection is kept.

use std::task::{Context, Poll};

use axum::http::{Request, Response, header::AUTHORIZATION};
use futures::future::BoxFuture;
use tonic::{Status, body::Body, transport::Channel};
use tower::{BoxError, Service};

use crate::agents::tokens::Credentials;

#[derive(Clone)]
pub(crate) struct Authorized {
    pub(super) channel: Channel,
    pub(super) credentials: Credentials,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The channel that is ready is used; its clone may not be.
        let next = self.channel.clone();
        let mut ready = std::mem::replace(&mut self.channel, next);
        let credentials = self.credentials.clone();
        Box::pin(async move {
            let header = credentials.header().await;
            let header = header.map_err(|error| Status::unauthenticated(error.to_string()))?;
            if let Some(header) = header {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            ready.call(request).await.map_err(Into::into)
        })
    }
}
