//! `SetAllConfig`, read back with the CLI itself.

use pko_proto::{
    agent::{ConfigItem, SetAllConfigRequest, config_value_from::F},
    convert::{config_from, literal_config},
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::harness::{Agent, CliKind, TestWorkspace, literal, on_each_cli, select};

on_each_cli!(
    set_all_config_without_stack_fails
    string_value_is_set
    string_from_environment_is_set
    string_from_file_is_set
    path_key_sets_structure
    literal_key_is_not_a_path
    path_keys_override_source_file
    secret_value_is_encrypted
    structured_values_are_set
    strings_beside_structures_stay_strings
    structured_secret_is_set
    json_value_from_reference_is_set
    namespaced_key_is_kept
    null_value_is_set
    ambiguous_keys_and_values_are_set
    removed_value_leaves_config_file
);

const PROGRAM: &str = "name: simple\nruntime: yaml\n";

/// An agent with a selected stack.
async fn begin(cli: CliKind) -> (TestWorkspace, Agent) {
    let place = TestWorkspace::with_stack(cli, PROGRAM).variable("FOO", "bar");
    let agent = place.serve(&[]).await;
    select(&mut agent.automation().await, "dev").await;
    (place, agent)
}

async fn set(agent: &Agent, config: Vec<ConfigItem>) -> Result<(), Status> {
    let request = SetAllConfigRequest { config };
    agent.automation().await.set_all_config(request).await?;
    Ok(())
}

/// Sets items, and reads everything back.
async fn read_back(cli: CliKind, config: Vec<ConfigItem>) -> Value {
    let (place, agent) = begin(cli).await;
    set(&agent, config).await.unwrap();
    place.configuration("dev")
}

fn path(key: &str, value: &str) -> ConfigItem {
    literal_config(key, &json!(value), true, false)
}

/// As `config --json` shows a text.
fn text(value: &str) -> Value {
    json!({"value": value, "secret": false})
}

/// As `config --json` shows a structure, but for the text of it, which is the same in other words.
fn structure(value: &Value) -> Value {
    json!({"value": value.to_string(), "objectValue": value, "secret": false})
}

async fn set_all_config_without_stack_fails(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let status = set(&agent, vec![literal("foo", "bar", false)])
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "no stack is selected")
    );
}

async fn string_value_is_set(cli: CliKind) {
    let config = read_back(cli, vec![literal("foo", "bar", false)]).await;
    assert_eq!(config, json!({"simple:foo": text("bar")}));
}

async fn string_from_environment_is_set(cli: CliKind) {
    let item = config_from("foo", F::Env("FOO".to_owned()), false, false, false);
    let config = read_back(cli, vec![item]).await;
    assert_eq!(config, json!({"simple:foo": text("bar")}));
}

async fn string_from_file_is_set(cli: CliKind) {
    let (place, agent) = begin(cli).await;
    let file = place.path("value");
    std::fs::write(&file, "bar").unwrap();
    let from = F::Path(file.display().to_string());
    let item = config_from("foo", from, false, false, false);
    set(&agent, vec![item]).await.unwrap();
    assert_eq!(
        place.configuration("dev"),
        json!({"simple:foo": text("bar")})
    );
}

async fn path_key_sets_structure(cli: CliKind) {
    let config = read_back(cli, vec![path("a.b", "bar")]).await;
    assert_eq!(config, json!({"simple:a": structure(&json!({"b": "bar"}))}));
}

async fn literal_key_is_not_a_path(cli: CliKind) {
    let items = vec![
        literal("a.b", "dotted", false),
        literal("\"quoted[key]\"", "quoted", false),
        literal("[\"already.escaped\"]", "escaped", false),
    ];
    let expected = json!({
        "simple:a.b": text("dotted"),
        "simple:\"quoted[key]\"": text("quoted"),
        "simple:already.escaped": text("escaped"),
    });
    assert_eq!(read_back(cli, items).await, expected);
}

async fn path_keys_override_source_file(cli: CliKind) {
    let (place, agent) = begin(cli).await;
    let file = place.workspace().join("Pulumi.dev.yaml");
    let salt = std::fs::read_to_string(&file).unwrap();
    let source = "config:\n  simple:myList: [one, two, three]\n  simple:outer: {inner: my_value, other: something_else}\n";
    std::fs::write(&file, format!("{salt}{source}")).unwrap();
    let items = vec![
        path("myList[0]", "1"),
        path("myList[1]", "2"),
        path("myList[3]", "four"),
        path("outer.more.inner", "wrapped"),
    ];
    set(&agent, items).await.unwrap();
    let outer = json!({
        "inner": "my_value", "more": {"inner": "wrapped"}, "other": "something_else"
    });
    let expected = json!({
        "simple:myList": structure(&json!([1, 2, "three", "four"])),
        "simple:outer": structure(&outer),
    });
    assert_eq!(place.configuration("dev"), expected);
}

async fn secret_value_is_encrypted(cli: CliKind) {
    let config = read_back(cli, vec![literal("foo", "hidden-bar", true)]).await;
    let expected = json!({"simple:foo": {"value": "hidden-bar", "secret": true}});
    assert_eq!(config, expected);
}

async fn structured_values_are_set(cli: CliKind) {
    let object = json!({"b": [1, {"c": null}], "a": "x"});
    let items = vec![
        literal("flag", true, false),
        literal("number", 42, false),
        literal("object", object.clone(), false),
        literal("array", json!([1, "two"]), false),
    ];
    let expected = json!({
        "simple:flag": text("true"),
        "simple:number": text("42"),
        "simple:object": structure(&object),
        "simple:array": structure(&json!([1, "two"])),
    });
    assert_eq!(read_back(cli, items).await, expected);
}

/// Upstream ignores `path` of a text once another item is a structure; we do not.
async fn strings_beside_structures_stay_strings(cli: CliKind) {
    let items = vec![
        literal("number", 42, false),
        literal("digits", "007", false),
        path("outer.inner", "deep"),
    ];
    let expected = json!({
        "simple:number": text("42"),
        "simple:digits": text("007"),
        "simple:outer": structure(&json!({"inner": "deep"})),
    });
    assert_eq!(read_back(cli, items).await, expected);
}

/// The CLI refuses such a document, and so upstream fails; we set the same JSON as a secret text,
/// which programs read as a structure.
async fn structured_secret_is_set(cli: CliKind) {
    let config = read_back(cli, vec![literal("obj", json!({"a": [1, 2]}), true)]).await;
    let entry = &config["simple:obj"];
    assert_eq!(entry["secret"], true);
    let value: Value = serde_json::from_str(entry["value"].as_str().unwrap()).unwrap();
    assert_eq!(value, json!({"a": [1, 2]}));
}

async fn json_value_from_reference_is_set(cli: CliKind) {
    let (place, agent) = begin(cli).await;
    let file = place.path("value.json");
    std::fs::write(&file, r#"{"a": [1, 2]}"#).unwrap();
    let from = || F::Path(file.display().to_string());
    let items = vec![
        config_from("parsed", from(), true, false, false),
        config_from("plain", from(), false, false, false),
    ];
    set(&agent, items).await.unwrap();
    let config = place.configuration("dev");
    assert_eq!(config["simple:parsed"]["objectValue"], json!({"a": [1, 2]}));
    assert_eq!(config["simple:plain"], text(r#"{"a": [1, 2]}"#));
}

async fn namespaced_key_is_kept(cli: CliKind) {
    let config = read_back(cli, vec![literal("aws:region", "us-west-2", false)]).await;
    assert_eq!(config, json!({"aws:region": text("us-west-2")}));
}

/// Upstream stores the text `<nil>` if nothing else is a structure, and `null` otherwise; we always
/// store the latter.
async fn null_value_is_set(cli: CliKind) {
    let config = read_back(cli, vec![literal("nothing", Value::Null, false)]).await;
    assert_eq!(config, json!({"simple:nothing": text("null")}));
}

/// With upstream, a key with `=` fails, and a namespace with a dot is taken for a path.
async fn ambiguous_keys_and_values_are_set(cli: CliKind) {
    let items = vec![
        literal("a=b", "equal", false),
        literal("dotted.name:key", "dot", false),
    ];
    let expected = json!({"simple:a=b": text("equal"), "dotted.name:key": text("dot")});
    assert_eq!(read_back(cli, items).await, expected);
}

/// Upstream only ever adds; its pods start with a fresh checkout instead.
async fn removed_value_leaves_config_file(cli: CliKind) {
    let (place, agent) = begin(cli).await;
    let both = vec![literal("one", "1", false), literal("two", "2", false)];
    set(&agent, both).await.unwrap();
    set(&agent, vec![literal("two", "2", false)]).await.unwrap();
    assert_eq!(place.configuration("dev"), json!({"simple:two": text("2")}));
}

#[tokio::test]
async fn invalid_config_is_rejected_without_calls() {
    let (place, agent) = begin(CliKind::StandIn).await;
    place.write("not.json", "{");
    let before = place.calls().len();
    let variable = |json| config_from("k", F::Env("NOT_THERE".to_owned()), json, false, false);
    let file = |json| config_from("k", F::Path("not.json".to_owned()), json, false, false);
    let unreadable = config_from("k", F::Path("not/there".to_owned()), false, false, false);
    let nothing = ConfigItem {
        key: "k".to_owned(),
        ..Default::default()
    };
    let structured_path = literal_config("k", &json!({"a": 1}), true, false);
    let invalid = "rpc error: code = InvalidArgument desc = ";
    let in_path_mode = format!("config items: unmarshalling \"k\" config: {invalid}");
    let in_json_mode = format!("config items: {invalid}");
    let missing = "missing value for environment variable: NOT_THERE";
    let table = [
        (
            variable(false),
            Code::InvalidArgument,
            format!("{in_path_mode}{missing}"),
        ),
        (
            variable(true),
            Code::InvalidArgument,
            format!("{in_json_mode}{missing}"),
        ),
        (
            unreadable,
            Code::InvalidArgument,
            format!("{in_path_mode}unreadable path: not/there"),
        ),
        (
            nothing,
            Code::InvalidArgument,
            format!("{in_path_mode}invalid config value"),
        ),
        (
            structured_path,
            Code::InvalidArgument,
            format!("{in_json_mode}config item \"k\": path=true is incompatible with JSON values"),
        ),
        (
            file(true),
            Code::Unknown,
            "config items: parsing \"k\" as JSON: ".to_owned(),
        ),
        (
            literal("a:b:c:d", "x", false),
            Code::Unknown,
            "config items: parsing \"a:b:c:d\" key: could not parse".to_owned(),
        ),
    ];
    for (item, code, expected) in table {
        let status = set(&agent, vec![item]).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(
            status.message().starts_with(&expected),
            "{}",
            status.message()
        );
    }
    assert_eq!(place.calls().len(), before);
}
