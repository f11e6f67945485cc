//! HTTP clients with our root certificates, proxies and deadlines.

mod proxy;
mod redirect;
mod retry_after;
mod root_certificates;

use std::time::Duration;

use ureq::{
    Agent, Proxy,
    http::Uri,
    tls::{RootCerts, TlsConfig, TlsProvider},
};

use crate::{Deadline, DeadlineExceeded};

pub(crate) use proxy::VARIABLES as PROXY_VARIABLES;
pub use redirect::RedirectError;
pub(crate) use redirect::{parse_url, resolve_redirect};
pub(crate) use retry_after::retry_after;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Servers that build an archive on request take a while.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The proxy's address may contain a password, so only the variable is named.
    #[error("{0} is not the address of an HTTP proxy; use the form http://proxy.example:3128")]
    BadProxy(&'static str),
    #[error("an extra certificate is not in PEM; it must begin with -----BEGIN CERTIFICATE-----")]
    BadCertificate,
    #[error(transparent)]
    Late(#[from] DeadlineExceeded),
}

/// Returns a client for one request. It follows no redirects, because the caller decides who gets
/// the credentials (see [`resolve_redirect`]). HTTP error statuses are not errors.
pub(crate) fn agent(url: &Uri, deadline: Deadline) -> Result<Agent, HttpClientError> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(root_certificates::from_environment())
        .build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!(
            "pulumi-kubernetes-operator/",
            env!("CARGO_PKG_VERSION")
        ))
        .proxy(proxy(url, &|name| std::env::var(name).ok())?)
        .tls_config(tls)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(RESPONSE_TIMEOUT))
        .timeout_global(Some(deadline.remaining()?))
        .build();
    Ok(config.into())
}

/// The proxy that these variables configure for a URL.
pub(crate) fn proxy(
    url: &Uri,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, HttpClientError> {
    let Some((name, address)) = proxy::choose(url, variable) else {
        return Ok(None);
    };
    let proxy = Proxy::new(&address).map_err(|_| HttpClientError::BadProxy(name))?;
    Ok(Some(proxy))
}

/// Mozilla's root certificates, those that the variables add, and `extra` in PEM.
pub(crate) fn roots(
    variable: &dyn Fn(&str) -> Option<String>,
    extra: &[Vec<u8>],
) -> Result<RootCerts, HttpClientError> {
    root_certificates::with(variable, extra).ok_or(HttpClientError::BadCertificate)
}
