//! Flags of preview, up, refresh and destroy.

use serde_json::{Value, json};

use crate::stage::{Done, Stage};

const PROGRAM: &str = "name: demo\nruntime: yaml\nconfig:\n  size: {type: integer, default: 1}\nresources:\n  \
    a: {type: 'pulumi:index:Stash', properties: {input: '${size}'}, options: {protect: true}}\n  \
    b: {type: 'pulumi:index:Stash', properties: {input: '${a.output}'}}\n  \
    c: {type: 'pulumi:index:Stash', properties: {input: 3}, options: {dependsOn: ['${b}']}}\n\
    outputs:\n  size: ${size}\n";
const A: &str = "urn:pulumi:dev::demo::pulumi:index:Stash::a";
const B: &str = "urn:pulumi:dev::demo::pulumi:index:Stash::b";
const C: &str = "urn:pulumi:dev::demo::pulumi:index:Stash::c";

fn stage() -> Stage {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    assert_eq!(stage.up().code, Some(0));
    stage
}

fn names(stage: &Stage) -> Vec<String> {
    let document = stage.json(&["stack", "export"]);
    let resources = document["deployment"]["resources"].as_array().unwrap();
    let name = |resource: &Value| {
        let urn = resource["urn"].as_str().unwrap();
        urn.rsplit("::").next().unwrap().to_owned()
    };
    resources.iter().map(name).collect()
}

fn id(stage: &Stage, urn: &str) -> String {
    let document = stage.json(&["stack", "export"]);
    let resources = document["deployment"]["resources"].as_array().unwrap();
    let found = resources.iter().find(|resource| resource["urn"] == urn);
    found.unwrap()["id"].as_str().unwrap().to_owned()
}

fn run(stage: &Stage, operation: &str, words: &[&str]) -> Done {
    let start = [operation, "--yes", "--skip-preview", "--stack", "dev"];
    stage.run(&[&start[..], words].concat())
}

#[test]
fn excluded_resource_keeps_dependencies() {
    let stage = stage();
    let done = run(&stage, "destroy", &["--exclude", B]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(names(&stage), ["demo-dev", "default", "a", "b"]);
}

#[test]
fn protected_resource_can_be_excluded() {
    let stage = stage();
    let done = run(&stage, "destroy", &["--exclude-protected"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.ends_with(
            "All unprotected resources were destroyed. There are still 3 protected resources associated with this stack.\n"
        ),
        "{done:?}"
    );
    assert_eq!(names(&stage), ["demo-dev", "default", "a"]);
}

#[test]
fn excluded_resource_is_not_updated() {
    let stage = stage();
    let (a, c) = (id(&stage, A), id(&stage, C));
    stage.write("Pulumi.yaml", &PROGRAM.replace("input: 3", "input: 4"));
    let left = run(&stage, "up", &["--exclude", C, "--expect-no-changes"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    let done = run(&stage, "up", &["--exclude", A, "--diff"]);
    assert!(done.stdout.contains("~ input: 3 => 4"), "{done:?}");
    assert_eq!((id(&stage, A), id(&stage, C)), (a, c));
    let both = run(&stage, "up", &["--exclude", A, "--target", B]);
    assert_eq!(both.code, Some(1));
}

#[test]
fn dependents_are_excluded_too_if_that_is_asked_for() {
    let stage = stage();
    let changed = PROGRAM.replace("input: 3", "input: 4");
    stage.write("Pulumi.yaml", &changed);
    let words = [
        "--exclude",
        B,
        "--exclude-dependents",
        "--expect-no-changes",
    ];
    let done = run(&stage, "up", &words);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn replace_flag_replaces_target() {
    let stage = stage();
    let before = (id(&stage, B), id(&stage, C));
    let done = run(&stage, "up", &["--target-replace", B]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_ne!(id(&stage, B), before.0);
    assert_eq!(id(&stage, C), before.1);
}

#[test]
fn destroy_and_refresh_can_be_previewed() {
    let stage = stage();
    let before = stage.json(&["stack", "export"]);
    let done = stage.ok(&["destroy", "--preview-only", "--exclude-protected"]);
    assert!(
        done.stdout.starts_with("Previewing destroy (dev):\n"),
        "{done:?}"
    );
    assert!(done.stdout.contains("    - 2 to delete\n"), "{done:?}");
    let done = stage.ok(&["refresh", "--preview-only"]);
    assert!(
        done.stdout.starts_with("Previewing refresh (dev):\n"),
        "{done:?}"
    );
    assert_eq!(stage.json(&["stack", "export"]), before);
    assert_eq!(
        stage
            .json(&["stack", "history", "--json"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(stage.run(&["up", "--preview-only"]).code, Some(1));
}

#[test]
fn config_of_a_run_is_kept() {
    let stage = stage();
    let done = run(&stage, "up", &["-c", "size=7", "--config", "other=x"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(stage.json(&["stack", "output", "--json"])["size"], json!(7));
    assert!(stage.read("Pulumi.dev.yaml").contains("demo:other: x"));
    stage.write("elsewhere.yaml", "config:\n  demo:size: 9\n");
    let done = run(&stage, "up", &["--config-file", "elsewhere.yaml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(stage.json(&["stack", "output", "--json"])["size"], json!(9));
}

#[test]
fn events_are_on_standard_output_if_json_is_asked_for() {
    let stage = stage();
    for operation in ["up", "refresh"] {
        let done = run(&stage, operation, &["--json"]);
        let events: Vec<Value> = done
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(events[0].get("preludeEvent").is_some(), "{done:?}");
        assert!(
            events.last().unwrap().get("cancelEvent").is_some(),
            "{done:?}"
        );
    }
}

#[test]
fn destroy_can_remove_stack() {
    let stage = stage();
    stage.write(
        "Pulumi.yaml",
        &PROGRAM.replace("protect: true", "protect: false"),
    );
    assert_eq!(stage.up().code, Some(0));
    let done = run(&stage, "destroy", &["--remove"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.ends_with(
            "The resources in the stack have been deleted, and the history and configuration removed.\n"
        ),
        "{done:?}"
    );
    assert_eq!(stage.json(&["stack", "ls", "--json"]), json!([]));
    assert!(!stage.path("project/Pulumi.dev.yaml").exists());
}

#[test]
fn run_program_flag_changes_no_resource() {
    let stage = stage();
    let more = PROGRAM
        .replace("input: 3", "input: 4")
        .replace("protect: true", "protect: false")
        .replace(
            "outputs:",
            "  d: {type: 'pulumi:index:Stash', properties: {input: 5}}\noutputs:",
        );
    stage.write("Pulumi.yaml", &more);
    let done = run(&stage, "refresh", &["--run-program=true"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(names(&stage), ["demo-dev", "default", "a", "b", "c"]);
    let document = stage.json(&["stack", "export"]);
    assert_eq!(
        document["deployment"]["resources"][4]["inputs"]["input"],
        json!(3)
    );

    stage.write("Pulumi.yaml", &more.replace("${size}'", "${sise}'"));
    let wrong = run(&stage, "destroy", &["--run-program=true"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("\"sise\" not found"), "{wrong:?}");
    assert_eq!(names(&stage), ["demo-dev", "default", "a", "b", "c"]);
    // the same program is of no interest to a destroy that does not run it
    let target = run(&stage, "destroy", &["--target", C]);
    assert_eq!(target.code, Some(0), "{target:?}");
}

/// Writes into the state that a resource was being created when the run was killed.
fn leave_pending(stage: &Stage, urn: &str) {
    let path = stage.path("state/.pulumi/stacks/demo/dev.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let latest = &mut document["checkpoint"]["latest"];
    let mut resource = latest["resources"][2].clone();
    resource["urn"] = json!(urn);
    resource.as_object_mut().unwrap().remove("id");
    latest["pending_operations"] = json!([{"resource": resource, "type": "creating"}]);
    std::fs::write(&path, document.to_string()).unwrap();
    let _ = std::fs::remove_file(path.with_extension("json.attrs"));
}

#[test]
fn creates_that_are_pending_are_dropped_or_taken_over() {
    let urn = "urn:pulumi:dev::demo::pulumi:index:Stash::lost";
    let stage = stage();
    leave_pending(&stage, urn);
    let both = ["--clear-pending-creates", "--skip-pending-creates"];
    assert_eq!(run(&stage, "refresh", &both).code, Some(1));
    let odd = run(&stage, "refresh", &["--import-pending-creates", urn]);
    assert_eq!(odd.code, Some(1), "{odd:?}");
    let done = run(&stage, "refresh", &["--clear-pending-creates"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.stdout.contains("pending operations"), "{done:?}");
    let document = stage.json(&["stack", "export"]);
    assert_eq!(document["deployment"].get("pending_operations"), None);

    leave_pending(&stage, urn);
    let unknown = [
        "--import-pending-creates",
        "urn:none",
        "--import-pending-creates",
        "1",
    ];
    assert_eq!(run(&stage, "refresh", &unknown).code, Some(1));
    let words = [
        "--import-pending-creates",
        urn,
        "--import-pending-creates",
        "the-id",
    ];
    let done = run(&stage, "refresh", &words);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(id(&stage, urn), "the-id");
    assert_eq!(
        run(&stage, "up", &["--clear-pending-creates"]).code,
        Some(1)
    );
}

#[test]
fn flags_that_cannot_have_their_effect_are_refused_by_name() {
    let stage = stage();
    for flag in [
        "--policy-pack=x",
        "--save-plan=x",
        "--import-file=x",
        "--attach-debugger",
        "--ignore-protect",
        "--neo",
        "--override-env=a",
    ] {
        let done = stage.run(&["preview", flag]);
        let name = flag.split('=').next().unwrap();
        assert_eq!(done.code, Some(1), "{flag}");
        assert_eq!(
            done.stderr,
            format!(
                "error: flag `{name}` is not supported by pulumi-engine for this command; use an image with Pulumi's CLI\n"
            )
        );
    }
    let json = stage.run(&["preview", "--json"]);
    assert!(
        json.stderr.contains("`--json` is not supported"),
        "{json:?}"
    );
}
