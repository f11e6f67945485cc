//! Values that are hard to hand over, set through the agent and read back from a CLI that is not
//! scripted.

use pko_proto::{agent::ConfigItem, convert::literal_config, run::StackConfig};
use serde_json::{Value, json};

use crate::harness::{CliKind, TestWorkspace, configured, on_each_cli, wait_for_result};

on_each_cli!(engine and real: config_value_kinds_survive_round_trip config_path_changes_source_structure);

const PROGRAM: &str = "name: my.project\nruntime: yaml\n";

/// What a program gets: the object if there is one, else the text.
fn value(configuration: &Value, key: &str) -> Value {
    let entry = &configuration[key];
    assert!(!entry.is_null(), "{key} in {configuration}");
    match entry.get("objectValue") {
        Some(object) => object.clone(),
        None => entry["value"].clone(),
    }
}

async fn set(place: &TestWorkspace, items: Vec<ConfigItem>) {
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let config = StackConfig {
        items,
        environments: Vec::new(),
    };
    client.start_run(configured("one", config)).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    assert!(result.error.is_none(), "{:?}", result.error);
}

async fn config_value_kinds_survive_round_trip(cli: CliKind) {
    let long = "x".repeat(200 * 1024);
    let lines = "first\nsecond\n";
    let table = [
        ("plain", json!("text"), json!("text")),
        ("number", json!(42), json!("42")),
        (
            "large",
            json!(9_007_199_254_740_993_u64),
            json!("9007199254740992"),
        ),
        ("yes", json!(true), json!("true")),
        ("null", json!(null), json!("null")),
        ("looks.like.a.path", json!("literal"), json!("literal")),
        ("with=equals", json!("a=b=c"), json!("a=b=c")),
        ("quoted\"key", json!("x"), json!("x")),
        (
            "object",
            json!({"b": [1, {"c": "d"}], "a": null}),
            json!(""),
        ),
        ("long", json!(long), json!(long)),
        ("lines", json!(lines), json!(lines)),
        ("aws:region", json!("eu-central-1"), json!("eu-central-1")),
    ];
    for secret in [false, true] {
        let place = TestWorkspace::with(cli, PROGRAM);
        let item =
            |(key, value, _): &(&str, Value, Value)| literal_config(key, value, false, secret);
        set(&place, table.iter().map(item).collect()).await;
        let configuration = place.configuration("dev");
        for (key, given, text) in &table {
            let full = match key.split_once(':') {
                Some(_) => (*key).to_owned(),
                None => format!("my.project:{key}"),
            };
            let entry = &configuration[&full];
            assert_eq!(entry["secret"], secret, "{key}");
            if given.is_object() {
                let text = entry["value"].as_str().unwrap();
                assert_eq!(
                    serde_json::from_str::<Value>(text).unwrap(),
                    *given,
                    "{key}"
                );
            } else {
                let shown = value(&configuration, &full);
                let shown = shown
                    .as_str()
                    .map_or_else(|| shown.to_string(), str::to_owned);
                assert_eq!(json!(shown), *text, "{key}");
            }
        }
    }
}

async fn config_path_changes_source_structure(cli: CliKind) {
    let place = TestWorkspace::with(cli, "name: demo\nruntime: yaml\n");
    let source =
        "config:\n  demo:outer:\n    kept: yes\n    more: {inner: old}\n  demo:list: [1, 2]\n";
    std::fs::write(place.workspace().join("Pulumi.dev.yaml"), source).unwrap();
    let path = |key: &str, value: Value, secret: bool| literal_config(key, &value, true, secret);
    set(
        &place,
        vec![
            path("outer.more.inner", json!("new"), false),
            path("outer.hidden", json!("canary-value"), true),
            path("list[2]", json!("3"), false),
        ],
    )
    .await;
    let configuration = place.configuration("dev");
    let outer = value(&configuration, "demo:outer");
    assert_eq!(outer["kept"], json!("yes"));
    assert_eq!(outer["more"]["inner"], json!("new"));
    assert_eq!(outer["hidden"], json!("canary-value"));
    assert_eq!(value(&configuration, "demo:list"), json!([1, 2, 3]));
    let file = std::fs::read_to_string(place.workspace().join("Pulumi.dev.yaml")).unwrap();
    assert!(!file.contains("canary-value"), "{file}");
}
