//! The readiness probe of a manager, as a kubelet sends it.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, ToSocketAddrs},
};

const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: manager\r\nConnection: close\r\n\r\n";

/// Probes a manager by the address of its health probes. The error is the response.
pub async fn check_ready(address: impl ToSocketAddrs) -> Result<(), String> {
    let response = probe(address).await.map_err(|error| error.to_string())?;
    if response.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(response)
    }
}

async fn probe(address: impl ToSocketAddrs) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(REQUEST).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}
