//! Serves the metrics: by HTTPS to those who may read them, or by HTTP to all.

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

use self::access::{Access, Judge, Remembering};
use crate::{
    metrics::Metrics,
    server::bounded::{self, Limits},
};
pub(crate) use access::ClusterAccess;

const LIMITS: Limits = Limits {
    head: Duration::from_secs(10),
    request: Duration::from_mins(1),
    connections: 32,
};

/// How one gets in.
pub(crate) enum Door<J> {
    /// By HTTP, everybody.
    Open,
    /// By HTTPS with a certificate of our own, whoever may.
    Guarded {
        /// Who says who may.
        judge: J,
        /// Whether HTTP/2 is spoken, too.
        http2: bool,
    },
}

/// Serves until it is dropped.
pub(crate) async fn serve<J: Judge>(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    door: Door<J>,
) -> anyhow::Result<()> {
    match door {
        Door::Open => {
            let routes = Router::new()
                .route("/metrics", get(open))
                .with_state(metrics);
            bounded::serve(listener, routes, LIMITS).await;
        }
        Door::Guarded { judge, http2 } => {
            let acceptor = TlsAcceptor::from(Arc::new(configuration(http2)?));
            bounded::serve_tls(listener, acceptor, guarded_routes(metrics, judge), LIMITS).await;
        }
    }
    Ok(())
}

fn guarded_routes<J: Judge>(metrics: Arc<Metrics>, judge: J) -> Router {
    let guard = Arc::new((metrics, Remembering::new(judge)));
    Router::new()
        .route("/metrics", get(guarded::<J>))
        .with_state(guard)
}

/// A certificate that nobody has signed, made at each start: it hides what is said, and the token says who asks.
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

async fn open(State(metrics): State<Arc<Metrics>>) -> Response {
    text(&metrics)
}

type Guard<J> = Arc<(Arc<Metrics>, Remembering<J>)>;

async fn guarded<J: Judge>(State(guard): State<Guard<J>>, headers: HeaderMap) -> Response {
    let (metrics, access) = guard.as_ref();
    let Some(token) = token(&headers) else {
        return refused(StatusCode::UNAUTHORIZED, "show a token");
    };
    match access.judge(token, Instant::now()).await {
        Ok(Access::Granted) => text(metrics),
        Ok(Access::Unknown) => refused(StatusCode::UNAUTHORIZED, "nobody knows this token"),
        Ok(Access::Forbidden) => refused(
            StatusCode::FORBIDDEN,
            "needs a role that may `get` the path `/metrics`, such as `metrics-reader`",
        ),
        Err(error) => {
            tracing::warn!(%error, "Metrics were asked for, and are not given");
            refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the API server does not say who asks",
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

fn refused(code: StatusCode, why: &'static str) -> Response {
    (code, why).into_response()
}

fn text(metrics: &Metrics) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::warn!(%error, "Metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    use super::{access::AccessError, *};

    struct ByName;

    impl Judge for ByName {
        async fn judge(&self, token: &str) -> Result<Access, AccessError> {
            match token {
                "reader" => Ok(Access::Granted),
                "other" => Ok(Access::Forbidden),
                "outage" => Err(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded).into()),
                _ => Ok(Access::Unknown),
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
        let answer = guarded_routes(metrics, ByName).oneshot(request).await;
        answer.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn only_who_may_read_the_metrics_reads_them() {
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
    fn http2_is_spoken_only_where_it_is_asked_for() {
        let names = |http2| configuration(http2).unwrap().alpn_protocols;
        assert_eq!(names(false), [b"http/1.1".to_vec()]);
        assert_eq!(names(true), [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
