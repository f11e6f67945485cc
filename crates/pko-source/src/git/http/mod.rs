//! Git over HTTP. Every request has a deadline, and credentials go to one server only.

mod auth;
mod client;
mod connection;
mod redirect;
mod ssrf_guard;

pub(crate) use auth::HttpAuth;
pub use client::{HttpClient, HttpSettings};
pub(crate) use connection::HttpConnection;
