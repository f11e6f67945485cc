//! The agents of workspaces: connections to them, tokens for them, and calls of them.

mod circuit;
mod client;
mod pool;
#[cfg(test)]
mod test_agent;
mod tokens;
mod upstream_runs;

pub(crate) use client::{
    Begun, ConnectError, Connection, acknowledge, cancel, config_item, connect, in_time,
    is_transient, refusal, start, start_request, text, under_way, until_end,
};
pub(crate) use pool::Agents;
pub(crate) use tokens::{AccountTokens, Credentials, ManagerTokens, ServiceAccountIssuer};
pub(crate) use upstream_runs::Streams;
