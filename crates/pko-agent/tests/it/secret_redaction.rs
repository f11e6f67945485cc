//! Secrets are in no log and in no command line.

use pko_proto::{
    convert::literal_config,
    run::{StackConfig, run_event},
};
use pko_testkit::Reply;
use serde_json::json;

use crate::harness::{
    TestWorkspace, all_text, command_lines, configured, literal, remaining_events, secret, update,
    wait_for_result, watch, within_deadline,
};

/// One for each way that a secret can come in.
const CONFIG: &str = "canary-config-0123";
const STRUCTURED: &str = "canary-structured-0123";
const PATH: &str = "canary-path-0123";
const VARIABLE: &str = "canary-variable-0123";
const ENVIRONMENT_FILE: &str = "canary-environment-file-0123";
const ACCESS_TOKEN: &str = "pul-canary-token-0123";
const PASSPHRASE: &str = "canary-passphrase-0123";
const OUTPUT: &str = "canary-output-0123";

/// What can be known before an update ends.
const KNOWN_BEFORE: [&str; 7] = [
    CONFIG,
    STRUCTURED,
    PATH,
    VARIABLE,
    ENVIRONMENT_FILE,
    ACCESS_TOKEN,
    PASSPHRASE,
];

/// Shows a number of secrets, on both streams.
fn telltale(answer: Reply, secrets: &[&str]) -> Reply {
    secrets.iter().fold(answer, |answer, secret| {
        answer
            .prints(&format!("it is {secret}, I think\n"))
            .prints_error(&format!("error: bad value '{secret}'\n"))
    })
}

fn place(operation: &Reply) -> TestWorkspace {
    let outputs = json!({"password": {"inner": OUTPUT}, "size": 4}).to_string();
    let script = TestWorkspace::script(operation).on("stack output", Reply::new().prints(&outputs));
    let place = TestWorkspace::scripted(&script)
        .variable("PULUMI_ACCESS_TOKEN", ACCESS_TOKEN)
        .variable("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
        .variable("SOME_SECRET", VARIABLE);
    std::fs::write(
        place.path("env"),
        format!("MY_PASSWORD={ENVIRONMENT_FILE}\n"),
    )
    .unwrap();
    place
}

fn config() -> StackConfig {
    StackConfig {
        items: vec![
            literal("plain", "visible", false),
            literal("token", CONFIG, true),
            literal("object", json!({"inner": STRUCTURED}), true),
            literal_config("deep.inner", &json!(PATH), true, true),
        ],
        environments: Vec::new(),
    }
}

fn assert_none(what: &str, text: &str, secrets: &[&str]) {
    for secret in secrets {
        let line = text.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{secret} is in {what}: {line:?}");
    }
}

#[tokio::test]
async fn run_secrets_are_in_no_log_or_command_line() {
    let held = telltale(secret(), &KNOWN_BEFORE).waits_for("gate");
    let place = place(&held);
    let env = place.path("env");
    let agent = place.serve(&["--env-file", env.to_str().unwrap()]).await;
    let mut client = agent.runs().await;
    client.start_run(configured("one", config())).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    within_deadline("the CLI", events.message())
        .await
        .unwrap()
        .unwrap();
    let every = [&KNOWN_BEFORE[..], &[OUTPUT]].concat();
    // While the CLI is there to be looked at.
    let lines = command_lines().join("\n");
    assert!(lines.contains("pulumi-stand-in") && lines.contains("--event-log"));
    assert_none("a command line", &lines, &every);
    place.open_gate();
    let result = within_deadline("the end of the run", remaining_events(events))
        .await
        .1
        .unwrap();
    assert!(result.error.is_none(), "{:?}", result.error);
    assert!(result.outputs["password"].secret);
    assert!(String::from_utf8_lossy(&result.outputs["password"].value).contains(OUTPUT));

    // Now the output is known too, and the CLI shows it before it fails.
    let failing = telltale(Reply::new(), &every).exits(1);
    place.stand_in.set_script(&TestWorkspace::script(&failing));
    client.start_run(update("two")).await.unwrap();
    let failed = within_deadline("the failure", wait_for_result(&mut client, "two")).await;
    let error = failed.error.unwrap();
    assert!(error.message.contains("bad value '[secret]'"), "{error:?}");

    assert_none("the log", &agent.log(), &every);
    assert_none("a recorded command line", &place.lines(), &every);
    assert_none("an error", &error.message, &every);
    let texts = [result.stdout, result.stderr, failed.stdout, failed.stderr];
    assert_none("the CLI's output", &texts.concat(), &every);
    // The result of the first run has its outputs, for which the journal is private.
    assert_none("the journal", &all_text(&place.path(".pko")), &KNOWN_BEFORE);
}

#[tokio::test]
async fn call_secrets_are_in_no_log_line() {
    let place = place(&Reply::new());
    let complaint = |secrets: &[&str]| telltale(Reply::new(), secrets).exits(1);
    let script = TestWorkspace::script(&Reply::new())
        .on("install", complaint(&KNOWN_BEFORE[3..]))
        .on("whoami", complaint(&KNOWN_BEFORE[3..]))
        .on("config set", complaint(&KNOWN_BEFORE));
    place.stand_in.set_script(&script);
    let env = place.path("env");
    let flags = ["--env-file", env.to_str().unwrap(), "--stack", "dev"];
    let agent = place.serve(&flags).await;
    let mut client = agent.automation().await;
    let refused = [
        client
            .install(pko_proto::agent::InstallRequest {})
            .await
            .unwrap_err(),
        client
            .who_am_i(pko_proto::agent::WhoAmIRequest {})
            .await
            .unwrap_err(),
        client
            .set_all_config(pko_proto::agent::SetAllConfigRequest {
                config: config().items,
            })
            .await
            .unwrap_err(),
    ];
    for status in &refused {
        assert!(status.message().contains("[secret]"), "{status}");
        assert_none("a status", status.message(), &KNOWN_BEFORE);
    }
    assert_none("the log", &agent.log(), &KNOWN_BEFORE);
    assert_none("a recorded command line", &place.lines(), &KNOWN_BEFORE);
}

/// The manager states which variables come from Secrets; their names say nothing.
#[tokio::test]
async fn variables_from_secrets_are_masked_by_origin() {
    const SINGLE: &str = "canary-single-0123";
    const KEYED: &str = "canary \"keyed\" <0123>";
    const PUBLIC: &str = "visible-0123";
    for version in ["3.205.0", "3.259.0"] {
        let event = json!({"diagnosticEvent": {"message": format!("{SINGLE} {KEYED} {PUBLIC}")}});
        let printed = telltale(Reply::new().event(event), &[SINGLE, KEYED, PUBLIC]).exits(1);
        let script = TestWorkspace::script(&printed).version(version);
        let place = TestWorkspace::scripted(&script);
        std::fs::create_dir(place.path("keys")).unwrap();
        std::fs::write(place.path("keys/PLACE"), "").unwrap();
        let origins = json!({
            "names": ["REGION", "SHORT"],
            "keys": [{"prefix": "X_", "folder": place.path("keys")}],
        });
        let place = place
            .variable("PKO_SECRET_VARIABLES", &origins.to_string())
            .variable("REGION", SINGLE)
            .variable("SHORT", "abc")
            .variable("X_PLACE", KEYED)
            .variable("PLACE", PUBLIC);
        let agent = place.serve(&[]).await;
        let mut client = agent.runs().await;
        client.start_run(update("one")).await.unwrap();
        let mut events = watch(&mut client, "one", 0).await;
        let mut shown = String::new();
        while let Some(event) = events.message().await.unwrap() {
            match event.event.unwrap() {
                run_event::Event::EngineEvent(event) => {
                    let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
                    let message = &event["diagnosticEvent"]["message"];
                    assert_eq!(message, &format!("[secret] [secret] {PUBLIC}"));
                }
                run_event::Event::Result(result) => {
                    let error = result.error.unwrap().message;
                    shown = [result.stdout, result.stderr, error].concat();
                }
            }
        }
        let secrets = [SINGLE, "canary", "keyed"];
        assert_eq!(shown.matches(PUBLIC).count(), 4, "{shown}");
        assert_none("what a watcher gets", &shown, &secrets);
        assert_none("the log", &agent.log(), &secrets);
        assert!(agent.log().contains("too short"), "{}", agent.log());
    }
}
