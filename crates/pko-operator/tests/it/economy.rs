//! What the operator costs the API server, counted from its audit log.

use pko_testkit::{ProgramBuilder, StackBuilder, with_namespace};
use serde_json::json;

use crate::{system::System, trail::Trail};

/// Upstream's operator writes 28 times for the same, events included.
const MOST_WRITES: usize = 20;

#[tokio::test]
async fn a_first_update_takes_few_writes() {
    let system = System::start(&[]).await;
    with_namespace(&system.plane, async |namespace| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
            "stringData": { "passphrase": "correct-horse" },
        });
        namespace.create_object(secret).await.unwrap();
        let mark = system.plane.audit_mark().await.unwrap();
        namespace
            .create_object(ProgramBuilder::new("demo").output("a", "b").build())
            .await
            .unwrap();
        let trail = Trail::of(namespace, "demo");
        let stack = StackBuilder::new("demo")
            .stack("dev")
            .backend(&system.backend())
            .program("demo")
            .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
            .build();
        namespace.create_object(stack).await.unwrap();
        trail.until("Ready").await;
        let requests = system
            .plane
            .requests_since(mark)
            .await
            .unwrap()
            .by_user("manager");
        let counts = requests.counts();
        let writes = requests.writes().len();
        assert!(writes <= MOST_WRITES, "{writes} writes:\n{counts}");
    })
    .await;
}
