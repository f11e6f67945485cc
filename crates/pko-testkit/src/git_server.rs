//! Git servers of the real kind, for tests of whoever talks to them.

pub mod sshd;
