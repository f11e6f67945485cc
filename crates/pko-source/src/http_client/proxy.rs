//! Chooses the proxy for a URL from the environment. Does no I/O.
//!
//! The rules are those of Go's `net/http`, so a cluster's settings mean the same as for other
//! controllers.

use std::net::IpAddr;

use ureq::http::{Uri, uri::Scheme};

pub(crate) const VARIABLES: [&str; 8] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// The variable and the proxy's address, or `None` for a direct connection.
pub(super) fn choose(
    url: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    let set = |name: &'static str| Some((name, variable(name).filter(|value| !value.is_empty())?));
    let host = url.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
    let secure = url.scheme() == Some(&Scheme::HTTPS);
    let own = if secure {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let mut names = own.into_iter().chain(["ALL_PROXY", "all_proxy"]);
    let proxy = names.find_map(set)?;
    let exceptions = set("NO_PROXY").or_else(|| set("no_proxy"));
    let exceptions = exceptions.map_or(String::new(), |(_, value)| value);
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let direct = is_local(&host)
        || exceptions
            .split(',')
            .any(|rule| matches_exception(rule, &host, port));
    (!direct).then_some(proxy)
}

/// Loopback never uses a proxy.
fn is_local(host: &str) -> bool {
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// `*`, an address, a CIDR range, or a domain with its subdomains. All but ranges may have a port.
fn matches_exception(rule: &str, host: &str, port: u16) -> bool {
    let rule = rule.trim().to_ascii_lowercase();
    if rule == "*" {
        return true;
    }
    if let Some((network, bits)) = rule.split_once('/') {
        return in_network(network, bits, host);
    }
    let (name, wanted) = split_port(&rule);
    if wanted.is_some_and(|wanted| wanted != port) || name.is_empty() {
        return false;
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some(domain) => is_subdomain(host, domain),
        None => host == name || is_subdomain(host, name),
    }
}

/// An IPv6 address has a port only if it is in brackets.
fn split_port(rule: &str) -> (&str, Option<u16>) {
    if let Some((name, port)) = rule.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (
            name,
            port.strip_prefix(':').and_then(|port| port.parse().ok()),
        );
    }
    match rule.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, port.parse().ok()),
        _ => (rule, None),
    }
}

fn is_subdomain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.ends_with('.'))
}

fn in_network(network: &str, bits: &str, host: &str) -> bool {
    let numbers = (network.parse(), host.parse(), bits.parse::<u32>());
    match numbers {
        (Ok(IpAddr::V4(network)), Ok(IpAddr::V4(host)), Ok(bits)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            network.to_bits() & mask == host.to_bits() & mask
        }
        (Ok(IpAddr::V6(network)), Ok(IpAddr::V6(host)), Ok(bits)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            network.to_bits() & mask == host.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        choose(&url.parse().unwrap(), variable).map(|(_, address)| address)
    }

    #[test]
    fn proxy_is_chosen_by_scheme() {
        let both = [("HTTPS_PROXY", "http://a"), ("http_proxy", "http://b")];
        let of = |url| chosen(url, &both);
        assert_eq!(of("https://x.test/"), Some("http://a".to_owned()));
        assert_eq!(of("http://x.test/"), Some("http://b".to_owned()));
        let all = [("HTTPS_PROXY", ""), ("ALL_PROXY", "http://c")];
        assert_eq!(chosen("https://x.test/", &all), Some("http://c".to_owned()));
        assert_eq!(chosen("http://x.test/", &[("HTTPS_PROXY", "a")]), None);
        assert_eq!(chosen("http://x.test/", &[]), None);
    }

    #[test]
    fn proxy_exceptions_are_direct() {
        let table = [
            ("", "http://x.test/", false),
            ("", "http://localhost:80/", true),
            ("", "http://127.0.0.9/", true),
            ("", "http://[::1]/", true),
            ("*", "http://x.test/", true),
            ("x.test", "http://x.test/", true),
            ("X.test", "http://A.x.TEST/", true),
            ("x.test", "http://ax.test/", false),
            (".x.test", "http://x.test/", false),
            (".x.test", "http://a.x.test/", true),
            ("*.x.test", "http://a.x.test/", true),
            ("x.test:81", "http://x.test/", false),
            ("x.test:80", "http://x.test/", true),
            ("y.test, .svc", "http://source.flux.svc/", true),
            ("10.0.0.0/8", "http://10.200.3.4:9090/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("0.0.0.0/0", "http://11.0.0.1/", true),
            ("10.1.2.3", "http://10.1.2.3/", true),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("[fd12::1]:80", "http://[fd12::1]/", true),
            ("10.0.0.0/99", "http://10.0.0.1/", false),
            (",:,", "http://x.test/", false),
        ];
        for (rules, url, direct) in table {
            let variables = [("HTTP_PROXY", "http://proxy"), ("NO_PROXY", rules)];
            let found = chosen(url, &variables);
            assert_eq!(found.is_none(), direct, "{url} with NO_PROXY={rules}");
        }
    }
}
