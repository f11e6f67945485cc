//! Which proxy a request goes through, by the usual variables. Pure.
//!
//! The HTTP client reads variables of its own accord, but takes one proxy for all schemes and knows no networks
//! in `NO_PROXY`, where clusters have theirs (`10.0.0.0/8`). So it is told what we find here.

use std::net::IpAddr;

use super::super::{Address, GitError, Scheme};

/// The proxies of an environment.
#[derive(Clone, Default)]
pub(super) struct Proxies {
    https: Option<ureq::Proxy>,
    http: Option<ureq::Proxy>,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    All,
    /// A host and all beneath it
    Domain(String, Option<u16>),
    Network(IpAddr, u8),
}

impl Proxies {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in small letters or capital ones.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, GitError> {
        let first = |names: &[&str]| {
            names.iter().find_map(|name| {
                Some((
                    (*name).to_owned(),
                    variable(name).filter(|value| !value.is_empty())?,
                ))
            })
        };
        let proxy = |names: &[&str]| {
            first(names)
                .map(|(variable, value)| {
                    ureq::Proxy::new(&value).map_err(|_| GitError::Proxy { variable })
                })
                .transpose()
        };
        let exceptions = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| exceptions(&value));
        Ok(Self {
            https: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            http: proxy(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])?,
            exceptions: exceptions.unwrap_or_default(),
        })
    }

    /// The proxy for an address.
    pub(super) fn of_address(&self, address: &Address) -> Option<ureq::Proxy> {
        let proxy = match address.scheme() {
            Scheme::Https => self.https.clone(),
            Scheme::Http => self.http.clone(),
            Scheme::Ssh => None,
        };
        proxy.filter(|_| {
            !self
                .exceptions
                .iter()
                .any(|exception| exception.holds_for(address.host(), address.port()))
        })
    }
}

fn exceptions(text: &str) -> Vec<Exception> {
    text.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(exception)
        .collect()
}

fn exception(entry: &str) -> Exception {
    if entry == "*" {
        return Exception::All;
    }
    if let Some((network, length)) = entry.split_once('/')
        && let (Ok(network), Ok(length)) = (network.parse(), length.parse())
    {
        return Exception::Network(network, length);
    }
    let bare = entry.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Exception::Network(address, 128);
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (entry, None),
    };
    let name = name.trim_start_matches('*').trim_start_matches('.');
    Exception::Domain(name.to_ascii_lowercase(), port)
}

impl Exception {
    fn holds_for(&self, host: &str, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Domain(domain, only) => {
                let beneath = host
                    .strip_suffix(domain.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                beneath && only.is_none_or(|only| only == port)
            }
            Self::Network(network, length) => host
                .parse()
                .is_ok_and(|address| is_within(address, *network, *length)),
        }
    }
}

fn is_within(address: IpAddr, network: IpAddr, length: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let ignored = 32_u32.saturating_sub(length.into());
            let cut = |address: u32| address.checked_shr(ignored);
            cut(address.to_bits()) == cut(network.to_bits())
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let ignored = 128_u32.saturating_sub(length.into());
            let cut = |address: u128| address.checked_shr(ignored);
            cut(address.to_bits()) == cut(network.to_bits())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy_of(address: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(each, _)| *each == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let address = Address::parse(address).unwrap();
        let proxies = Proxies::of(&variable).unwrap();
        proxies
            .of_address(&address)
            .map(|proxy| proxy.host().to_owned())
    }

    #[test]
    fn the_proxy_of_the_scheme() {
        let variables = [
            ("HTTPS_PROXY", "http://s:3128"),
            ("http_proxy", "p:80"),
            ("HTTP_PROXY", "x:80"),
        ];
        assert_eq!(proxy_of("https://h/r", &variables).as_deref(), Some("s"));
        assert_eq!(proxy_of("http://h/r", &variables).as_deref(), Some("p"));
        assert_eq!(
            proxy_of("http://h/r", &[("all_proxy", "http://a:1")]).as_deref(),
            Some("a")
        );
        assert_eq!(
            proxy_of("https://h/r", &[("HTTP_PROXY", "http://x:80")]),
            None
        );
        assert_eq!(proxy_of("https://h/r", &[("HTTPS_PROXY", "")]), None);
    }

    #[test]
    fn what_goes_without() {
        for (exceptions, address, without) in [
            ("*", "https://h/r", true),
            ("example.com", "https://example.com/r", true),
            ("example.com", "https://git.example.com/r", true),
            (".example.com", "https://git.example.com/r", true),
            ("*.example.com", "https://git.example.com/r", true),
            ("example.com", "https://badexample.com/r", false),
            ("a.b, .svc,localhost", "http://git.ns.svc/r", true),
            ("10.0.0.0/8", "http://10.96.0.10/r", true),
            ("10.0.0.0/8", "http://11.0.0.1/r", false),
            ("0.0.0.0/0", "http://11.0.0.1/r", true),
            ("192.168.1.1", "http://192.168.1.1/r", true),
            ("fd00::/8", "http://[fd12::1]/r", true),
            ("::1", "http://[::1]/r", true),
            ("h:8443", "https://h:8443/r", true),
            ("h:8443", "https://h/r", false),
            ("10.0.0.0/x", "http://10.0.0.1/r", false),
        ] {
            let proxy = proxy_of(
                address,
                &[("ALL_PROXY", "http://p:1"), ("NO_PROXY", exceptions)],
            );
            assert_eq!(proxy.is_none(), without, "{exceptions} {address}");
        }
    }

    #[test]
    fn a_proxy_that_is_none_is_not_repeated() {
        let variable = |name: &str| (name == "HTTPS_PROXY").then(|| "canary://canary@p".to_owned());
        let Err(error) = Proxies::of(&variable) else {
            panic!("accepted")
        };
        assert!(error.to_string().contains("HTTPS_PROXY"));
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
