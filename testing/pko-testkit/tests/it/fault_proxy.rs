//! The fault proxy in front of a real API server, with an ordinary client.

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
use pko_testkit::audit::AuditPosition;
use pko_testkit::fault_proxy::{ApiWrite, KillPoint, WriteFailure};
use pko_testkit::{ControlPlane, FaultProxy, TestNamespace, eventually, with_namespace};
use serde_json::json;

const USER: &str = "through-the-proxy";

struct ProxyFixture {
    proxy: FaultProxy,
    /// Past the proxy.
    real: Api<ConfigMap>,
    /// Through it.
    api: Api<ConfigMap>,
}

impl ProxyFixture {
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
    // Retries would hide the faults
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// The name or value of the next watch event.
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
async fn proxy_counts_writes_and_acts_as_user() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        fixture.create("a").await.unwrap();
        fixture.api.get("a").await.unwrap();
        fixture
            .api
            .delete("a", &DeleteParams::default())
            .await
            .unwrap();
        let folder = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
        let write = |method: &str, path: &str| ApiWrite {
            method: method.to_owned(),
            path: format!("{folder}{path}"),
        };
        let expected = [write("POST", ""), write("DELETE", "/a")];
        assert_eq!(fixture.proxy.writes(), expected);
        let requests = plane.requests_since(AuditPosition::START).await.unwrap();
        let requests = requests
            .by_user(USER)
            .only(|it| it.namespace == namespace.name());
        assert_eq!(requests.writes().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn kill_before_write_prevents_it_and_after_keeps_it() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        for (name, when, stored) in [
            ("before", KillPoint::Before, false),
            ("after", KillPoint::After, true),
        ] {
            let killed = Arc::new(AtomicUsize::new(0));
            let action = Arc::clone(&killed);
            let action = move || {
                action.fetch_add(1, Ordering::SeqCst);
            };
            fixture.proxy.kill_at(2, when, action);
            fixture.create(&format!("{name}-first")).await.unwrap();
            let write = async {
                let error = fixture.create(name).await.unwrap_err();
                assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
            };
            let outside = async {
                eventually("the kill", async || {
                    let killed = killed.load(Ordering::SeqCst);
                    if killed == 1 { Ok(()) } else { Err(killed) }
                })
                .await
                .unwrap();
                assert_eq!(fixture.exists(name).await, stored);
                // The next client is not concerned
                let next = Api::namespaced(client(&fixture.proxy).await, namespace.name());
                let _: ConfigMap = next.get(&format!("{name}-first")).await.unwrap();
                fixture.proxy.resume();
            };
            tokio::join!(write, outside);
            assert_eq!(fixture.exists(name).await, stored, "{name}");
            assert_eq!(killed.load(Ordering::SeqCst), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn failing_writes_return_the_requested_failure() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        let table = [
            (WriteFailure::TooManyRequests, Some(429), false),
            (WriteFailure::ServerError, Some(500), false),
            (WriteFailure::TimeoutAfterCommit, Some(504), true),
            (WriteFailure::CutAfterCommit, None, true),
        ];
        for (number, (how, code, stored)) in table.into_iter().enumerate() {
            fixture.proxy.fail(2, how);
            fixture.create(&format!("good-{number}")).await.unwrap();
            let name = format!("bad-{number}");
            let seen = match fixture.create(&name).await.unwrap_err() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            };
            assert_eq!(seen, code, "{how:?}");
            assert_eq!(fixture.exists(&name).await, stored, "{how:?}");
        }
        fixture.proxy.fail_from(1, 2, WriteFailure::ServerError);
        fixture.create("first").await.unwrap_err();
        fixture.create("second").await.unwrap();
        assert_eq!(
            fixture.proxy.fault_count(),
            5,
            "one of each kind, and one more"
        );
        fixture.proxy.clear_faults();
        fixture.create("one").await.unwrap();
        fixture.create("two").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn watch_delivers_each_event() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        let mut events = fixture.watch().await;
        for name in ["one", "two", "three"] {
            fixture.create(name).await.unwrap();
            assert_eq!(next(&mut events).await.as_deref(), Some(name));
        }
    })
    .await;
}

#[tokio::test]
async fn watches_are_cut_and_expired_on_demand() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        let mut events = fixture.watch().await;
        fixture.proxy.expire_watches();
        let event = events.try_next().await.unwrap().unwrap();
        let WatchEvent::Error(status) = event else {
            panic!("{event:?}");
        };
        assert_eq!((status.code, &*status.reason), (410, "Expired"));
        assert!(events.try_next().await.unwrap().is_none(), "the watch ends");

        let mut events = fixture.watch().await;
        fixture.proxy.cut_watches();
        let end = events.try_next().await;
        assert!(!matches!(end, Ok(Some(_))), "{end:?}");

        let mut events = fixture.watch().await;
        fixture.create("later").await.unwrap();
        assert_eq!(next(&mut events).await.as_deref(), Some("later"));
    })
    .await;
}

#[tokio::test]
async fn watch_events_are_dropped_and_delayed_by_resource() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        fixture.create("map").await.unwrap();
        fixture.proxy.drop_watch_events("secrets", 1);
        fixture.proxy.drop_watch_events("configmaps", 2);
        let mut events = fixture.watch().await;
        for value in 1..=5 {
            fixture.change("map", value).await;
        }
        for value in ["1", "3", "5"] {
            assert_eq!(next(&mut events).await.as_deref(), Some(value));
        }
        fixture.proxy.clear_faults();
        let delay = Duration::from_millis(300);
        fixture.proxy.delay_watch("configmaps", delay);
        let start = std::time::Instant::now();
        fixture.change("map", 6).await;
        assert_eq!(next(&mut events).await.as_deref(), Some("6"));
        assert!(
            start.elapsed() >= delay,
            "never earlier, however busy the machine is"
        );
    })
    .await;
}

#[tokio::test]
async fn coalesced_watch_delivers_the_last_change() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        fixture.create("map").await.unwrap();
        // Longer than the changes take, however busy the machine is
        let window = Duration::from_secs(5);
        fixture.proxy.coalesce_watch("configmaps", window);
        let mut events = fixture.watch().await;
        for value in 1..=5 {
            fixture.change("map", value).await;
        }
        fixture.create("other").await.unwrap();
        assert_eq!(next(&mut events).await.as_deref(), Some("5"));
        assert_eq!(next(&mut events).await.as_deref(), Some("other"));
    })
    .await;
}

#[tokio::test]
async fn replayed_list_is_stale_once_and_watch_catches_up() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        let parameters = ListParams::default().limit(100);
        let names = async || {
            let list = fixture.api.list(&parameters).await.unwrap();
            let names: Vec<String> = list.iter().map(ConfigMap::name_any).collect();
            (names, list.metadata.resource_version.unwrap())
        };
        fixture.create("early").await.unwrap();
        let (now, _) = names().await;
        fixture.proxy.record_lists().await.unwrap();
        fixture.create("late").await.unwrap();
        fixture.proxy.replay_lists("secrets");
        assert_eq!(names().await.0.len(), now.len() + 1);

        fixture.proxy.replay_lists("configmaps");
        let (old, version) = names().await;
        assert_eq!(old, now);
        let watch = WatchParams::default();
        let mut events = fixture.api.watch(&watch, &version).await.unwrap().boxed();
        assert_eq!(next(&mut events).await.as_deref(), Some("late"));
        assert_eq!(names().await.0.len(), now.len() + 1, "then the truth");
        assert_eq!(fixture.proxy.fault_count(), 1);
    })
    .await;
}

#[tokio::test]
async fn outage_refuses_connections_until_over() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let fixture = ProxyFixture::new(&plane, namespace).await;
        let mut events = fixture.watch().await;
        fixture.proxy.set_outage(true);
        let error = fixture.create("during").await.unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
        let end = events.try_next().await;
        assert!(!matches!(end, Ok(Some(_))), "{end:?}");
        fixture.proxy.set_outage(false);
        fixture.create("after").await.unwrap();
        assert!(!fixture.exists("during").await);
    })
    .await;
}
