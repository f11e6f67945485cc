//! The same with Pulumi's own CLI, where `PKO_PULUMI` names one with its language hosts beside it.

use std::{env, path::PathBuf};

use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    place::beside_others,
    stacks::{program, program_stack},
    system::CLI_WORKSPACE_IMAGE,
};

/// The folder of a CLI that can run a language; without one it is said why.
fn cli(language: &str) -> Option<PathBuf> {
    let Some(pulumi) = env::var_os("PKO_PULUMI").map(PathBuf::from) else {
        println!("skipped: {language} with Pulumi's CLI: PKO_PULUMI names none");
        return None;
    };
    let folder = pulumi.parent().unwrap().to_owned();
    let host = format!("pulumi-language-{language}");
    if !folder.join(&host).is_file() {
        println!("skipped: {language} with Pulumi's CLI: no {host} beside it");
        return None;
    }
    Some(folder)
}

#[tokio::test]
async fn a_stack_lives_and_dies_with_pulumis_own_cli() {
    if cli("yaml").is_none() {
        return;
    }
    beside_others(async |place| {
        place.create(program("demo", &["one", "two"]).build()).await;
        let stack = program_stack("demo")
            .set("/spec/workspaceTemplate/spec/image", CLI_WORKSPACE_IMAGE)
            .destroy_on_finalize(true);
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["one"], json!("kept by one"));
        place.request("demo", "again").await;
        place.ready("demo").await;
        place.delete("demo", &DeleteParams::default()).await;
        assert!(!place.has_resources("demo"), "it was destroyed");
    })
    .await;
}
