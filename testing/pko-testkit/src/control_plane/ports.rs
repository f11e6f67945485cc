//! Free ports of the loopback interface.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use parking_lot::Mutex;

/// Ports handed out by this process: the kernel may offer one again before its server listens.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port without a listener that this process has not used before.
///
/// Another process can still take it first, so callers retry.
pub(crate) fn free() -> io::Result<u16> {
    let mut given = GIVEN.lock();
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        if given.insert(port) {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_distinct() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
    }
}
