//! The fault proxy before a real API server, with a client that knows nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use pko_testkit::audit::Mark;
use pko_testkit::fault_proxy::{Failure, When, Write};
use pko_testkit::{ControlPlane, FaultProxy, TestNamespace, eventually, with_namespace};
use serde_json::json;

const USER: &str = "through-the-proxy";

struct Scene {
    proxy: FaultProxy,
    /// Past the proxy.
    real: Api<ConfigMap>,
    /// Through it.
    api: Api<ConfigMap>,
}

impl Scene {
    async fn new(plane: &ControlPlane, namespace: &TestNamespace) -> Self {
        let proxy = FaultProxy::start(plane, USER, &["system:masters"]).unwrap();
        let api = client(&proxy).await;
        Self {
            api: Api::namespaced(api, namespace.name()),
            real: namespace.api(),
            proxy,
        }
    }

    async fn create(&self, name: &str) -> Result<ConfigMap, kube::Error> {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        self.api.create(&PostParams::default(), &map).await
    }

    async fn exists(&self, name: &str) -> bool {
        self.real.get_opt(name).await.unwrap().is_some()
    }

    async fn change(&self, name: &str, value: usize) {
        let patch = Patch::Merge(json!({ "data": { "value": value.to_string() } }));
        let parameters = PatchParams::default();
        self.real.patch(name, &parameters, &patch).await.unwrap();
    }

    /// A watch through the proxy, from now on.
    async fn watch(&self) -> BoxStream<'static, Result<WatchEvent<ConfigMap>, kube::Error>> {
        let list = self.real.list(&ListParams::default()).await.unwrap();
        let version = list.metadata.resource_version.unwrap();
        let parameters = WatchParams::default();
        self.api.watch(&parameters, &version).await.unwrap().boxed()
    }
}

async fn client(proxy: &FaultProxy) -> Client {
    let kubeconfig = Kubeconfig::read_from(proxy.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    // What the proxy does is to be seen, not repaired
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// The name and the value of the next change that a watch tells.
async fn next(
    events: &mut BoxStream<'static, Result<WatchEvent<ConfigMap>, kube::Error>>,
) -> Option<String> {
    match events.try_next().await.unwrap()? {
        WatchEvent::Added(map) => Some(map.name_any()),
        WatchEvent::Modified(map) => map.data?.remove("value"),
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test]
async fn writes_are_counted_and_made_as_the_user() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        scene.create("a").await.unwrap();
        scene.api.get("a").await.unwrap();
        scene
            .api
            .delete("a", &DeleteParams::default())
            .await
            .unwrap();
        let folder = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
        let write = |method: &str, path: &str| Write {
            method: method.to_owned(),
            path: format!("{folder}{path}"),
        };
        let expected = [write("POST", ""), write("DELETE", "/a")];
        assert_eq!(scene.proxy.writes(), expected);
        let requests = plane.requests_since(Mark::START).await.unwrap();
        let requests = requests
            .by_user(USER)
            .only(|it| it.namespace == namespace.name());
        assert_eq!(requests.writes().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_kill_before_a_write_prevents_it_and_one_after_it_does_not() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        for (name, when, stored) in [
            ("before", When::Before, false),
            ("after", When::After, true),
        ] {
            let killed = Arc::new(AtomicUsize::new(0));
            let deed = Arc::clone(&killed);
            let deed = move || {
                deed.fetch_add(1, Ordering::SeqCst);
            };
            scene.proxy.kill_at(2, when, deed);
            scene.create(&format!("{name}-first")).await.unwrap();
            let write = async {
                let error = scene.create(name).await.unwrap_err();
                assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
            };
            let outside = async {
                eventually("the kill", async || {
                    let killed = killed.load(Ordering::SeqCst);
                    if killed == 1 { Ok(()) } else { Err(killed) }
                })
                .await
                .unwrap();
                assert_eq!(scene.exists(name).await, stored);
                // The next client is not concerned
                let next = Api::namespaced(client(&scene.proxy).await, namespace.name());
                let _: ConfigMap = next.get(&format!("{name}-first")).await.unwrap();
                scene.proxy.resume();
            };
            tokio::join!(write, outside);
            assert_eq!(scene.exists(name).await, stored, "{name}");
            assert_eq!(killed.load(Ordering::SeqCst), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn every_second_write_fails_as_it_was_asked_to() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        let table = [
            (Failure::TooManyRequests, Some(429), false),
            (Failure::ServerError, Some(500), false),
            (Failure::TimeoutAfterCommit, Some(504), true),
            (Failure::CutAfterCommit, None, true),
        ];
        for (number, (how, code, stored)) in table.into_iter().enumerate() {
            scene.proxy.fail(2, how);
            scene.create(&format!("good-{number}")).await.unwrap();
            let name = format!("bad-{number}");
            let seen = match scene.create(&name).await.unwrap_err() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            };
            assert_eq!(seen, code, "{how:?}");
            assert_eq!(scene.exists(&name).await, stored, "{how:?}");
        }
        scene.proxy.fail_from(1, 2, Failure::ServerError);
        scene.create("first").await.unwrap_err();
        scene.create("second").await.unwrap();
        assert_eq!(scene.proxy.met(), 5, "one of each kind, and one more");
        scene.proxy.heal();
        scene.create("one").await.unwrap();
        scene.create("two").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_watch_passes_event_by_event() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        let mut events = scene.watch().await;
        for name in ["one", "two", "three"] {
            scene.create(name).await.unwrap();
            assert_eq!(next(&mut events).await.as_deref(), Some(name));
        }
    })
    .await;
}

#[tokio::test]
async fn watches_are_cut_and_too_old_on_demand() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        let mut events = scene.watch().await;
        scene.proxy.gone();
        let event = events.try_next().await.unwrap().unwrap();
        let WatchEvent::Error(status) = event else {
            panic!("{event:?}");
        };
        assert_eq!((status.code, &*status.reason), (410, "Expired"));
        assert!(events.try_next().await.unwrap().is_none(), "the watch ends");

        let mut events = scene.watch().await;
        scene.proxy.cut_watches();
        let end = events.try_next().await;
        assert!(!matches!(end, Ok(Some(_))), "{end:?}");

        let mut events = scene.watch().await;
        scene.create("later").await.unwrap();
        assert_eq!(next(&mut events).await.as_deref(), Some("later"));
    })
    .await;
}

#[tokio::test]
async fn events_are_dropped_and_delayed_by_resource() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        scene.create("map").await.unwrap();
        scene.proxy.drop_watch_events("secrets", 1);
        scene.proxy.drop_watch_events("configmaps", 2);
        let mut events = scene.watch().await;
        for value in 1..=5 {
            scene.change("map", value).await;
        }
        for value in ["1", "3", "5"] {
            assert_eq!(next(&mut events).await.as_deref(), Some(value));
        }
        scene.proxy.heal();
        let delay = Duration::from_millis(300);
        scene.proxy.delay_watch("configmaps", delay);
        let start = std::time::Instant::now();
        scene.change("map", 6).await;
        assert_eq!(next(&mut events).await.as_deref(), Some("6"));
        assert!(
            start.elapsed() >= delay,
            "never earlier, however busy the machine is"
        );
    })
    .await;
}

#[tokio::test]
async fn of_changes_that_gather_the_last_is_told() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        scene.create("map").await.unwrap();
        // Longer than the changes take, however busy the machine is
        let window = Duration::from_secs(5);
        scene.proxy.coalesce_watch("configmaps", window);
        let mut events = scene.watch().await;
        for value in 1..=5 {
            scene.change("map", value).await;
        }
        scene.create("other").await.unwrap();
        assert_eq!(next(&mut events).await.as_deref(), Some("5"));
        assert_eq!(next(&mut events).await.as_deref(), Some("other"));
    })
    .await;
}

#[tokio::test]
async fn a_list_of_before_is_told_once_and_a_watch_from_there_catches_up() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        let parameters = ListParams::default().limit(100);
        let names = async || {
            let list = scene.api.list(&parameters).await.unwrap();
            let names: Vec<String> = list.iter().map(ConfigMap::name_any).collect();
            (names, list.metadata.resource_version.unwrap())
        };
        scene.create("early").await.unwrap();
        let (now, _) = names().await;
        scene.proxy.keep_lists().await.unwrap();
        scene.create("late").await.unwrap();
        scene.proxy.replay_lists("secrets");
        assert_eq!(names().await.0.len(), now.len() + 1);

        scene.proxy.replay_lists("configmaps");
        let (old, version) = names().await;
        assert_eq!(old, now);
        let watch = WatchParams::default();
        let mut events = scene.api.watch(&watch, &version).await.unwrap().boxed();
        assert_eq!(next(&mut events).await.as_deref(), Some("late"));
        assert_eq!(names().await.0.len(), now.len() + 1, "then the truth");
        assert_eq!(scene.proxy.met(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_outage_refuses_everybody_until_it_is_over() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let scene = Scene::new(&plane, namespace).await;
        let mut events = scene.watch().await;
        scene.proxy.outage(true);
        let error = scene.create("during").await.unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
        let end = events.try_next().await;
        assert!(!matches!(end, Ok(Some(_))), "{end:?}");
        scene.proxy.outage(false);
        scene.create("after").await.unwrap();
        assert!(!scene.exists("during").await);
    })
    .await;
}
