//! Addresses to listen at, as Go writes them: `:8081`, `127.0.0.1:8081`, `localhost:8081`, `[::1]:8081`, or `0` for
//! nowhere.

use std::{fmt, net::SocketAddr, str::FromStr};

use tokio::net::TcpListener;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Nowhere.
    Nowhere,
    /// At a host's port; without a host, at all interfaces.
    At {
        /// A name or an address, without brackets.
        host: String,
        /// 0 for any that is free.
        port: u16,
    },
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Nowhere);
        }
        let bad = || "not an address: write it like `127.0.0.1:8081` or `:8081`".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        // As in Go, an address of IPv6 needs its brackets: nobody knows else where the port begins.
        if inner.is_none() && host.contains([':', '[', ']']) {
            return Err(bad());
        }
        Ok(Self::At {
            host: inner.unwrap_or(host).to_owned(),
            port: port.parse().map_err(|_| bad())?,
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => formatter.write_str("0"),
            Self::At { host, port } => formatter.write_str(&joined(host, *port)),
        }
    }
}

impl Listen {
    /// Listens there, if anywhere.
    pub(crate) async fn bind(&self) -> std::io::Result<Option<TcpListener>> {
        let Self::At { host, port } = self else {
            return Ok(None);
        };
        if !host.is_empty() {
            return Ok(Some(TcpListener::bind((host.as_str(), *port)).await?));
        }
        // All interfaces of both families; on a machine without IPv6, of the other one.
        match TcpListener::bind(("::", *port)).await {
            Ok(listener) => Ok(Some(listener)),
            Err(_) => Ok(Some(TcpListener::bind(("0.0.0.0", *port)).await?)),
        }
    }

    /// Where others reach a server that was told to listen here and does at `bound`.
    ///
    /// Without a host it is `localhost`, which is right beside the manager only; `0.0.0.0` is this machine's name.
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

/// As Go's `net.JoinHostPort`.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
