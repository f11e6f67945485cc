//! The HTTP client: one for a process, shared by all that ask.

use std::{fmt, time::Duration};

use ureq::{Agent, config::Config, tls::TlsConfig, unversioned::transport::DefaultConnector};

use super::{
    super::{Address, GitError, protocol::AGENT},
    certificates,
    guard::OutwardResolver,
    proxy::Proxies,
};

/// How long it may take until a connection stands.
const CONNECT: Duration = Duration::from_secs(30);

/// The settings of an HTTP client.
#[derive(Debug, Clone, Default)]
pub struct HttpSettings {
    /// Certificates in PEM that are believed beside the usual ones
    pub extra_certificates: Vec<Vec<u8>>,
}

/// An HTTP client. A copy shares its connections.
#[derive(Clone)]
pub struct HttpClient {
    usual: Agent,
    /// For addresses that a server sent us to
    outward: Agent,
    proxies: Proxies,
}

impl HttpClient {
    /// A client as the environment wants it: proxies and certificates by the usual variables.
    pub fn from_environment(settings: &HttpSettings) -> Result<Self, GitError> {
        Self::with_variables(settings, &|name| std::env::var(name).ok())
    }

    /// A client as these variables want it.
    pub fn with_variables(
        settings: &HttpSettings,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, GitError> {
        let mut extra = certificates::of(variable)?;
        for text in &settings.extra_certificates {
            extra.extend(
                certificates::of_pem(text).map_err(|source| GitError::Certificates {
                    path: "the settings".to_owned(),
                    source,
                })?,
            );
        }
        let config = config(extra);
        Ok(Self {
            usual: config.new_agent(),
            outward: Agent::with_parts(
                config,
                DefaultConnector::default(),
                OutwardResolver::default(),
            ),
            proxies: Proxies::of(variable)?,
        })
    }

    pub(super) fn agent(&self, outward: bool) -> &Agent {
        if outward { &self.outward } else { &self.usual }
    }

    pub(super) fn proxy(&self, address: &Address) -> Option<ureq::Proxy> {
        self.proxies.of_address(address)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HttpClient")
    }
}

fn config(extra: Vec<ureq::tls::Certificate<'static>>) -> Config {
    let tls = TlsConfig::builder()
        .root_certs(certificates::roots(extra))
        .build();
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_connect(Some(CONNECT))
        // servers know git by this, and some answer nobody else
        .user_agent(format!("git/{AGENT}"))
        .tls_config(tls)
        .build()
}
