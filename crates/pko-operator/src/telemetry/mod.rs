//! Logs on standard output, in the format of upstream's logging library: JSON for machines, or
//! columns for people. Traces over OTLP, if configured.

mod fields;
mod line;
mod traces;

use std::{io, panic::PanicHookInfo};

use anyhow::Context;
use tracing_subscriber::{
    EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use self::line::LogLayer;
pub(crate) use self::traces::{EndedRun, Traces, run_ended};
use crate::args::Arguments;

/// Starts logging, and tracing if configured. Traces are sent as long as the result is kept.
pub(crate) fn start(arguments: &Arguments) -> anyhow::Result<Option<Traces>> {
    let filter = arguments.log_filter();
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log-level: `{filter}` is not a filter"))?;
    let lines = LogLayer::new(
        arguments.log_encoding(),
        arguments.zap_time_encoding,
        io::stdout,
    );
    let traces = traces::start(&|name| std::env::var(name).ok())?;
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(Traces::layer))
        .init();
    std::panic::set_hook(Box::new(log_panic));
    Ok(traces)
}

/// Logs a panic with its location.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    tracing::error!(place, error = message, "Panic");
}
