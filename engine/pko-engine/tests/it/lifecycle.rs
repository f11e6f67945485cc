//! A stack from its beginning to its end.

use serde_json::json;

use crate::stage::Stage;

const PROGRAM: &str = r#"
name: demo
runtime: yaml
variables:
  hidden: {"fn::secret": hush-hush}
resources:
  first:
    type: pulumi:index:Stash
    properties: {input: v1}
  second:
    type: pulumi:index:Stash
    properties: {input: {from: "${first.output}", hidden: "${hidden}"}}
outputs:
  first: ${first.output}
  second: ${second.output}
  large: 9007199254740993
"#;

#[test]
fn stack_lifecycle_succeeds() {
    let stage = Stage::new(PROGRAM);
    let missing = stage.run(&["stack", "select", "--stack", "dev"]);
    assert_eq!(missing.code, Some(6));
    assert_eq!(missing.stderr, "error: no stack named 'dev' found\n");
    assert_eq!(
        stage.ok(&["stack", "init", "dev"]).stderr,
        "Created stack 'dev'\n"
    );
    let again = stage.run(&["stack", "init", "dev"]);
    assert_eq!(
        again.stderr,
        "error: stack 'organization/demo/dev' already exists\n"
    );

    let preview = stage.ok(&["preview", "--stack", "dev"]);
    assert!(
        preview.stdout.contains("+ 3 to create"),
        "{}",
        preview.stdout
    );
    assert_eq!(
        stage.json(&["stack", "export"])["deployment"]["resources"],
        json!(null)
    );

    assert_eq!(stage.up().code, Some(0));
    let outputs = stage.json(&["stack", "output", "--json"]);
    assert_eq!(
        // as a float, as Pulumi has all numbers of a program
        outputs,
        json!({"first": "v1", "second": "[secret]", "large": 9_007_199_254_740_992_i64})
    );
    let clear = stage.json(&["stack", "output", "--json", "--show-secrets"]);
    assert_eq!(
        clear["second"],
        json!({"from": "v1", "hidden": "hush-hush"})
    );

    let same = stage.run(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    let list = stage.json(&["stack", "ls", "--json"]);
    assert_eq!(
        (
            &list[0]["name"],
            &list[0]["resourceCount"],
            &list[0]["current"]
        ),
        (&json!("dev"), &json!(4), &json!(true))
    );

    let kept = stage.run(&["stack", "rm", "--yes", "dev"]);
    assert!(kept.stderr.contains("still has resources"), "{kept:?}");
    stage.ok(&["destroy", "--yes", "--skip-preview"]);
    let history = stage.json(&[
        "stack",
        "history",
        "--json",
        "--page-size",
        "1",
        "--page",
        "1",
    ]);
    assert_eq!(
        (&history[0]["kind"], &history[0]["result"]),
        (&json!("destroy"), &json!("succeeded"))
    );
    assert_eq!(history[0]["resourceChanges"], json!({"delete": 3}));
    assert_eq!(
        stage.ok(&["stack", "rm", "--yes", "dev"]).stdout,
        "Stack 'dev' has been removed!\n"
    );
    assert_eq!(
        stage.run(&["stack", "select", "--stack", "dev"]).code,
        Some(6)
    );
}

#[test]
fn secrets_are_nowhere_in_clear() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    stage.run_with_input(
        &["config", "set", "--secret", "token", "--stack", "dev"],
        "t0p-s3cret\n",
    );
    let done = stage.up();
    assert_eq!(done.code, Some(0), "{done:?}");
    stage.write("Pulumi.yaml", "");
    let everything = stage.everything() + &done.stdout + &done.stderr;
    assert!(everything.contains("ciphertext"));
    for secret in ["hush-hush", "t0p-s3cret", "correct-horse"] {
        assert!(!everything.contains(secret), "{secret} is in clear");
    }
}

#[test]
fn unchanged_secret_keeps_ciphertext() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    stage.up();
    let resources =
        |stage: &Stage| stage.json(&["stack", "export"])["deployment"]["resources"].clone();
    let before = resources(&stage);
    stage.up();
    assert_eq!(resources(&stage), before);
}

#[test]
fn replacement_stores_new_value() {
    let stage = Stage::new(
        "name: demo\nruntime: yaml\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: 1}}\noutputs: {a: '${a.output}'}\n",
    );
    stage.ok(&["stack", "init", "dev"]);
    stage.up();
    stage.write(
        "Pulumi.yaml",
        &stage.read("Pulumi.yaml").replace("input: 1", "input: 2"),
    );
    stage.up();
    assert_eq!(stage.json(&["stack", "output", "--json"]), json!({"a": 1}));
    let urn = "urn:pulumi:dev::demo::pulumi:index:Stash::a";
    let log = stage.path("events.jsonl");
    stage.ok(&[
        "up",
        "--yes",
        "--skip-preview",
        "--replace",
        urn,
        "--event-log",
        log.to_str().unwrap(),
    ]);
    assert_eq!(stage.json(&["stack", "output", "--json"]), json!({"a": 2}));
    let events = stage.events();
    let operations: Vec<_> = events
        .iter()
        .filter_map(|event| event["resourcePreEvent"]["metadata"]["op"].as_str())
        .collect();
    assert_eq!(
        operations,
        [
            "same",
            "same",
            "create-replacement",
            "replace",
            "delete-replaced"
        ]
    );
    let summary = events
        .iter()
        .find_map(|event| event.get("summaryEvent"))
        .unwrap();
    assert_eq!(summary["resourceChanges"], json!({"replace": 1, "same": 1}));
    assert_eq!(
        stage.json(&["stack", "export"])["deployment"]["resources"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn target_with_dependents_is_not_destroyed_alone() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    stage.up();
    let urn = "urn:pulumi:dev::demo::pulumi:index:Stash::first";
    let alone = stage.run(&["destroy", "--yes", "--skip-preview", "--target", urn]);
    assert_eq!(alone.code, Some(1));
    assert!(
        alone
            .stdout
            .contains("will be destroyed but was not specified in --target list"),
        "{alone:?}"
    );
    stage.ok(&[
        "destroy",
        "--yes",
        "--skip-preview",
        "--target",
        urn,
        "--target-dependents",
    ]);
    assert_eq!(
        stage.json(&["stack", "ls", "--json"])[0]["resourceCount"],
        json!(2)
    );
}

#[test]
fn mistakes_show_the_line_they_are_in() {
    let stage = Stage::new("name: demo\nruntime: yaml\noutputs:\n  x: ${nothing}\n");
    stage.ok(&["stack", "init", "dev"]);
    let done = stage.up();
    assert_eq!(done.code, Some(1));
    assert_eq!(
        done.stderr,
        "error: resource, variable, or config value \"nothing\" not found\n\n  on Pulumi.yaml line 4, column 6:\n\n   4:   x: ${nothing}\n\nerror: update failed\n"
    );
    let summary = stage.events().into_iter().rev().nth(1).unwrap();
    assert_eq!(summary["summaryEvent"]["result"], json!("failed"));
}
