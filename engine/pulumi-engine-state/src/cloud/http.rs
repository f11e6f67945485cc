//! Sends requests of the clouds' client with the plain blocking client, one at a time.

use std::{io::Read as _, pin::Pin, sync::OnceLock, time::Duration};

use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use ureq::{
    Agent,
    http::{Method, Response},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

const CONNECT: Duration = Duration::from_secs(5);
/// The limit of a whole call: a big state on a slow line.
const CALL: Duration = Duration::from_mins(3);
/// The largest state.
const LIMIT: u64 = 1 << 30;

/// Creates clients that share connections.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        static AGENT: OnceLock<Agent> = OnceLock::new();
        let agent = AGENT.get_or_init(agent).clone();
        Ok(HttpClient::new(UreqService(agent)))
    }
}

fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(roots()).build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(CALL))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent("pulumi-engine")
        .build()
        .new_agent()
}

/// Mozilla's root certificates, built in because an image may have none, and those of
/// `SSL_CERT_FILE`.
fn roots() -> RootCerts {
    let named = ["SSL_CERT_FILE", "AWS_CA_BUNDLE"].map(|name| std::env::var(name).ok());
    let mut more = Vec::new();
    for path in named.into_iter().flatten().filter(|path| !path.is_empty()) {
        let text = std::fs::read(path).unwrap_or_default();
        more.extend(parse_pem(&text).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        }));
    }
    if more.is_empty() {
        return RootCerts::WebPki;
    }
    let built_in = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    more.extend(built_in.map(|root| Certificate::from_der(root.as_ref())));
    RootCerts::new_with_certs(&more)
}

#[derive(Debug)]
struct UreqService(Agent);

impl HttpService for UreqService {
    // what the attribute of `async-trait` expands to, which only this function would need
    fn call<'life, 'future>(
        &'life self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'future>>
    where
        'life: 'future,
        Self: 'future,
    {
        // nothing else runs on this thread, so it may block
        Box::pin(async move { self.send(request).await })
    }
}

impl UreqService {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let sent = if has_body(&parts.method) {
            let body = collect_body(body).await?;
            self.0.run(http::Request::from_parts(parts, body))
        } else {
            self.0.run(http::Request::from_parts(parts, ()))
        };
        let (parts, body) = sent
            .map_err(|error| http_error(&error))
            .map(Response::into_parts)?;
        let mut content = Vec::new();
        let mut reader = body.into_with_config().limit(LIMIT).reader();
        reader
            .read_to_end(&mut content)
            .map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
        Ok(Response::from_parts(parts, HttpResponseBody::from(content)))
    }
}

fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

async fn collect_body(body: HttpRequestBody) -> Result<Vec<u8>, HttpError> {
    use http_body_util::BodyExt as _;
    let collected = body.collect().await;
    let collected = collected.map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
    Ok(collected.to_bytes().to_vec())
}

/// The kind of an error decides whether the call is retried.
fn http_error(error: &ureq::Error) -> HttpError {
    let kind = match error {
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        ureq::Error::Io(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, std::io::Error::other(error.to_string()))
}
