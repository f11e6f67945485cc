//! Whether a manager is ready, as a kubelet would ask it.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, ToSocketAddrs},
};

const QUESTION: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: manager\r\nConnection: close\r\n\r\n";

/// Asks the manager whose health probes are at an address; says what is missing.
pub(crate) async fn is_ready(address: impl ToSocketAddrs) -> Result<(), String> {
    let answer = ask(address).await.map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(answer)
    }
}

async fn ask(address: impl ToSocketAddrs) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(QUESTION).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
