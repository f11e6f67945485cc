//! A loopback address for each pod: Linux accepts all of 127.0.0.0/8.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The port of every agent.
const PORT: u16 = 50051;
/// The values of one octet: neither 0 nor 255, which have meanings in networks.
const OCTET: u32 = 254;
const ATTEMPTS: usize = 100;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An address that this process has not used before, with a free agent port.
pub fn free() -> io::Result<Ipv4Addr> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = nth_address(start_of(std::process::id()).wrapping_add(number));
        match TcpListener::bind((address, PORT)) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Processes that test at once begin far from each other.
fn start_of(process: u32) -> u32 {
    process.wrapping_mul(OCTET * OCTET + OCTET + 1)
}

fn nth_address(number: u32) -> Ipv4Addr {
    let octet = |value: u32| u8::try_from(value % OCTET + 1).unwrap_or(1);
    Ipv4Addr::new(
        127,
        octet(number / OCTET / OCTET),
        octet(number / OCTET),
        octet(number),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn free_addresses_are_distinct_and_loopback() {
        let addresses: BTreeSet<Ipv4Addr> = (0..300).map(|_| free().unwrap()).collect();
        assert_eq!(addresses.len(), 300);
        assert!(addresses.iter().all(Ipv4Addr::is_loopback));
    }

    #[test]
    fn address_octets_avoid_special_values() {
        for number in (0..OCTET.pow(3)).step_by(77) {
            let octets = nth_address(number).octets();
            assert!(!octets.contains(&0) && !octets.contains(&255), "{octets:?}");
        }
    }
}
