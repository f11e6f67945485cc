//! A manager of some namespaces: it works there, and looks nowhere else.

use pko_testkit::{TestNamespace, audit::Mark};

use crate::system::System;

#[tokio::test]
async fn a_manager_of_two_namespaces_looks_into_these_two_only() {
    let system = System::without_manager(&[]).await;
    let one = TestNamespace::create(&system.plane).await.unwrap();
    let two = TestNamespace::create(&system.plane).await.unwrap();
    let namespaces = format!("{},{}", one.name(), two.name());
    let mut manager = system.start_another("some", &["--namespaces", &namespaces]);
    System::works(&one, "first").await;
    System::works(&two, "second").await;
    System::works(&one, "third").await;

    let requests = system.plane.requests_since(Mark::START).await.unwrap();
    let ours = requests.by_user("manager").only(|request| {
        let elsewhere = ![one.name(), two.name()].contains(&&*request.namespace);
        request.resource.contains(".pulumi.com") && elsewhere
    });
    assert!(ours.is_empty(), "{}", ours.counts());
    manager.kill().unwrap();
    manager.wait().unwrap();
}
