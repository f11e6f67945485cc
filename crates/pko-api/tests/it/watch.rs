//! An object that does not decode affects only itself: the watch continues for all others.

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use pko_api::{Decoded, Stack, Update};
use pko_testkit::{StackBuilder, UpdateBuilder, with_namespace};
use serde_json::json;

use crate::plane::with_our_crds;

#[tokio::test]
async fn undecodable_stack_does_not_stop_watch() {
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        let stack = |name: &str, config| {
            StackBuilder::new(name)
                .stack("dev")
                .set("/spec/config", config)
                .build()
        };
        namespace
            .create_object(stack("good-before", json!({ "a": 1 })))
            .await
            .unwrap();
        namespace
            .create_object(stack("bad-before", json!([1, 2])))
            .await
            .unwrap();

        // The plain type fails on the whole list, which ends a watch.
        let typed: Api<Stack> = namespace.api();
        assert!(typed.list(&ListParams::default()).await.is_err());

        let guarded: Api<Decoded<Stack>> = namespace.api();
        let events = watcher(guarded, watcher::Config::default()).applied_objects();
        let mut events = std::pin::pin!(events.map_ok(|stack| {
            (
                stack.name_any(),
                stack
                    .as_result()
                    .map(|_| ())
                    .map_err(|bad| bad.error.to_string()),
            )
        }));
        let mut seen = vec![
            events.next().await.unwrap().unwrap(),
            events.next().await.unwrap().unwrap(),
        ];

        namespace
            .create_object(stack("bad-after", json!("text")))
            .await
            .unwrap();
        seen.push(events.next().await.unwrap().unwrap());
        namespace
            .create_object(stack("good-after", json!({ "b": 2 })))
            .await
            .unwrap();
        seen.push(events.next().await.unwrap().unwrap());

        seen.sort();
        let problem = |value: &str, found: &str| {
            Err(format!(
                "spec.config: {value}: invalid type: {found}, expected a map"
            ))
        };
        assert_eq!(
            seen,
            [
                ("bad-after".into(), problem("\"text\"", "string \"text\"")),
                ("bad-before".into(), problem("[1,2]", "sequence")),
                ("good-after".into(), Ok(())),
                ("good-before".into(), Ok(())),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn invalid_duration_is_stored_and_reported() {
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        let update = UpdateBuilder::new("bad", "workspace", "dev", "up")
            .set("/spec/ttlAfterCompleted", "abc");
        namespace.create_object(update.build()).await.unwrap();
        let update = namespace.api::<Decoded<Update>>().get("bad").await.unwrap();
        let error = &update.as_result().unwrap_err().error;
        assert_eq!(
            (error.field.as_str(), error.value.as_deref()),
            ("spec.ttlAfterCompleted", Some("\"abc\""))
        );
    })
    .await;
}
