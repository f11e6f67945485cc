//! Adds a valid token to each call, however long the connection is kept, and limits the responses.

use std::task::{Context, Poll};

use axum::http::{
    HeaderMap, HeaderValue, Request, Response, header::AUTHORIZATION, request::Parts,
};
use futures::future::BoxFuture;
use hyper::body::Bytes;
use tonic::{Code, Status, body::Body, transport::Channel};
use tower::{BoxError, Service, ServiceExt as _};

use super::{receive_budget::ReceiveShare, receive_limits::LimitedBody};
use crate::agents::tokens::Credentials;

#[derive(Clone)]
pub(crate) struct Authorized {
    pub(super) channel: Channel,
    pub(super) credentials: Credentials,
    pub(super) share: ReceiveShare,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The channel that is ready is used; its clone may not be.
        let next = self.channel.clone();
        let ready = std::mem::replace(&mut self.channel, next);
        let (credentials, share) = (self.credentials.clone(), self.share.clone());
        Box::pin(async move {
            let response = match header(&credentials).await? {
                None => call(ready, request).await?,
                Some(header) => call_with_token(ready, &credentials, header, request).await?,
            };
            Ok(response.map(|body| Body::new(LimitedBody::new(body, share))))
        })
    }
}

/// Calls once more with another token if the agent does not accept the first one: a clock may have
/// been set since it was made.
async fn call_with_token(
    channel: Channel,
    credentials: &Credentials,
    header: HeaderValue,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(axum::body::Body::new(body), usize::MAX).await?;
    let first = with_header(parts.clone(), &header, &body);
    let response = call(channel.clone(), first).await?;
    if !is_unauthenticated(response.headers()) || !credentials.reject(&header).await {
        return Ok(response);
    }
    match self::header(credentials).await? {
        Some(other) if other != header => call(channel, with_header(parts, &other, &body)).await,
        _ => Ok(response),
    }
}

async fn call(mut channel: Channel, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    Ok(channel.ready().await?.call(request).await?)
}

async fn header(credentials: &Credentials) -> Result<Option<HeaderValue>, Status> {
    let header = credentials.header().await;
    header.map_err(|error| Status::unauthenticated(error.to_string()))
}

fn with_header(mut parts: Parts, header: &HeaderValue, body: &Bytes) -> Request<Body> {
    parts.headers.insert(AUTHORIZATION, header.clone());
    Request::from_parts(parts, Body::new(axum::body::Body::from(body.clone())))
}

/// A rejected call has its status in the headers.
fn is_unauthenticated(headers: &HeaderMap) -> bool {
    let status = headers.get("grpc-status");
    let code = status.map(|status| Code::from_bytes(status.as_bytes()));
    code == Some(Code::Unauthenticated)
}
