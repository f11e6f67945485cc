//! Traces over OTLP, if `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is
//! set: a span for each reconcile, and one for each run. Otherwise tracing costs nothing.
//!
//! The SDK reads the other `OTEL_*` variables.

use std::time::SystemTime;

use anyhow::Context as _;
use jiff::Timestamp;
use opentelemetry::{
    KeyValue, global,
    trace::{Span as _, Status, Tracer as _, TracerProvider as _},
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

const SERVICE: &str = "pulumi-kubernetes-operator";
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Sends the remaining spans on drop.
pub(crate) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        // A failure is not reported: the manager ends.
        let _ = self.0.shutdown();
    }
}

/// Starts tracing, if the variables are set.
pub(super) fn start(variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<Traces>> {
    if !is_configured(variable) {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .build()
        .with_context(|| {
            format!(
                "failed to set up the trace exporter: check {}",
                ENDPOINTS.join(", ")
            )
        })?;
    let resource = Resource::builder();
    let resource = match variable("OTEL_SERVICE_NAME") {
        Some(_) => resource,
        None => resource.with_service_name(SERVICE),
    };
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.with_attribute(version).build())
        .build();
    global::set_tracer_provider(provider.clone());
    Ok(Some(Traces(provider)))
}

fn is_configured(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && ENDPOINTS.into_iter().any(set)
}

impl Traces {
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        // Only ours: the exporter has spans, too.
        let ours = Targets::new().with_target("manager", Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    }
}

pub(crate) struct EndedRun<'run> {
    pub(crate) namespace: &'run str,
    pub(crate) name: &'run str,
    pub(crate) operation: &'run str,
    pub(crate) failed: bool,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// Sends a span with the times of the run, which may have started before this manager.
pub(crate) fn run_ended(run: &EndedRun<'_>) {
    let tracer = global::tracer(SERVICE);
    let attribute = |name, value: &str| KeyValue::new(name, value.to_owned());
    let mut span = tracer
        .span_builder("run")
        .with_start_time(SystemTime::from(run.start))
        .with_attributes([
            attribute("namespace", run.namespace),
            attribute("name", run.name),
            attribute("type", run.operation),
        ])
        .start(&tracer);
    span.set_status(if run.failed {
        Status::error("the run failed")
    } else {
        Status::Ok
    });
    span.end_with_timestamp(run.end.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured_with(variables: &[(&str, &str)]) -> bool {
        is_configured(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_need_an_endpoint() {
        assert!(!configured_with(&[]));
        assert!(!configured_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]));
        assert!(!configured_with(&[("OTEL_SERVICE_NAME", "x")]));
        for endpoint in ENDPOINTS {
            let set = (endpoint, "http://collector:4317");
            assert!(configured_with(&[set]));
            assert!(!configured_with(&[set, ("OTEL_SDK_DISABLED", "true")]));
        }
    }
}
