//! Config values from the command line to the file and into a program.

use serde_json::json;

use crate::stage::Stage;

fn stage() -> Stage {
    let stage = Stage::new(
        "name: demo\nruntime: yaml\nconfig: {size: {type: integer, default: 1}}\noutputs: {size: '${size}'}\n",
    );
    stage.ok(&["stack", "init", "dev"]);
    stage
}

#[test]
fn values_are_kept_as_the_real_cli_keeps_them() {
    let stage = stage();
    stage.ok(&[
        "config",
        "set-all",
        "--stack",
        "dev",
        "--path",
        "--plaintext",
        "demo:[\"greeting\"]=hi",
        "--plaintext",
        "demo:size=4",
        "--secret",
        "demo:token=t0ken",
    ]);
    stage.ok(&["config", "set-all", "--stack", "dev", "--json", r#"{"demo:obj":{"value":"{\"a\":[1,2]}","objectValue":{"a":[1,2]},"secret":false},"demo:flag":{"value":"true","objectValue":true,"secret":false}}"#]);
    stage.run_with_input(
        &[
            "config",
            "set",
            "--secret",
            "demo:fromstdin",
            "--stack",
            "dev",
        ],
        "value from stdin\n",
    );
    let text = stage.read("Pulumi.dev.yaml");
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.split("v1:").next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "encryptionsalt: ",
            "config:",
            "  demo:greeting: hi",
            "  demo:size: \"4\"",
            "  demo:token:",
            "    secure: ",
            "  demo:flag: true",
            "  demo:obj:",
            "    a:",
            "      - 1",
            "      - 2",
            "  demo:fromstdin:",
            "    secure: "
        ]
    );
    assert_eq!(
        stage.json(&["config", "--json", "--show-secrets", "--stack", "dev"]),
        json!({
            "demo:flag": {"value": "true", "secret": false},
            "demo:fromstdin": {"value": "value from stdin", "secret": true},
            "demo:greeting": {"value": "hi", "secret": false},
            "demo:obj": {"value": "{\"a\":[1,2]}", "objectValue": {"a": [1, 2]}, "secret": false},
            "demo:size": {"value": "4", "secret": false},
            "demo:token": {"value": "t0ken", "secret": true},
        })
    );
    let hidden = stage.json(&["config", "--json", "--stack", "dev"]);
    assert_eq!(hidden["demo:token"], json!({"secret": true}));
    stage.ok(&["config", "rm", "demo:obj", "--stack", "dev"]);
    assert!(!stage.read("Pulumi.dev.yaml").contains("obj"));
}

#[test]
fn config_file_keeps_user_comments() {
    let stage = stage();
    let text = format!(
        "# ours\n{}config:\n  # how many\n  demo:size: 2 # two\n",
        stage.read("Pulumi.dev.yaml")
    );
    stage.write("Pulumi.dev.yaml", &text);
    stage.ok(&["config", "set", "other", "x", "--stack", "dev"]);
    assert_eq!(
        stage.read("Pulumi.dev.yaml"),
        format!("{text}  demo:other: x\n")
    );
    stage.up();
    assert_eq!(
        stage.json(&["stack", "output", "--json"]),
        json!({"size": 2})
    );
}

#[test]
fn invalid_config_fails_before_any_step() {
    let stage = stage();
    stage.ok(&["config", "set", "size", "abc", "--stack", "dev"]);
    let done = stage.up();
    assert_eq!(done.code, Some(1));
    assert_eq!(
        done.stderr,
        "error: validating stack config: Stack 'dev' with configuration key 'size' must be of type 'integer'\n"
    );
    assert!(stage.events().is_empty());
}
