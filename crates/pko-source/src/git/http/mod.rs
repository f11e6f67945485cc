//! Git over HTTP: requests that end in time, credentials that go nowhere else.

mod auth;
mod client;
mod connection;
mod guard;
mod redirect;

pub(crate) use auth::HttpAuth;
pub use client::{HttpClient, HttpSettings};
pub(crate) use connection::HttpConnection;
