//! Traces over OTLP, where `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` says where to: a span for
//! each look at an object, and one for each run. Elsewhere there are none, and they cost nothing.
//!
//! The other `OTEL_*` variables are the SDK's own.

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

/// Sends what is left when it is dropped.
pub(crate) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        // Who gets no traces any more is not told by a manager that ends.
        let _ = self.0.shutdown();
    }
}

/// Begins to trace, if the variables say so.
pub(super) fn start(variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<Traces>> {
    if !are_wanted(variable) {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .build()
        .with_context(|| format!("traces can't be sent: check {}", ENDPOINTS.join(", ")))?;
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

fn are_wanted(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && ENDPOINTS.into_iter().any(set)
}

impl Traces {
    /// What makes our spans into spans of a trace.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        // Only ours: the client that sends traces has spans, too.
        let ours = Targets::new().with_target("manager", Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    }
}

/// A run that has ended.
pub(crate) struct EndedRun<'run> {
    pub(crate) namespace: &'run str,
    pub(crate) name: &'run str,
    pub(crate) operation: &'run str,
    pub(crate) failed: bool,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// Tells of a run with its own times: it may have begun before this manager did.
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

    fn wanted(variables: &[(&str, &str)]) -> bool {
        are_wanted(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn there_are_traces_only_where_somebody_takes_them() {
        assert!(!wanted(&[]));
        assert!(!wanted(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]));
        assert!(!wanted(&[("OTEL_SERVICE_NAME", "x")]));
        for endpoint in ENDPOINTS {
            let set = (endpoint, "http://collector:4317");
            assert!(wanted(&[set]));
            assert!(!wanted(&[set, ("OTEL_SDK_DISABLED", "true")]));
        }
    }
}
