//! `stack export`, `stack import` and `stack tag`.

use serde_json::{Value, json};

use crate::stage::Stage;

const PROGRAM: &str = "name: demo\nruntime: yaml\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: {fn::secret: hush-hush}}}\noutputs:\n  hidden: ${a.output}\n  plain: 1\n";

fn stage() -> Stage {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    assert_eq!(stage.up().code, Some(0));
    stage
}

fn import(stage: &Stage, document: &Value, words: &[&str]) -> crate::stage::Done {
    let words = [&["stack", "import", "--stack", "dev"], words].concat();
    stage.run_with_input(&words, &document.to_string())
}

#[test]
fn state_export_and_import_round_trip() {
    let stage = stage();
    let file = stage.path("state.json");
    let file = file.to_str().unwrap();
    stage.ok(&["stack", "export", "--stack", "dev", "--file", file]);
    assert_eq!(stage.up().code, Some(0));
    let done = stage.ok(&["stack", "import", "--stack", "dev", "--file", file]);
    assert_eq!(done.stdout, "Import complete.\n");
    let outputs = stage.json(&["stack", "output", "--json", "--show-secrets"]);
    assert_eq!(outputs, json!({"hidden": "hush-hush", "plain": 1}));
    let same = stage.run(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
    assert_eq!(same.code, Some(0), "{same:?}");
}

#[test]
fn secrets_in_clear_are_sealed_on_their_way_in() {
    let stage = stage();
    let open = stage.json(&["stack", "export", "--show-secrets"]);
    assert!(open.to_string().contains("hush-hush"));
    let done = import(&stage, &open, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        !stage
            .json(&["stack", "export"])
            .to_string()
            .contains("hush-hush")
    );
    assert_eq!(
        stage.json(&["stack", "output", "--json", "--show-secrets"])["hidden"],
        json!("hush-hush")
    );
}

#[test]
fn state_of_other_stack_is_imported_only_by_force() {
    let stage = stage();
    let before = stage.json(&["stack", "export"]);
    let text = before.to_string().replace("pulumi:dev::", "pulumi:prod::");
    let strange: Value = serde_json::from_str(&text).unwrap();
    let refused = import(&stage, &strange, &[]);
    assert_eq!(refused.code, Some(1));
    assert_eq!(
        refused.stderr,
        "error: 4 errors occurred:\n\
         \x20   1) resource 'urn:pulumi:prod::demo::pulumi:pulumi:Stack::demo-dev' is from a different stack (prod != dev)\n\
         \x20   2) resource 'urn:pulumi:prod::demo::pulumi:providers:pulumi::default' is from a different stack (prod != dev)\n\
         \x20   3) resource 'urn:pulumi:prod::demo::pulumi:index:Stash::a' is from a different stack (prod != dev)\n\
         \x20   4) importing this file could be dangerous; rerun with --force to proceed anyway\n"
    );
    assert_eq!(stage.json(&["stack", "export"]), before);
    let forced = import(&stage, &strange, &["--force"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(
        forced
            .stderr
            .starts_with("warning: resource 'urn:pulumi:prod::"),
        "{forced:?}"
    );
}

#[test]
fn invalid_state_import_writes_nothing() {
    let stage = stage();
    let before = stage.json(&["stack", "export"]);
    let mut broken = before.clone();
    broken["deployment"]["resources"]
        .as_array_mut()
        .unwrap()
        .reverse();
    for (document, text) in [
        (
            json!({}),
            "the stack 'dev' is too old to be used by this version of the Pulumi CLI",
        ),
        (
            json!({"version": 9, "deployment": {}}),
            "the stack 'dev' is newer than what this version of the Pulumi CLI understands",
        ),
        (
            json!({"version": 4, "features": ["views"], "deployment": before["deployment"]}),
            "needs support for the following features, which pulumi-engine lacks: views",
        ),
        (json!({"version": 3}), "could not deserialize deployment"),
        (json!("text"), "could not deserialize deployment"),
        (
            broken,
            "state file contains errors: resource urn:pulumi:dev::demo::pulumi:index:Stash::a refers to",
        ),
    ] {
        let done = import(&stage, &document, &[]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains(text), "{text}: {done:?}");
    }
    let nothing = stage.run(&["stack", "import", "--stack", "dev"]);
    assert_eq!(
        (nothing.code, nothing.stderr.as_str()),
        (Some(1), "error: EOF\n")
    );
    let missing = stage.run(&["stack", "import", "--file", "/nowhere/at/all"]);
    assert!(
        missing
            .stderr
            .starts_with("error: could not open file: open /nowhere/at/all"),
        "{missing:?}"
    );
    assert_eq!(stage.json(&["stack", "export"]), before);
}

#[test]
fn operations_that_were_under_way_do_not_come_in() {
    let stage = stage();
    let mut document = stage.json(&["stack", "export"]);
    let resource = document["deployment"]["resources"][2].clone();
    document["deployment"]["pending_operations"] =
        json!([{"resource": resource, "type": "creating"}]);
    let done = import(&stage, &document, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stderr,
        "warning: removing pending operation 'creating' on 'urn:pulumi:dev::demo::pulumi:index:Stash::a' from snapshot\n"
    );
    let after = stage.json(&["stack", "export"]);
    assert_eq!(after["deployment"].get("pending_operations"), None);
}

#[test]
fn older_state_version_is_rejected_as_pulumi_does() {
    let stage = stage();
    let done = stage.run(&["stack", "export", "--version", "1"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.stderr
            .contains("does not provide the ability to export previous deployments"),
        "{done:?}"
    );
}

#[test]
fn tags_are_kept_beside_the_state_and_go_with_it() {
    let stage = stage();
    let tag = |words: &[&str]| stage.run(&[&["stack", "tag"], words].concat());
    assert_eq!(tag(&["ls"]).stdout, "NAME  VALUE\n");
    assert_eq!(tag(&["set", "owner", "us"]).code, Some(0));
    assert_eq!(tag(&["set", "a", "b", "--stack", "dev"]).code, Some(0));
    assert_eq!(tag(&["ls"]).stdout, "NAME   VALUE\na      b\nowner  us\n");
    assert_eq!(
        tag(&["ls", "--json"]).stdout,
        "{\n  \"a\": \"b\",\n  \"owner\": \"us\"\n}\n"
    );
    assert_eq!(tag(&["get", "owner"]).stdout, "us\n");
    let missing = tag(&["get", "zz"]);
    assert_eq!(
        (missing.code, missing.stderr.as_str()),
        (Some(1), "error: stack tag 'zz' not found for stack 'dev'\n")
    );
    assert_eq!(tag(&["set", "not allowed", "x"]).code, Some(1));
    assert_eq!(tag(&["rm", "a"]).code, Some(0));
    assert_eq!(tag(&["ls"]).stdout, "NAME   VALUE\nowner  us\n");
    let file = stage.path("state/.pulumi/stacks/demo/dev.pulumi-tags");
    assert!(file.exists());
    stage.ok(&["stack", "rm", "--yes", "--force", "dev"]);
    assert!(!file.exists());
}
