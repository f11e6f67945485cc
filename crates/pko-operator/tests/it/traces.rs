//! Traces as a collector gets them: a span for each look at an object, and one for each run.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use pko_testkit::{ProgramBuilder, StackBuilder, eventually};
use serde_json::json;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    events::Trail,
    harness::{System, free_address},
};

/// Keeps what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources.into_iter().flat_map(|spans| spans.scope_spans);
        let spans = scopes.flat_map(|spans| spans.spans);
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Waits for a span of this name with these attributes.
    async fn gets(&self, name: &str, attributes: &[(&str, &str)]) -> Span {
        eventually("the span to come", async || {
            let spans = self.0.lock().unwrap();
            let found = spans.iter().find(|span| {
                let has = |(key, value): &(&str, &str)| text(&span.attributes, key) == Some(value);
                span.name == name && attributes.iter().all(has)
            });
            found
                .cloned()
                .ok_or_else(|| format!("{} spans", spans.len()))
        })
        .await
        .unwrap()
    }
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn traces_have_reconciles_and_runs() {
    let (collector, address) = (Collector::default(), free_address());
    let server = Server::builder()
        .add_service(TraceServiceServer::new(collector.clone()))
        .serve(address.parse().unwrap());
    tokio::spawn(server);
    let endpoint = format!("http://{address}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    let system = System::start(&variables).await;
    let namespace = system.namespace().await;
    let program = ProgramBuilder::new("demo").output("a", "b").build();
    namespace.create_object(program).await.unwrap();
    let passphrase = json!({ "type": "Literal", "literal": { "value": "x" } });
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .set(
            "/spec/envRefs",
            json!({ "PULUMI_CONFIG_PASSPHRASE": passphrase }),
        )
        .build();
    let trail = Trail::of(&namespace, "demo");
    namespace.create_object(stack).await.unwrap();
    trail.until("Ready").await;

    let of = |kind| [("kind", kind), ("namespace", namespace.name())];
    for kind in ["Stack", "Workspace", "Update", "Program"] {
        let span = collector.gets("reconcile", &of(kind)).await;
        assert!(
            text(&span.attributes, "rule").is_some() || kind != "Stack",
            "{span:?}"
        );
    }
    let attributes = [("type", "up"), ("namespace", namespace.name())];
    let run = collector.gets("run", &attributes).await;
    assert!(
        run.start_time_unix_nano <= run.end_time_unix_nano,
        "{run:?}"
    );
}
