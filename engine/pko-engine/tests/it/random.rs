//! The package `random` from the program to the state and back.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stage::Stage;

/// Each type once, with all ways to write a token.
const PROGRAM: &str = r#"
name: demo
runtime: yaml
config:
  turn: {type: string, default: first}
resources:
  bytes:
    type: random:RandomBytes
    properties: {length: 16, keepers: {turn: "${turn}"}}
  id:
    type: random:index:RandomId
    properties: {byteLength: 8, prefix: p-, keepers: {turn: "${turn}"}}
  integer:
    type: random:index/randomInteger:RandomInteger
    properties: {min: 1, max: 100, seed: "12345", keepers: {turn: "${turn}"}}
  password:
    type: random:RandomPassword
    properties: {length: 20, minNumeric: 3, keepers: {turn: "${turn}"}}
  pet:
    type: random:RandomPet
    properties: {prefix: my, keepers: {turn: "${turn}"}}
  shuffle:
    type: random:RandomShuffle
    properties: {inputs: [a, b, c, d, e], seed: "12345", keepers: {turn: "${turn}"}}
  string:
    type: random:RandomString
    properties: {length: 12, special: false, keepers: {turn: "${turn}"}}
  uuid:
    type: random:RandomUuid
    properties: {keepers: {turn: "${turn}"}}
  uuid4:
    type: random:RandomUuid4
    properties: {keepers: {turn: "${turn}"}}
  uuid7:
    type: random:RandomUuid7
    properties: {keepers: {turn: "${turn}"}}
  after:
    type: random:RandomPet
    properties: {keepers: {string: "${string.result}"}}
outputs:
  integer: ${integer.result}
  shuffle: ${shuffle.results}
  password: ${password.result}
  hex: ${bytes.hex}
  pet: ${pet.id}
  greeting: hello ${string.result}
"#;

/// What the state has of the package, by name.
fn resources(stage: &Stage) -> BTreeMap<String, Value> {
    let exported = stage.json(&["stack", "export", "--show-secrets"]);
    let resources = exported["deployment"]["resources"].as_array();
    let resources = resources.cloned().unwrap_or_default();
    resources
        .into_iter()
        .filter(|resource| resource["type"].as_str().unwrap().starts_with("random:"))
        .map(|resource| {
            let urn = resource["urn"].as_str().unwrap();
            (urn.rsplit("::").next().unwrap().to_owned(), resource)
        })
        .collect()
}

fn ids(stage: &Stage) -> BTreeMap<String, String> {
    let of = |resource: &Value| resource["id"].as_str().unwrap().to_owned();
    resources(stage)
        .iter()
        .map(|(name, resource)| (name.clone(), of(resource)))
        .collect()
}

#[test]
fn random_types_are_created_kept_replaced_and_deleted() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let preview = stage.ok(&["preview", "--stack", "dev"]).stdout;
    assert!(preview.contains("+ 12 to create"), "{preview}");

    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    let first = ids(&stage);
    assert_eq!(first.len(), 11);
    let outputs = stage.json(&["stack", "output", "--json"]);
    // as Pulumi's plugin has them for this seed
    assert_eq!(outputs["integer"], json!(44));
    assert_eq!(outputs["shuffle"], json!(["e", "c", "a", "b", "d"]));
    assert_eq!(outputs["pet"], json!(first["pet"]));
    assert_eq!(
        outputs["greeting"],
        json!(format!("hello {}", first["string"]))
    );
    for secret in ["password", "hex"] {
        assert_eq!(outputs[secret], json!("[secret]"), "{secret}");
    }

    stage.ok(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
    stage.ok(&["refresh", "--yes", "--skip-preview", "--expect-no-changes"]);
    assert_eq!(ids(&stage), first);

    stage.ok(&["config", "set", "turn", "second"]);
    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    let second = ids(&stage);
    for (name, id) in &second {
        // those that depend on a seed, and those whose id has no information
        let same = ["integer", "password", "shuffle"].contains(&name.as_str());
        assert_eq!(first[name] == *id, same, "{name}");
    }

    stage.ok(&["destroy", "--yes", "--skip-preview"]);
    assert!(resources(&stage).is_empty());
}

#[test]
fn random_state_has_plugin_format() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    let found = resources(&stage);
    for (name, token) in [
        ("bytes", "random:index/randomBytes:RandomBytes"),
        ("id", "random:index/randomId:RandomId"),
        ("integer", "random:index/randomInteger:RandomInteger"),
        ("password", "random:index/randomPassword:RandomPassword"),
        ("pet", "random:index/randomPet:RandomPet"),
        ("shuffle", "random:index/randomShuffle:RandomShuffle"),
        ("string", "random:index/randomString:RandomString"),
        ("uuid", "random:index/randomUuid:RandomUuid"),
        ("uuid4", "random:index/randomUuid4:RandomUuid4"),
        ("uuid7", "random:index/randomUuid7:RandomUuid7"),
    ] {
        assert_eq!(found[name]["type"], json!(token));
        assert_eq!(found[name]["inputs"]["__defaults"], json!(null), "{name}");
    }
    let password = &found["password"];
    assert_eq!(
        password["inputs"],
        json!({"keepers": {"turn": "first"}, "length": 20, "minNumeric": 3})
    );
    assert_eq!(
        password["outputs"]["__meta"],
        json!(r#"{"schema_version":"3"}"#)
    );
    assert_eq!(password["outputs"]["numeric"], json!(true));
    assert_eq!(
        password["additionalSecretOutputs"],
        json!(["bcryptHash", "result"])
    );
    for secret in ["bcryptHash", "result"] {
        assert!(password["outputs"][secret]["plaintext"].is_string());
    }
}

#[test]
fn random_secrets_are_encrypted() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    let clear = stage.json(&["stack", "output", "--json", "--show-secrets"]);
    for secret in ["password", "hex"] {
        let secret = clear[secret].as_str().unwrap();
        assert!(!stage.everything().contains(secret));
        assert!(!done.stdout.contains(secret) && !done.stderr.contains(secret));
    }
}

#[test]
fn invalid_random_input_names_property() {
    for (properties, message) in [
        ("{length: 0}", "length"),
        ("{length: 3, minUpper: 4}", "must be at least 4"),
        ("{lenght: 3, length: 3}", "did you mean \"length\"?"),
        ("{}", "length"),
    ] {
        let program = format!(
            "name: demo\nruntime: yaml\nresources:\n  it:\n    type: random:RandomString\n    properties: {properties}\n"
        );
        let stage = Stage::new(&program);
        stage.ok(&["stack", "init", "dev"]);
        let done = stage.up();
        assert_ne!(done.code, Some(0), "{properties}");
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains(message), "{properties}: {told}");
        assert!(resources(&stage).is_empty());
    }
}

#[test]
fn random_resource_can_be_imported() {
    let program = r#"
name: demo
runtime: yaml
resources:
  it:
    type: random:RandomPassword
    properties: {length: 13}
    options: {import: myspecialdata}
outputs: {it: "${it.result}"}
"#;
    let stage = Stage::new(program);
    stage.ok(&["stack", "init", "dev"]);
    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    let clear = stage.json(&["stack", "output", "--json", "--show-secrets"]);
    assert_eq!(clear["it"], json!("myspecialdata"));
    stage.write(
        "Pulumi.yaml",
        &program.replace("    options: {import: myspecialdata}\n", ""),
    );
    stage.ok(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
}
