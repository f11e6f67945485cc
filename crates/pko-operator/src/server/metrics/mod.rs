//! Serves metrics: over HTTPS to authorized clients, or over HTTP to all.

mod access;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use self::access::{Access, Authorizer, CachedAuthorizer};
use crate::{
    metrics::Metrics,
    server::{
        addresses::AddressLimits,
        bounded::{self, ConnectionLimits},
    },
};
pub(crate) use access::ClusterAuthorizer;

const LIMITS: ConnectionLimits = ConnectionLimits {
    head: Duration::from_secs(10),
    request: Duration::from_mins(1),
    connections: 32,
    address: AddressLimits {
        open: 32,
        active: 32,
        pause: Duration::ZERO,
    },
};

pub(crate) enum MetricsAuth<J> {
    /// HTTP, for everyone.
    None,
    /// HTTPS with a self-signed certificate, for bearer tokens with access.
    Token { authorizer: J, http2: bool },
}

pub(crate) async fn serve<J: Authorizer>(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    auth: MetricsAuth<J>,
) -> anyhow::Result<()> {
    match auth {
        MetricsAuth::None => {
            let routes = Router::new()
                .route("/metrics", get(serve_open))
                .with_state(metrics);
            bounded::serve(listener, routes, LIMITS).await;
        }
        MetricsAuth::Token { authorizer, http2 } => {
            let acceptor = TlsAcceptor::from(Arc::new(configuration(http2)?));
            bounded::serve_tls(
                listener,
                acceptor,
                authorized_routes(metrics, authorizer),
                LIMITS,
            )
            .await;
        }
    }
    Ok(())
}

fn authorized_routes<J: Authorizer>(metrics: Arc<Metrics>, authorizer: J) -> Router {
    let guard = Arc::new((metrics, CachedAuthorizer::new(authorizer)));
    Router::new()
        .route("/metrics", get(serve_authorized::<J>))
        .with_state(guard)
}

/// Self-signed, generated at each start: it encrypts the connection, and the token authenticates
/// the client.
fn configuration(http2: bool) -> anyhow::Result<ServerConfig> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    let protocols: &[&str] = if http2 {
        &["h2", "http/1.1"]
    } else {
        &["http/1.1"]
    };
    configuration.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(configuration)
}

async fn serve_open(State(metrics): State<Arc<Metrics>>) -> Response {
    text(&metrics)
}

type Guard<J> = Arc<(Arc<Metrics>, CachedAuthorizer<J>)>;

async fn serve_authorized<J: Authorizer>(
    State(guard): State<Guard<J>>,
    headers: HeaderMap,
) -> Response {
    let (metrics, access) = guard.as_ref();
    let Some(token) = token(&headers) else {
        return rejection(StatusCode::UNAUTHORIZED, "a bearer token is required");
    };
    match access.authorize(token, Instant::now()).await {
        Ok(Access::Granted) => text(metrics),
        Ok(Access::Unauthenticated) => {
            rejection(StatusCode::UNAUTHORIZED, "the token is not valid")
        }
        Ok(Access::Forbidden) => rejection(
            StatusCode::FORBIDDEN,
            "needs a role that may `get` the path `/metrics`, such as `metrics-reader`",
        ),
        Err(error) => {
            tracing::warn!(%error, "Failed to authorize a scrape");
            rejection(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the API server could not review the token",
            )
        }
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn rejection(code: StatusCode, why: &'static str) -> Response {
    (code, why).into_response()
}

fn text(metrics: &Metrics) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::warn!(%error, "Failed to encode metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    use super::{access::AccessError, *};

    struct AuthorizerByName;

    impl Authorizer for AuthorizerByName {
        async fn authorize(&self, token: &str) -> Result<Access, AccessError> {
            match token {
                "reader" => Ok(Access::Granted),
                "other" => Ok(Access::Forbidden),
                "outage" => Err(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded).into()),
                _ => Ok(Access::Unauthenticated),
            }
        }
    }

    async fn code(authorization: Option<&str>) -> u16 {
        let metrics = Arc::new(Metrics::new().unwrap());
        let mut request = Request::get("/metrics");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = authorized_routes(metrics, AuthorizerByName)
            .oneshot(request)
            .await;
        answer.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn metrics_are_served_to_authorized_clients_only() {
        for (authorization, expected) in [
            (None, 401),
            (Some("Basic cmVhZGVy"), 401),
            (Some("Bearer"), 401),
            (Some("Bearer "), 401),
            (Some("Bearer nobody"), 401),
            (Some("Bearer other"), 403),
            (Some("Bearer outage"), 500),
            (Some("Bearer reader"), 200),
            (Some("bearer reader"), 200),
        ] {
            assert_eq!(code(authorization).await, expected, "{authorization:?}");
        }
    }

    #[test]
    fn metrics_http2_is_off_by_default() {
        let names = |http2| configuration(http2).unwrap().alpn_protocols;
        assert_eq!(names(false), [b"http/1.1".to_vec()]);
        assert_eq!(names(true), [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
