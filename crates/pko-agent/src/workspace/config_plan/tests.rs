//! What is asked for, and which calls come of it.

use pko_proto::convert::{config_from, literal_config};

use super::*;

fn surrounded<T>(test: impl FnOnce(&ConfigSources<'_>) -> T) -> T {
    test(&ConfigSources {
        variable: &|name| (name == "FOO").then(|| "from-env".to_owned()),
        file: &|path| (path == Path::new("/foo")).then(|| r#"{"b": [1, 2]}"#.to_owned()),
    })
}

fn calls(items: &[ConfigItem]) -> Vec<ConfigCommand> {
    calls_of("demo", items)
}

fn calls_of(project: &str, items: &[ConfigItem]) -> Vec<ConfigCommand> {
    plan(&surrounded(|sources| resolve(items, project, sources)).unwrap())
}

fn error(item: ConfigItem) -> String {
    let error = surrounded(|sources| resolve(&[item], "demo", sources));
    error.unwrap_err().to_string()
}

fn plain(key: &str, value: impl Into<Value>) -> ConfigItem {
    literal_config(key, &value.into(), false, false)
}

fn paths(pairs: &[&str]) -> ConfigCommand {
    ConfigCommand::Paths(pairs.iter().map(|pair| (*pair).to_owned()).collect())
}

#[test]
fn plain_config_is_one_command() {
    let items = [
        plain("foo", json!("bar")),
        plain("aws:region", json!("eu-central-1")),
        plain("demo:config:old", json!("x")),
        plain("a.b", json!("dotted")),
        plain("quo\"ted", json!("q")),
        plain("[\"already.escaped\"]", json!("e")),
        literal_config("list[0].name", &json!("p"), true, false),
        config_from("env", F::Env("FOO".into()), false, false, false),
        config_from("file", F::Path("/foo".into()), false, false, false),
    ];
    let expected = paths(&[
        r#"demo:["foo"]=bar"#,
        r#"aws:["region"]=eu-central-1"#,
        r#"demo:["old"]=x"#,
        r#"demo:["a.b"]=dotted"#,
        r#"demo:["quo\"ted"]=q"#,
        r#"demo:["already.escaped"]=e"#,
        "demo:list[0].name=p",
        r#"demo:["env"]=from-env"#,
        r#"demo:["file"]={"b": [1, 2]}"#,
    ]);
    assert_eq!(calls(&items), [expected]);
}

#[test]
fn structured_config_is_a_document() {
    let items = [
        plain("count", json!(42)),
        plain("flag", json!(true)),
        plain("text", json!("t")),
        plain("nothing", Value::Null),
        plain("tree", json!({"z": 1, "a": [1.5]})),
        config_from("file", F::Path("/foo".into()), true, false, false),
        literal_config("deep.key", &json!("kept as a path"), true, false),
    ];
    let document = json!({
        "demo:count": {"value": "42", "objectValue": 42, "secret": false},
        "demo:flag": {"value": "true", "objectValue": true, "secret": false},
        "demo:text": {"value": "t", "secret": false},
        "demo:nothing": {"value": "null", "secret": false},
        "demo:tree": {"value": r#"{"a":[1.5],"z":1}"#, "objectValue": {"z": 1, "a": [1.5]}, "secret": false},
        "demo:file": {"value": r#"{"b": [1, 2]}"#, "objectValue": {"b": [1, 2]}, "secret": false},
    });
    let calls = calls(&items);
    let [first, ConfigCommand::Document(text)] = &calls[..] else {
        panic!("{calls:?}")
    };
    assert_eq!(first, &paths(&["demo:deep.key=kept as a path"]));
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), document);
}

#[test]
fn secret_config_is_passed_by_stdin() {
    let items = [
        literal_config("token", &json!("canary"), false, true),
        plain("foo", json!("bar")),
        literal_config("tree", &json!({"a": 1}), false, true),
        literal_config("deep.token", &json!("canary"), true, true),
    ];
    let one = |key: &str, path, value: &str| ConfigCommand::One {
        key: key.to_owned(),
        path,
        secret: true,
        value: Redacted::new(value.to_owned()),
    };
    let calls = calls(&items);
    let expected = [
        paths(&[r#"demo:["foo"]=bar"#]),
        one("demo:token", false, "canary\n"),
        one("demo:tree", false, "{\"a\":1}\n"),
        one("demo:deep.token", true, "canary\n"),
    ];
    assert_eq!(calls, expected);
    assert!(!format!("{calls:?}").contains("canary"));
}

#[test]
fn unpairable_config_is_passed_otherwise() {
    let is_document = |calls: &[ConfigCommand]| matches!(calls, [ConfigCommand::Document(_)]);
    assert!(is_document(&calls(&[plain("a=b", json!("x"))])));
    assert!(is_document(&calls_of(
        "my.project",
        &[plain("a", json!("x"))]
    )));
    let long = plain("long", json!("x".repeat(MAX_ARGUMENT_BYTES + 1)));
    assert!(matches!(
        &calls(&[long])[..],
        [ConfigCommand::One { secret: false, .. }]
    ));
    assert_eq!(calls(&[]), []);
}

#[test]
fn config_errors_have_upstream_texts() {
    let from = |from, json| config_from("K", from, json, false, false);
    let table = [
        (
            from(F::Env("X".into()), false),
            "config items: unmarshalling \"K\" config: rpc error: code = InvalidArgument desc = missing value for environment variable: X",
        ),
        (
            from(F::Env("X".into()), true),
            "config items: rpc error: code = InvalidArgument desc = missing value for environment variable: X",
        ),
        (
            from(F::Path("/x".into()), false),
            "config items: unmarshalling \"K\" config: rpc error: code = InvalidArgument desc = unreadable path: /x",
        ),
        (
            ConfigItem {
                key: "K".into(),
                ..Default::default()
            },
            "config items: unmarshalling \"K\" config: rpc error: code = InvalidArgument desc = invalid config value",
        ),
        (
            literal_config("K", &json!([1]), true, false),
            "config items: rpc error: code = InvalidArgument desc = config item \"K\": path=true is incompatible with JSON values",
        ),
        (
            plain("a:b:c", json!("x")),
            "config items: parsing \"a:b:c\" key: could not parse a:b:c as a configuration key",
        ),
        (
            from(F::Env("FOO".into()), true),
            "config items: parsing \"K\" as JSON: line 1 column 2",
        ),
    ];
    for (item, expected) in table {
        assert_eq!(error(item), expected);
    }
}

proptest::proptest! {
    #[test]
    fn config_plan_accepts_any_key(name in "[a-c.:=\\[\\]\"\\\\é ]{0,12}", path: bool) {
        let item = literal_config(&name, &json!("x"), path, false);
        let resolved = surrounded(|sources| resolve(&[item], "demo", sources));
        if let Ok(resolved) = resolved {
            plan(&resolved);
        }
    }
}
