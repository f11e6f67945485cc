//! The HTTP client: one for a process, shared by all that ask.

use std::{fmt, sync::Arc, time::Duration};

use ureq::{
    Agent,
    config::Config,
    http::Uri,
    tls::{RootCerts, TlsConfig},
    unversioned::transport::DefaultConnector,
};

use super::{
    super::{Address, GitError, protocol::AGENT},
    guard::OutwardResolver,
};
use crate::http_client::{self, ClientError, PROXY_VARIABLES};

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
    /// The variables about proxies that are set
    proxies: Arc<Vec<(&'static str, String)>>,
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
        let config = config(http_client::roots(variable, &settings.extra_certificates)?);
        let set = PROXY_VARIABLES.into_iter();
        let set = set.filter_map(|name| Some((name, variable(name)?)));
        let client = Self {
            usual: config.new_agent(),
            outward: Agent::with_parts(
                config,
                DefaultConnector::default(),
                OutwardResolver::default(),
            ),
            proxies: Arc::new(set.collect()),
        };
        // One that is none is told now, and not when it is needed.
        for anywhere in ["http://proxied.invalid/", "https://proxied.invalid/"] {
            client.proxy_of(&Uri::from_static(anywhere))?;
        }
        Ok(client)
    }

    pub(super) fn agent(&self, outward: bool) -> &Agent {
        if outward { &self.outward } else { &self.usual }
    }

    pub(super) fn proxy(&self, address: &Address) -> Result<Option<ureq::Proxy>, GitError> {
        match Uri::try_from(address.http_url("")) {
            Ok(url) => Ok(self.proxy_of(&url)?),
            Err(_) => Ok(None),
        }
    }

    fn proxy_of(&self, url: &Uri) -> Result<Option<ureq::Proxy>, ClientError> {
        http_client::proxy(url, &|wanted| {
            let mut set = self.proxies.iter();
            set.find(|(name, _)| *name == wanted)
                .map(|(_, value)| value.clone())
        })
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HttpClient")
    }
}

fn config(roots: RootCerts) -> Config {
    let tls = TlsConfig::builder().root_certs(roots).build();
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
