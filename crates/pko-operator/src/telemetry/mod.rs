//! Logs on standard output, in the format of upstream's logging library: JSON for machines, or
//! columns for people. Traces over OTLP, if configured.

mod traces;

use std::{io, panic::PanicHookInfo};

use anyhow::Context;
use pko_telemetry::{LogFormat, LogLayer};
use tracing_subscriber::{
    EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

pub(crate) use self::traces::{EndedRun, Traces, run_ended};
use crate::args::Arguments;

/// Starts logging, and tracing if configured. Traces are sent as long as the result is kept.
pub(crate) fn start(arguments: &Arguments) -> anyhow::Result<Option<Traces>> {
    let filter = arguments.log_filter();
    let filter = EnvFilter::try_new(without_bodies(filter))
        .with_context(|| format!("--log-level: `{filter}` is not a filter"))?;
    let format = LogFormat {
        encoding: arguments.log_encoding(),
        time: arguments.zap_time_encoding,
        logger: logger_name,
    };
    let lines = LogLayer::new(format, io::stdout);
    let traces = traces::start(&|name| std::env::var(name).ok())?;
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(Traces::layer))
        .init();
    std::panic::set_hook(Box::new(log_panic));
    Ok(traces)
}

/// A filter that keeps the bodies of responses out of the log, unless it names their logger: below
/// the level of errors, the client logs them with whatever secrets they hold.
fn without_bodies(filter: &str) -> String {
    if filter.contains("kube_client") || filter.trim() == "off" {
        return filter.to_owned();
    }
    format!("{filter},kube_client=error")
}

/// The module without the crate, or the crate of a library.
fn logger_name(target: &str) -> String {
    let target = target.strip_prefix("manager::").unwrap_or(target);
    match target {
        "start" | "manager" => "setup".to_owned(),
        target => target.replace("::", "."),
    }
}

/// Logs a panic with its location.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    tracing::error!(place, error = message, "Panic");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_filter_keeps_bodies_out_unless_it_names_them() {
        for (filter, expected) in [
            ("info", "info,kube_client=error"),
            ("debug,kube=info", "debug,kube=info,kube_client=error"),
            ("info,kube_client=debug", "info,kube_client=debug"),
            ("off", "off"),
        ] {
            assert_eq!(without_bodies(filter), expected);
            assert!(EnvFilter::try_new(expected).is_ok());
        }
    }

    #[test]
    fn logger_name_is_upstreams_or_the_module() {
        for (target, expected) in [
            ("manager", "setup"),
            ("manager::start", "setup"),
            ("manager::controllers::stack", "controllers.stack"),
            ("kube", "kube"),
            ("kube_runtime::watcher", "kube_runtime.watcher"),
        ] {
            assert_eq!(logger_name(target), expected, "{target}");
        }
    }
}
