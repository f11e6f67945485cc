//! Program sources, served from this machine: git and Flux.

use pko_api::Stack;
use pko_testkit::{
    flux::{self, ArtifactServer, SourceKind, SourceState, TestSource},
    git_server::TestFile,
};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{
    cli::on_each_cli,
    git_host::GitHost,
    operator_cluster::OperatorCluster,
    stacks::stack,
    test_env::{TestEnv, run_concurrently},
};

const PROJECT: &str = "name: app\nruntime: yaml\noutputs:\n  simpleOutput: foo\n  secretOutput:\n    fn::secret: canary-bar\n";

/// Flux comes to the cluster after the operator, as it may.
async fn install_flux(operator: &OperatorCluster) {
    static DONE: OnceCell<()> = OnceCell::const_new();
    let install = async || {
        let crds = tokio::task::spawn_blocking(flux::crds)
            .await
            .unwrap()
            .unwrap();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": crds });
        let file = operator.cluster.folder().join("flux.json");
        std::fs::write(&file, list.to_string()).unwrap();
        operator.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
        let name = "crd/gitrepositories.source.toolkit.fluxcd.io";
        operator.kubectl(&["wait", "--for=condition=Established", name]);
    };
    DONE.get_or_init(install).await;
}

/// A source of Flux with an artifact, both as Flux would have them.
async fn publish(env: &TestEnv<'_>, server: &ArtifactServer, project: &str) -> TestSource {
    let source = TestSource::new(SourceKind::GitRepository, env.name(), "infra");
    env.create(source.object()).await;
    let revision = source.revision("one");
    let artifact = server.publish(&source, &revision, &[("Pulumi.yaml", project)]);
    let written = source
        .write(&env.client(), &SourceState::Ready(artifact))
        .await;
    written.unwrap();
    source
}

on_each_cli! {
    flux_stack_is_ready_and_keeps_pod_until_reclaimed
    private_git_stack_is_ready_and_masks_secret_outputs
}

/// Upstream's `random-yaml-nonroot`.
async fn flux_stack_is_ready_and_keeps_pod_until_reclaimed() {
    run_concurrently(async |env| {
        install_flux(env.operator).await;
        let server = ArtifactServer::start_at(env.operator.cluster.host_address()).unwrap();
        let source = publish(env, &server, PROJECT).await;
        let stack = stack("demo").set("/spec/fluxSource/sourceRef", source.reference());
        env.create(stack.build()).await;
        let stack = env.wait_for_ready("demo").await;
        assert_eq!(
            stack.status.unwrap().outputs.unwrap()["simpleOutput"],
            "foo"
        );
        env.pod_uid("demo").await;

        let reclaim = json!({ "spec": { "workspaceReclaimPolicy": "Delete" } });
        env.patch::<Stack>("demo", reclaim).await;
        env.wait_for_ready("demo").await;
        env.wait_for_no_pod("demo").await;
    })
    .await;
}

/// Upstream's `git-auth-nonroot`.
async fn private_git_stack_is_ready_and_masks_secret_outputs() {
    run_concurrently(async |env| {
        let git_host = GitHost::start(
            env.operator,
            &[TestFile::plain("prod/Pulumi.yaml", PROJECT)],
            "",
        );
        env.create(git_host.secret("git", "")).await;
        let stack = stack("demo")
            .git(&git_host.url(), "main")
            .set("/spec/repoDir", "prod")
            .set("/spec/shallow", true)
            .set("/spec/gitAuthSecret", "git");
        env.create(stack.build()).await;
        let stack = env.wait_for_ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["simpleOutput"], "foo");
        assert_eq!(outputs["secretOutput"], "[secret]");
    })
    .await;
}
