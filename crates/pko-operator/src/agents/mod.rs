//! The agents of workspaces.
//!
//! ```text
//! client         calls of an agent: start, cancel, list and watch runs
//! pool           one connection for each workspace
//! circuit        fails fast while an agent does not respond
//! tokens         what the manager presents to an agent
//! upstream_runs  runs of upstream's agents, which last as long as the call that started them
//! ```

mod circuit;
mod client;
#[cfg(test)]
mod lying_agents;
mod pool;
#[cfg(test)]
mod test_agent;
mod tokens;
mod upstream_runs;

pub(crate) use circuit::RetryPermit;
pub(crate) use client::{
    AgentReply, ConnectError, Connection, ReceiveBudget, acknowledge, agent_error, cancel,
    config_item, connect, is_transient, list_active_runs, start, start_request, status_text,
    wait_for_end, with_deadline,
};
pub(crate) use pool::AgentPool;
pub(crate) use tokens::{
    AgentTokens, Credentials, ManagerTokens, ServiceAccountIssuer, ServiceAccountTokens,
};
pub(crate) use upstream_runs::UpstreamRuns;
