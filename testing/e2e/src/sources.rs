//! Where programs come from, served by this machine as a team's server would: git and Flux.

use pko_api::Stack;
use pko_testkit::{
    flux::{self, ArtifactServer, Kind, Source, State},
    git_server::TestFile,
};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{
    cli::on_each_cli,
    forge::Forge,
    place::{Place, beside_others},
    stacks::stack,
    system::System,
};

const PROJECT: &str = "name: app\nruntime: yaml\noutputs:\n  simpleOutput: foo\n  secretOutput:\n    fn::secret: canary-bar\n";

/// Flux comes to the cluster after the operator, as it may.
async fn install_flux(system: &System) {
    static DONE: OnceCell<()> = OnceCell::const_new();
    let install = async || {
        let crds = tokio::task::spawn_blocking(flux::crds)
            .await
            .unwrap()
            .unwrap();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": crds });
        let file = system.cluster.folder().join("flux.json");
        std::fs::write(&file, list.to_string()).unwrap();
        system.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
        let name = "crd/gitrepositories.source.toolkit.fluxcd.io";
        system.kubectl(&["wait", "--for=condition=Established", name]);
    };
    DONE.get_or_init(install).await;
}

/// A source of Flux with an artifact, both as Flux would have them.
async fn publish(place: &Place<'_>, server: &ArtifactServer, project: &str) -> Source {
    let source = Source::new(Kind::GitRepository, place.name(), "infra");
    place.create(source.object()).await;
    let revision = source.revision("one");
    let artifact = server.publish(&source, &revision, &[("Pulumi.yaml", project)]);
    let written = source.write(&place.client(), &State::Ready(artifact)).await;
    written.unwrap();
    source
}

on_each_cli! {
    a_stack_from_flux_is_ready_and_its_pod_stays_until_it_is_to_be_reclaimed
    a_stack_from_a_private_branch_is_ready_with_its_credentials_and_keeps_secret_outputs
}

/// Upstream's `random-yaml-nonroot`.
async fn a_stack_from_flux_is_ready_and_its_pod_stays_until_it_is_to_be_reclaimed() {
    beside_others(async |place| {
        install_flux(place.system).await;
        let server = ArtifactServer::start_at(place.system.cluster.host_address()).unwrap();
        let source = publish(place, &server, PROJECT).await;
        let stack = stack("demo").set("/spec/fluxSource/sourceRef", source.reference());
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
        assert_eq!(
            stack.status.unwrap().outputs.unwrap()["simpleOutput"],
            "foo"
        );
        place.pod_uid("demo").await;

        let reclaim = json!({ "spec": { "workspaceReclaimPolicy": "Delete" } });
        place.patch::<Stack>("demo", reclaim).await;
        place.ready("demo").await;
        place.no_pod("demo").await;
    })
    .await;
}

/// Upstream's `git-auth-nonroot`.
async fn a_stack_from_a_private_branch_is_ready_with_its_credentials_and_keeps_secret_outputs() {
    beside_others(async |place| {
        let forge = Forge::start(
            place.system,
            &[TestFile::plain("prod/Pulumi.yaml", PROJECT)],
            "",
        );
        place.create(forge.secret("git", "")).await;
        let stack = stack("demo")
            .git(&forge.url(), "main")
            .set("/spec/repoDir", "prod")
            .set("/spec/shallow", true)
            .set("/spec/gitAuthSecret", "git");
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["simpleOutput"], "foo");
        assert_eq!(outputs["secretOutput"], "[secret]");
    })
    .await;
}
