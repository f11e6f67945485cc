//! Who gets in. What the API server says of tokens is tried beside the code that asks it.

use pko_proto::{agent::PulumiVersionRequest, run::ListRunsRequest};
use tonic::{Code, Request};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::harness::{Place, SIMPLE};

/// Nothing listens there.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: nowhere
contexts:
- name: nowhere
  context: {cluster: nowhere, user: nobody}
clusters:
- name: nowhere
  cluster: {server: 'http://127.0.0.1:1'}
users:
- name: nobody
  user: {}
";

#[tokio::test]
async fn in_mode_kube_nobody_gets_in_without_a_token_and_health_is_free() {
    let place = Place::new(SIMPLE);
    let kubeconfig = place.path("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let flags = [
        "--auth-mode",
        "kube",
        "--kube-audience",
        "ws.ns",
        "--kube-workspace-namespace",
        "ns",
        "--kube-workspace-name",
        "ws",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let agent = place.serve(&flags).await;
    let status = agent
        .automation()
        .await
        .pulumi_version(PulumiVersionRequest {})
        .await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert_eq!(status.message(), "Request unauthenticated with Bearer");
    let mut request = Request::new(ListRunsRequest {});
    request
        .metadata_mut()
        .insert("authorization", "Basic x".parse().unwrap());
    let status = agent.runs().await.list_runs(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let mut health = HealthClient::new(agent.channel().await);
    let answer = health
        .check(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        answer.status(),
        tonic_health::pb::health_check_response::ServingStatus::Serving
    );
    assert!(place.calls().is_empty());
}
