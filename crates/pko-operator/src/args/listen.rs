//! Listen addresses in Go's syntax: `:8081`, `127.0.0.1:8081`, `localhost:8081`, `[::1]:8081`, or
//! `0` for none.

use std::{fmt, net::SocketAddr, str::FromStr};

use tokio::net::TcpListener;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Disabled,
    /// Without a host, all interfaces.
    At {
        /// Without brackets.
        host: String,
        /// 0 for any free port.
        port: u16,
    },
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Disabled);
        }
        let bad = || "not an address such as `127.0.0.1:8081` or `:8081`".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        // As in Go, an IPv6 address needs brackets.
        if inner.is_none() && host.contains([':', '[', ']']) {
            return Err(bad());
        }
        Ok(Self::At {
            host: inner.unwrap_or(host).to_owned(),
            port: port.parse().map_err(|_| bad())?,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => formatter.write_str("0"),
            Self::At { host, port } => formatter.write_str(&joined(host, *port)),
        }
    }
}

impl ListenAddress {
    /// None if disabled.
    pub(crate) async fn bind(&self) -> std::io::Result<Option<TcpListener>> {
        let Self::At { host, port } = self else {
            return Ok(None);
        };
        if !host.is_empty() {
            return Ok(Some(TcpListener::bind((host.as_str(), *port)).await?));
        }
        // All interfaces of both families, or of IPv4 on a machine without IPv6.
        match TcpListener::bind(("::", *port)).await {
            Ok(listener) => Ok(Some(listener)),
            Err(_) => Ok(Some(TcpListener::bind(("0.0.0.0", *port)).await?)),
        }
    }

    /// The address at which others reach a server that is bound to `bound`.
    ///
    /// Without a host it is `localhost`, which only works on the same machine; `0.0.0.0` is
    /// replaced by the host name.
    pub(super) fn advertised(&self, bound: SocketAddr, hostname: Option<&str>) -> String {
        let Self::At { host, .. } = self else {
            return bound.to_string();
        };
        let host = match host.as_str() {
            "" => "localhost",
            "0.0.0.0" => hostname.unwrap_or("localhost"),
            host => host,
        };
        joined(host, bound.port())
    }
}

/// Like Go's `net.JoinHostPort`.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
