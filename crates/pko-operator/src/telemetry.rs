//! Logs: one JSON object a line, on standard output.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::args::Arguments;

/// Starts logging what the filter lets through.
pub(crate) fn start(arguments: &Arguments) -> anyhow::Result<()> {
    let filter = arguments.log_filter();
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log-level: `{filter}` is not a filter"))?;
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .init();
    Ok(())
}
