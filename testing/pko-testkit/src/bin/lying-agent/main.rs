//! Takes the place of `agent serve` and lies to its manager, as the variable `PKO_LIE` says.

use std::{env, error::Error};

use futures::stream;
use pko_testkit::lying_agent::{LIE_VARIABLE, Lie, routes};
use tokio::net::UnixListener;
use tonic::transport::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let lie = env::var(LIE_VARIABLE)?;
    let lie =
        Lie::from_name(&lie).ok_or_else(|| format!("{LIE_VARIABLE}: there is no lie {lie}"))?;
    let mut arguments = env::args();
    let socket = arguments.find_map(|argument| Some(argument.strip_prefix("unix:")?.to_owned()));
    let listener = UnixListener::bind(socket.ok_or("--listen unix:PATH is missing")?)?;
    let incoming = stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let served = Server::builder().add_routes(routes(lie));
    Ok(served.serve_with_incoming(incoming).await?)
}
