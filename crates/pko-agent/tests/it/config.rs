//! Configuration through the agent: what the CLI receives, and what is in no argument.

use pko_proto::{
    convert::literal_config,
    run::{ErrorClass, StackConfig},
};
use pko_testkit::Reply;
use serde_json::json;

use crate::harness::{TestWorkspace, all_text, configured, simple, update, wait_for_result};

fn config(items: &[(&str, &str, bool)], environments: &[&str]) -> StackConfig {
    let item = |(key, value, secret): &(&str, &str, bool)| {
        literal_config(key, &json!(value), false, *secret)
    };
    StackConfig {
        items: items.iter().map(item).collect(),
        environments: environments.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[tokio::test]
async fn secret_config_is_passed_only_by_stdin() {
    let canary = "canary-0123456789";
    let telltale = simple()
        .prints(&format!("the value is {canary}\n"))
        .prints_error(&format!("{canary}\n"));
    let place = TestWorkspace::new(&telltale);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let config = config(&[("token", canary, true), ("size", "4", false)], &[]);
    client.start_run(configured("one", config)).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    let calls = place.stand_in.calls();
    let inputs: Vec<&str> = calls
        .iter()
        .filter_map(|call| call.input.as_deref())
        .collect();
    assert_eq!(inputs, [format!("{canary}\n")]);
    assert!(result.stdout.contains("the value is [secret]"));
    let calls = place.lines();
    assert!(calls.contains("config set-all --stack dev --path --plaintext demo:[\"size\"]=4"));
    assert!(calls.contains("config set --secret demo:token --stack dev"));
    assert!(!calls.contains(canary));
    assert!(!agent.log().contains(canary), "{}", agent.log());
    assert!(!all_text(&place.path(".pko")).contains(canary));
}

#[tokio::test]
async fn config_is_set_only_when_it_changes() {
    // Environments are Pulumi Cloud's.
    let place = TestWorkspace::new(&simple())
        .variable("PULUMI_BACKEND_URL", "https://api.example.invalid")
        .variable("PULUMI_ACCESS_TOKEN", "pul-0123456789");
    place.run(&["stack", "init", "dev"]);
    let source = "config:\n  demo:size: \"1\"\n  demo:source: kept\n";
    place.write("Pulumi.dev.yaml", source);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let sets = [("one", "4"), ("two", "4"), ("three", "5")];
    for (run_id, size) in sets {
        let config = config(&[("size", size, false)], &["org/env"]);
        client.start_run(configured(run_id, config)).await.unwrap();
        assert!(wait_for_result(&mut client, run_id).await.error.is_none());
    }
    assert_eq!(place.count("config set-all"), 2);
    assert_eq!(place.count("config env"), 2);
    let file = place.workspace().join("Pulumi.dev.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let expected = "environment:\n  - org/env\nconfig:\n  demo:size: \"5\"\n  demo:source: kept\n";
    assert_eq!(text, expected);
    // Without configuration in the request, it stays.
    client.start_run(update("four")).await.unwrap();
    wait_for_result(&mut client, "four").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    client
        .start_run(configured("five", config(&[], &[])))
        .await
        .unwrap();
    wait_for_result(&mut client, "five").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), source);
}

#[tokio::test]
async fn missing_config_value_fails_run_before_operation() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let from = pko_proto::agent::config_value_from::F::Env("NOT_THERE_AT_ALL".to_owned());
    let item = pko_proto::convert::config_from("key", from, false, false, false);
    let config = StackConfig {
        items: vec![item],
        environments: Vec::new(),
    };
    client.start_run(configured("one", config)).await.unwrap();
    let error = wait_for_result(&mut client, "one").await.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Configuration);
    assert!(
        error
            .message
            .contains("missing value for environment variable: NOT_THERE_AT_ALL")
    );
    assert_eq!(place.count("up"), 0);
}

#[tokio::test]
async fn env_file_variables_reach_the_cli() {
    let answer = Reply::new()
        .prints("from the file: ")
        .prints_variable("EXTRA")
        .prints_variable("EXTRA_TOKEN");
    let place = TestWorkspace::new(&answer);
    std::fs::write(
        place.path("env"),
        "EXTRA=visible\nEXTRA_TOKEN=canary-token\n",
    )
    .unwrap();
    let env = place.path("env");
    let agent = place.serve(&["--env-file", env.to_str().unwrap()]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    assert_eq!(result.stdout, "from the file: visible\n[secret]\n");
    assert!(!agent.log().contains("canary-token"));
}
