//! Logs on standard output, in the form of upstream's logging library: JSON for machines, or columns for people. Traces
//! where somebody takes them.

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

/// Starts logging what the filter lets through, and tracing if there are to be traces: as long as what is given back is
/// kept.
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
    std::panic::set_hook(Box::new(panicked));
    Ok(traces)
}

/// A panic is a line of the log like any other, with its place in the code.
fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let words = panic.payload_as_str().unwrap_or("without a word");
    tracing::error!(place, error = words, "Panic");
}
