//! One file for each command.

pub(crate) mod bootstrap;
pub(crate) mod init;
pub(crate) mod serve;
pub(crate) mod version;
