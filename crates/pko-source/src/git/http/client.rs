//! The HTTP client, one per process.

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
    ssrf_guard::GuardedResolver,
};
use crate::http_client::{self, HttpClientError, PROXY_VARIABLES};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
pub struct HttpSettings {
    /// PEM certificates to trust in addition to the default ones.
    pub extra_certificates: Vec<Vec<u8>>,
}

/// Clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    usual: Agent,
    /// For addresses that a server redirected to.
    public_only: Agent,
    proxies: Arc<Vec<(&'static str, String)>>,
}

impl HttpClient {
    pub fn from_environment(settings: &HttpSettings) -> Result<Self, GitError> {
        Self::with_variables(settings, &|name| std::env::var(name).ok())
    }

    /// Like [`Self::from_environment`], with the given variables.
    pub fn with_variables(
        settings: &HttpSettings,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, GitError> {
        let config = config(http_client::roots(variable, &settings.extra_certificates)?);
        let set = PROXY_VARIABLES.into_iter();
        let set = set.filter_map(|name| Some((name, variable(name)?)));
        let client = Self {
            usual: guarded(config.clone(), GuardedResolver::for_users()),
            public_only: guarded(config, GuardedResolver::for_redirects()),
            proxies: Arc::new(set.collect()),
        };
        // Report an invalid proxy at start, not at the first request.
        for anywhere in ["http://proxied.invalid/", "https://proxied.invalid/"] {
            client.proxy_of(&Uri::from_static(anywhere))?;
        }
        Ok(client)
    }

    pub(super) fn agent(&self, public_only: bool) -> &Agent {
        if public_only {
            &self.public_only
        } else {
            &self.usual
        }
    }

    pub(super) fn proxy(&self, address: &Address) -> Result<Option<ureq::Proxy>, GitError> {
        match Uri::try_from(address.http_url("")) {
            Ok(url) => Ok(self.proxy_of(&url)?),
            Err(_) => Ok(None),
        }
    }

    fn proxy_of(&self, url: &Uri) -> Result<Option<ureq::Proxy>, HttpClientError> {
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

fn guarded(config: Config, resolver: GuardedResolver) -> Agent {
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

fn config(roots: RootCerts) -> Config {
    let tls = TlsConfig::builder().root_certs(roots).build();
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        // Some servers answer only clients whose user agent starts with `git/`.
        .user_agent(format!("git/{AGENT}"))
        .tls_config(tls)
        .build()
}
