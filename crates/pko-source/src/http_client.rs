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
    tls::{TlsConfig, TlsProvider},
};

use crate::{Deadline, DeadlineExceeded};

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
    /// It is too late to begin.
    #[error(transparent)]
    Late(#[from] DeadlineExceeded),
}

/// A client for one request to that address. It follows no redirects, since whoever asks must know where
/// its credentials go ([`redirected`] says where); a status is no error to it.
pub(crate) fn agent(url: &Uri, deadline: Deadline) -> Result<Agent, ClientError> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(roots::roots())
        .build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!(
            "pulumi-kubernetes-operator/",
            env!("CARGO_PKG_VERSION")
        ))
        .proxy(proxy(url)?)
        .tls_config(tls)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_global(Some(deadline.remaining()?))
        .build();
    Ok(config.into())
}

fn proxy(url: &Uri) -> Result<Option<Proxy>, ClientError> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((name, address)) = proxy::choose(url, variable) else {
        return Ok(None);
    };
    let proxy = Proxy::new(&address).map_err(|_| ClientError::BadProxy(name))?;
    Ok(Some(proxy))
}
