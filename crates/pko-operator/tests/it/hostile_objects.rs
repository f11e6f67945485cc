//! Objects that one tenant made to be expensive: they are rejected with a reason, and neither the
//! probes nor another tenant wait for them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use pko_api::{Program, Stack};
use pko_testkit::{Script, StackBuilder, StandIn, TestNamespace, eventually};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{System, Watched},
    scripted_stacks::{create_stack, namespace, ready},
};

const ENTRIES: usize = 20_000;

fn program(name: &str, body: &Value) -> Value {
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Program",
        "metadata": { "name": name }, "program": body,
    })
}

/// Each variable closes a circle with the first one.
fn circles() -> Value {
    let needs = |number: usize| format!("${{v{:05}}}${{v00000}}", (number + 1) % ENTRIES);
    let variables = (0..ENTRIES).map(|number| (format!("v{number:05}"), json!(needs(number))));
    program(
        "circles",
        &json!({ "variables": variables.collect::<Map<_, _>>() }),
    )
}

fn long_names() -> Value {
    let (one, other) = ("n".repeat(400_000), "n".repeat(399_999) + "m");
    let outputs = json!({ "out": format!("${{{other}}}") });
    program(
        "names",
        &json!({ "variables": { one: 1 }, "outputs": outputs }),
    )
}

fn many_variables() -> Value {
    let variable = |number: usize| json!({ "name": format!("V{number}"), "value": "x" });
    let variables: Vec<Value> = (0..ENTRIES).map(variable).collect();
    StackBuilder::new("variables")
        .stack("dev")
        .program("names")
        .set(
            "/spec/workspaceTemplate",
            json!({ "spec": { "env": variables } }),
        )
        .build()
}

/// The response to a probe.
async fn healthz(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

/// Probes until stopped. Returns how many probes were answered.
async fn probe(address: String, stop: Arc<AtomicBool>) -> usize {
    let mut answered = 0;
    while !stop.load(Ordering::Acquire) {
        let response = healthz(&address).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        answered += 1;
    }
    answered
}

async fn program_message(namespace: &TestNamespace, name: &str) -> String {
    let found = eventually(format!("the Program {name} to be checked"), async || {
        let program = namespace.api::<Program>().get(name).await.unwrap();
        let status = program.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let ready = conditions.find(|found| found.type_ == "Ready");
        ready.map(|ready| ready.message).ok_or("not yet")
    });
    found.await.unwrap()
}

async fn stall_message(namespace: &TestNamespace, name: &str) -> String {
    let found = eventually(format!("the Stack {name} to be Stalled"), async || {
        let stack = namespace.api::<Stack>().get(name).await.unwrap();
        let status = stack.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let stalled = conditions.find(|found| found.type_ == "Stalled");
        stalled.map(|stalled| stalled.message).ok_or("not yet")
    });
    found.await.unwrap()
}

#[tokio::test]
async fn hostile_objects_delay_neither_probes_nor_another_tenant() {
    let stand_in = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", stand_in.as_str())];
    let system = System::start_watching(Watched::Namespaces(2), &environment).await;
    let stand_in = system.stand_in(&Script::new());
    let (hostile, victim) = (namespace(&system).await, namespace(&system).await);
    System::works(&victim, "first").await;
    let stop = Arc::new(AtomicBool::new(false));
    let address = system.health_address().to_owned();
    let probes = tokio::spawn(probe(address, Arc::clone(&stop)));
    for object in [circles(), long_names(), many_variables()] {
        hostile.create_object(object).await.unwrap();
    }
    create_stack(&victim, &system, &stand_in, "demo").await;
    ready(&victim, "demo").await;
    let circles = program_message(&hostile, "circles").await;
    assert!(
        circles.starts_with("program.variables.v00000: refers to itself: v00000 -> v00001 -> "),
        "{circles}"
    );
    let names = program_message(&hostile, "names").await;
    assert!(names.contains("is not declared in the program"), "{names}");
    let message =
        "spec.workspaceTemplate.spec.env has 20000 entries, and at most 1000 are supported";
    let stalled = stall_message(&hostile, "variables").await;
    assert!(stalled.starts_with(message), "{stalled}");
    for told in [circles, names, stalled] {
        assert!(told.len() < 2_000, "{}", told.len());
    }
    stop.store(true, Ordering::Release);
    assert!(probes.await.unwrap() > 0);
}
