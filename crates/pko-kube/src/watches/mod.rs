//! Watches: a list followed by changes, restarted with backoff after an error.
//!
//! They give the events and errors of `kube`'s watcher, in the same order. The difference is that
//! each object is read on its own, see [`crate::read_json`]: in `kube`'s, one that can't be read
//! stops the watch for all others. And a page of a list has about as many bytes as the one before,
//! however large its objects are.

mod changes;
mod page_size;

use std::{collections::VecDeque, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use kube::{
    Client, Error, Resource,
    api::{ApiResource, ListParams, WatchParams},
    core::Request,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};

use self::{
    changes::{Change, Changes},
    page_size::next_page_size,
};
use crate::{
    Namespaced, StatusObject,
    read_json::{Page, ReadJson, read_item, text_of},
};

pub type EventStream<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// After this long the API server ends a watch, and it is begun again.
const WATCH_SECONDS: u32 = 290;
/// The code for a resource version that the API server remembers no more.
const EXPIRED: u16 = 410;
/// How much later a silent connection counts as dead.
const SILENCE: Duration = Duration::from_secs(295);

/// Watches the objects of a kind in one namespace, or in all, that have these labels.
#[must_use]
pub fn watch<K>(client: &Client, namespace: Option<&str>, labels: Option<&str>) -> EventStream<K>
where
    K: Namespaced + Send + 'static,
{
    let path = K::url_path(&(), namespace);
    Watcher::<K>::new(client, path, labels).events()
}

/// Watches metadata and status of the objects of a kind that is known at run time only, in one
/// namespace or in all.
#[must_use]
pub fn watch_status(
    client: &Client,
    namespace: Option<&str>,
    resource: &ApiResource,
) -> EventStream<StatusObject> {
    let path = StatusObject::url_path(resource, namespace);
    Watcher::<StatusObject>::new(client, path, None).events()
}

struct Watcher<K> {
    client: Client,
    request: Request,
    labels: Option<String>,
    page_size: u32,
    state: State,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// Where a watch is.
enum State {
    /// Before a list.
    Empty,
    /// Between the pages of a list, or in one.
    Listing {
        /// What is left of the page.
        items: VecDeque<String>,
        /// Where the next page begins.
        continue_token: Option<String>,
        /// Of the last page; none before the first.
        resource_version: Option<String>,
    },
    Listed {
        resource_version: String,
    },
    Watching {
        resource_version: String,
        changes: Changes,
    },
}

/// An event, if there is one, and what follows.
type Transition<K> = (Option<watcher::Result<Event<K>>>, State);

impl<K> Watcher<K>
where
    K: Resource + ReadJson + serde::de::DeserializeOwned + Clone + Send + 'static,
{
    fn new(client: &Client, path: String, labels: Option<&str>) -> Self {
        Self {
            client: client.clone(),
            request: Request::new(path),
            labels: labels.map(ToOwned::to_owned),
            page_size: page_size::FIRST,
            state: State::Empty,
            kind: std::marker::PhantomData,
        }
    }

    fn events(self) -> EventStream<K> {
        let events = futures::stream::unfold(self, |mut watcher| async {
            let event = watcher.next().await;
            Some((event, watcher))
        });
        events.default_backoff().boxed()
    }

    async fn next(&mut self) -> watcher::Result<Event<K>> {
        loop {
            // An interrupted step begins with a list.
            let state = std::mem::replace(&mut self.state, State::Empty);
            let (event, next) = self.step(state).await;
            self.state = next;
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn step(&mut self, state: State) -> Transition<K> {
        match state {
            State::Empty => {
                let listing = State::Listing {
                    items: VecDeque::new(),
                    continue_token: None,
                    resource_version: None,
                };
                (Some(Ok(Event::Init)), listing)
            }
            State::Listing {
                mut items,
                continue_token,
                resource_version,
            } => match (items.pop_front(), resource_version) {
                (Some(item), resource_version) => {
                    let item = read_listed(&item);
                    let listing = State::Listing {
                        items,
                        continue_token,
                        resource_version,
                    };
                    (item.map(|item| Ok(Event::InitApply(item))), listing)
                }
                (None, Some(resource_version)) if continue_token.is_none() => (
                    Some(Ok(Event::InitDone)),
                    State::Listed { resource_version },
                ),
                (None, _) => self.list(continue_token).await,
            },
            State::Listed { resource_version } => self.begin(resource_version).await,
            State::Watching {
                resource_version,
                mut changes,
            } => match changes.next(SILENCE).await {
                Some(Ok(change)) => changed(change, resource_version, changes),
                Some(Err(error)) => {
                    let watching = State::Watching {
                        resource_version,
                        changes,
                    };
                    (Some(Err(watcher::Error::WatchFailed(error))), watching)
                }
                None => (None, State::Listed { resource_version }),
            },
        }
    }

    /// Reads the next page of the list.
    async fn list(&mut self, continue_token: Option<String>) -> Transition<K> {
        let parameters = ListParams {
            label_selector: self.labels.clone(),
            limit: Some(self.page_size),
            continue_token,
            ..ListParams::default()
        };
        let text = text_of(&self.client, "list", self.request.list(&parameters)).await;
        let page = match text.and_then(|text| Page::new(&text)) {
            Ok(page) => page,
            Err(error) => {
                let error = watcher::Error::InitialListFailed(error);
                return (Some(Err(error)), State::Empty);
            }
        };
        if page.resource_version.is_none() && page.continue_token.is_none() {
            return (Some(Err(watcher::Error::NoResourceVersion)), State::Empty);
        }
        self.page_size = next_page_size(self.page_size, page.items.len(), page.bytes);
        let listing = State::Listing {
            items: page.items.into(),
            continue_token: page.continue_token,
            resource_version: page.resource_version,
        };
        (None, listing)
    }

    /// Begins to watch.
    async fn begin(&mut self, resource_version: String) -> Transition<K> {
        let parameters = WatchParams {
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let request = self.request.watch(&parameters, &resource_version);
        match Changes::begin(&self.client, request).await {
            Ok(changes) => {
                let watching = State::Watching {
                    resource_version,
                    changes,
                };
                (None, watching)
            }
            Err(error) => {
                let is_expired = matches!(&error, Error::Api(status) if status.code == EXPIRED);
                let next = if is_expired {
                    State::Empty
                } else {
                    State::Listed { resource_version }
                };
                (Some(Err(watcher::Error::WatchStartFailed(error))), next)
            }
        }
    }
}

/// What follows from a change.
fn changed<K>(change: Change, resource_version: String, changes: Changes) -> Transition<K>
where
    K: Resource + ReadJson + serde::de::DeserializeOwned,
{
    let (object, event): (K, fn(K) -> Event<K>) = match change {
        Change::Bookmark(resource_version) => {
            let watching = State::Watching {
                resource_version,
                changes,
            };
            return (None, watching);
        }
        Change::Failed(status) => {
            let next = if status.code == EXPIRED {
                State::Empty
            } else {
                State::Watching {
                    resource_version,
                    changes,
                }
            };
            return (Some(Err(watcher::Error::WatchError(status))), next);
        }
        Change::Applied(json) => match read_item(&json) {
            Ok(object) => (object, Event::Apply),
            Err(error) => return skipped(error, resource_version, changes),
        },
        Change::Deleted(json) => match read_item(&json) {
            Ok(object) => (object, Event::Delete),
            Err(error) => return skipped(error, resource_version, changes),
        },
    };
    match object.meta().resource_version.clone() {
        Some(resource_version) if !resource_version.is_empty() => {
            let watching = State::Watching {
                resource_version,
                changes,
            };
            (Some(Ok(event(object))), watching)
        }
        _ => (Some(Err(watcher::Error::NoResourceVersion)), State::Empty),
    }
}

/// A change without readable identity is an error, and the next one is read all the same.
fn skipped<K>(error: Error, resource_version: String, changes: Changes) -> Transition<K> {
    let watching = State::Watching {
        resource_version,
        changes,
    };
    (Some(Err(watcher::Error::WatchFailed(error))), watching)
}

/// An object of a list. One without readable identity is left out.
fn read_listed<K: ReadJson + serde::de::DeserializeOwned>(json: &str) -> Option<K> {
    let read = read_item(json);
    if let Err(error) = &read {
        tracing::error!(%error, "Ignoring an object that does not decode");
    }
    read.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Request as HttpRequest, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use pko_api::{Decoded, Stack};
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    /// A client with these responses, and the requests it has sent.
    fn client(responses: &[(u16, String)]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let responses = Arc::new(Mutex::new(VecDeque::from(responses.to_vec())));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&sent);
        let service = service_fn(move |request: HttpRequest<Body>| {
            requests.lock().push(request.uri().to_string());
            let response = responses.lock().pop_front();
            async move {
                let (code, text) = response.ok_or("no response is left")?;
                let response = Response::builder().status(code);
                Ok::<_, BoxError>(response.body(Body::from(text.into_bytes()))?)
            }
        });
        (Client::new(service, "default"), sent)
    }

    fn watcher(client: &Client) -> Watcher<Decoded<Stack>> {
        let path = Decoded::<Stack>::url_path(&(), Some("shop"));
        Watcher::new(client, path, Some("a=b"))
    }

    fn stack(name: &str, version: &str) -> String {
        let metadata = json!({ "name": name, "resourceVersion": version });
        json!({ "metadata": metadata, "spec": { "stack": "dev" } }).to_string()
    }

    fn deep(name: &str, version: &str) -> String {
        let config = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        let config = format!("\"stack\":\"dev\",\"config\":{config}");
        stack(name, version).replace("\"stack\":\"dev\"", &config)
    }

    fn list(token: &str, items: &[String]) -> (u16, String) {
        let metadata = json!({ "resourceVersion": "9", "continue": token });
        let items = items.join(",");
        (
            200,
            format!("{{\"metadata\":{metadata},\"items\":[{items}]}}"),
        )
    }

    fn change(kind: &str, object: &str) -> String {
        format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
    }

    async fn next(watcher: &mut Watcher<Decoded<Stack>>) -> String {
        let name = |object: &Decoded<Stack>| {
            let mark = if object.as_result().is_ok() { "" } else { "?" };
            format!("{}{mark}", object.meta().name.clone().unwrap())
        };
        match watcher.next().await {
            Ok(Event::Init) => "[".to_owned(),
            Ok(Event::InitApply(object)) => name(&object),
            Ok(Event::InitDone) => "]".to_owned(),
            Ok(Event::Apply(object)) => format!("+{}", name(&object)),
            Ok(Event::Delete(object)) => format!("-{}", name(&object)),
            Err(error) => format!("{error:?}").chars().take(15).collect(),
        }
    }

    async fn events(watcher: &mut Watcher<Decoded<Stack>>, count: usize) -> String {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(next(watcher).await);
        }
        events.join(" ")
    }

    #[tokio::test]
    async fn watch_lists_pages_and_follows_changes_of_any_depth() {
        let bookmark = json!({ "metadata": { "resourceVersion": "15" } }).to_string();
        let changes = [
            change("ADDED", &deep("c", "10")),
            change("MODIFIED", &stack("a", "11")),
            change("DELETED", &deep("b", "12")),
            change("BOOKMARK", &bookmark),
            "{\"type\":\"ADDED\",\"obj".to_owned(),
        ];
        let (client, sent) = client(&[
            list("more", &[stack("a", "1"), deep("b", "2")]),
            list("", &[stack("d", "3")]),
            (200, changes.concat()),
            (200, change("MODIFIED", &stack("a", "16"))),
        ]);
        let mut watcher = watcher(&client);
        assert_eq!(events(&mut watcher, 9).await, "[ a b? d ] +c? +a -b? +a");
        let sent = sent.lock().clone();
        let path = "/apis/pulumi.com/v1/namespaces/shop/stacks";
        assert!(
            sent.iter().all(|request| request.starts_with(path)),
            "{sent:?}"
        );
        assert!(sent[0].contains("labelSelector=a%3Db") && sent[0].contains("limit=20"));
        assert!(sent[1].contains("continue=more"), "{sent:?}");
        assert!(sent[2].contains("watch=true") && sent[2].contains("resourceVersion=9"));
        assert!(
            sent[3].contains("resourceVersion=15"),
            "after the bookmark: {sent:?}"
        );
    }

    #[tokio::test]
    async fn watch_that_has_expired_begins_with_a_list() {
        let gone: Value = json!({ "kind": "Status", "status": "Failure", "code": 410 });
        let (client, sent) = client(&[
            list("", &[stack("a", "1")]),
            (200, change("ERROR", &gone.to_string())),
            list("", &[]),
            (500, "upstream connect error".to_owned()),
            (410, gone.to_string()),
            list("", &[]),
            (200, change("ADDED", &stack("a", "10"))),
        ]);
        let mut watcher = watcher(&client);
        assert_eq!(
            events(&mut watcher, 10).await,
            "[ a ] WatchError(Stat [ ] WatchStartFaile WatchStartFaile [ ]"
        );
        assert_eq!(next(&mut watcher).await, "+a");
        assert_eq!(sent.lock().len(), 7);
    }

    #[tokio::test]
    async fn watch_list_that_fails_begins_again() {
        let (client, _) = client(&[
            list("more", &[stack("a", "1")]),
            (410, "{}".to_owned()),
            (200, "no list".to_owned()),
            (200, "{\"metadata\":{},\"items\":[]}".to_owned()),
            list("", &[]),
        ]);
        let mut watcher = watcher(&client);
        assert_eq!(
            events(&mut watcher, 9).await,
            "[ a InitialListFail [ InitialListFail [ NoResourceVersi [ ]"
        );
    }
}
