//! A manager of some namespaces: it works there, and looks nowhere else.

use crate::harness::{System, Watched};

#[tokio::test]
async fn manager_of_two_namespaces_requests_only_these() {
    let system = System::start_watching(Watched::Namespaces(2), &[]).await;
    let (one, two) = (system.namespace().await, system.namespace().await);
    System::works(&one, "first").await;
    System::works(&two, "second").await;
    System::works(&one, "third").await;

    let requests = system.requests().await;
    assert!(!requests.is_empty());
    let ours = requests.only(|request| {
        let elsewhere = ![one.name(), two.name()].contains(&&*request.namespace);
        request.resource.contains(".pulumi.com") && elsewhere
    });
    assert!(ours.is_empty(), "{}", ours.counts());
}
