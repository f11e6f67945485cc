//! The life of a Stack on a real node, and what its user sees of it.

use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    place::beside_others,
    stacks::{program, program_stack},
};

#[tokio::test]
async fn a_stack_lives_and_dies_in_a_restricted_pod_without_a_service_account_of_its_own() {
    beside_others(async |place| {
        place.create(program("demo", &["one", "two"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true);
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["one"], json!("kept by one"));
        assert!(place.has_resources("demo"));
        let pod = place.pod("demo").await.unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("default"));

        let uid = place.pod_uid("demo").await;
        place.request("demo", "again").await;
        place.ready("demo").await;
        assert_eq!(place.pod_uid("demo").await, uid, "the pod stays");

        place.delete("demo", &DeleteParams::default()).await;
        place.no_pod("demo").await;
        assert!(!place.has_resources("demo"), "it was destroyed");
    })
    .await;
}
