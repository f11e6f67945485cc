//! How many connections each client address has.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressLimits {
    /// Connections, others are closed at once.
    pub(crate) open: usize,
    /// Those of them that are served; the others wait.
    pub(crate) active: usize,
    /// Between the end of a request and the next one in its place, which limits the rate.
    pub(crate) pause: Duration,
}

pub(super) struct ClientAddresses {
    limits: AddressLimits,
    clients: Mutex<HashMap<IpAddr, Client>>,
}

struct Client {
    open: usize,
    places: Arc<Semaphore>,
}

/// A connection that counts for its address.
pub(super) struct OpenConnection {
    addresses: Arc<ClientAddresses>,
    client: IpAddr,
    places: Arc<Semaphore>,
}

/// A connection that is served.
pub(super) struct ServedConnection {
    connection: OpenConnection,
    _place: OwnedSemaphorePermit,
}

impl ClientAddresses {
    pub(super) fn new(limits: AddressLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            clients: Mutex::default(),
        })
    }

    /// Counts a connection. None if the address has too many.
    pub(super) fn open(self: &Arc<Self>, client: IpAddr) -> Option<OpenConnection> {
        // A client of IPv4 has one address, whatever the listener's family is.
        let client = client.to_canonical();
        let mut clients = self.clients.lock();
        let entry = clients.entry(client).or_insert_with(|| Client {
            open: 0,
            places: Arc::new(Semaphore::new(self.limits.active)),
        });
        if entry.open >= self.limits.open {
            return None;
        }
        entry.open += 1;
        Some(OpenConnection {
            addresses: Arc::clone(self),
            client,
            places: Arc::clone(&entry.places),
        })
    }
}

impl OpenConnection {
    /// Waits until the connection may be served. None never comes: the semaphore is never closed.
    pub(super) async fn turn(self) -> Option<ServedConnection> {
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        Some(ServedConnection {
            connection: self,
            _place: place,
        })
    }
}

impl ServedConnection {
    /// Gives the place to the next one, after the pause.
    pub(super) async fn end(self) {
        sleep(self.connection.addresses.limits.pause).await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut clients = self.addresses.clients.lock();
        if let Some(entry) = clients.get_mut(&self.client) {
            entry.open -= 1;
            if entry.open == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const LIMITS: AddressLimits = AddressLimits {
        open: 3,
        active: 1,
        pause: Duration::ZERO,
    };

    #[tokio::test]
    async fn address_connections_are_limited_and_wait_for_each_other() {
        let addresses = ClientAddresses::new(LIMITS);
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let first = addresses.open(one).unwrap().turn().await.unwrap();
        let mut second = Box::pin(addresses.open(mapped).unwrap().turn());
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        let third = addresses.open(one).unwrap();
        assert!(addresses.open(one).is_none(), "three are open");
        assert!(addresses.open("10.0.0.2".parse().unwrap()).is_some());
        first.end().await;
        let second = second.await.unwrap();
        assert!(addresses.open(one).is_some(), "the first one has ended");
        drop((second, third));
        assert!(addresses.clients.lock().is_empty());
    }
}
