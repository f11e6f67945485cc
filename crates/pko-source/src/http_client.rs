//! The HTTP client of everything here: which authorities it trusts, which proxy it uses, where it may be
//! sent on to, and when it gives up.

mod proxy;
mod redirect;
mod retry_after;
mod roots;

use std::time::Duration;

use ureq::{
    Agent, Proxy,
    http::Uri,
    tls::{RootCerts, TlsConfig, TlsProvider},
};

use crate::{Deadline, DeadlineExceeded};

pub(crate) use proxy::VARIABLES as PROXY_VARIABLES;
pub use redirect::RedirectError;
pub(crate) use redirect::{parse_url, redirected};
pub(crate) use retry_after::retry_after;

/// As long as it takes to be sure that nobody answers.
const CONNECT: Duration = Duration::from_secs(30);
/// From the request to the head of the answer; servers that pack something first take a while.
const ANSWER: Duration = Duration::from_mins(2);

/// A client that can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The proxy's address may hold a password, so that only the variable is named.
    #[error(
        "the variable {0} has no address of an HTTP proxy: it should look like http://proxy.example:3128"
    )]
    BadProxy(&'static str),
    /// What was given as certificates is none.
    #[error("an extra certificate is not in PEM: it should begin with -----BEGIN CERTIFICATE-----")]
    BadCertificate,
    /// It is too late to begin.
    #[error(transparent)]
    Late(#[from] DeadlineExceeded),
}

/// A client for one request to that address. It follows no redirects, since whoever asks must know where
/// its credentials go ([`redirected`] says where); a status is no error to it.
pub(crate) fn agent(url: &Uri, deadline: Deadline) -> Result<Agent, ClientError> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(roots::of_this_process())
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
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_global(Some(deadline.remaining()?))
        .build();
    Ok(config.into())
}

/// The proxy by which these variables want an address to be reached.
pub(crate) fn proxy(
    url: &Uri,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, ClientError> {
    let Some((name, address)) = proxy::choose(url, variable) else {
        return Ok(None);
    };
    let proxy = Proxy::new(&address).map_err(|_| ClientError::BadProxy(name))?;
    Ok(Some(proxy))
}

/// Whom we trust: Mozilla's list, what these variables add, and these certificates in PEM.
pub(crate) fn roots(
    variable: &dyn Fn(&str) -> Option<String>,
    extra: &[Vec<u8>],
) -> Result<RootCerts, ClientError> {
    roots::with(variable, extra).ok_or(ClientError::BadCertificate)
}
