//! A namespace per test: created for it, printed when it fails, removed after it.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::control_plane::{AccessError, ControlPlane};
use crate::eventually::{TimedOut, eventually};

mod contents;
mod dump;
mod removal;
mod status_check;

/// Names are at most 63 characters, five of them the server's.
const LONGEST_PREFIX: usize = 50;

/// Runs a test in a namespace of its own.
///
/// When the test panics or returns an error, all objects of the namespace are printed to standard
/// error, without the values of Secrets. A test that passes fails after all if a Stack, Workspace,
/// Update or Program that it leaves has conditions against the rules of [`crate::kstatus`]; see
/// [`TestNamespace::skip_status_check`]. Either way the namespace is removed.
pub async fn with_namespace<T: TestOutcome>(
    plane: &ControlPlane,
    test: impl AsyncFnOnce(&TestNamespace) -> T,
) -> T {
    match TestNamespace::create(plane).await {
        Ok(namespace) => run_in(namespace, test).await,
        Err(error) => resume_unwind(fatal(&error)),
    }
}

/// [`with_namespace`] for a namespace that was made for the test, such as one of a real cluster.
pub async fn run_in<T: TestOutcome>(
    namespace: TestNamespace,
    test: impl AsyncFnOnce(&TestNamespace) -> T,
) -> T {
    let mut result = AssertUnwindSafe(test(&namespace)).catch_unwind().await;
    let mut failed = result.as_ref().map_or(true, TestOutcome::is_failure);
    if !failed && let Err(violation) = namespace.check_statuses().await {
        result = Err(silent_panic(violation));
        failed = true;
    }
    if failed {
        print(&namespace.dump().await);
    }
    if !namespace.is_kept.load(Ordering::Relaxed)
        && let Err(error) = namespace.remove().await
    {
        print(&format!(
            "failed to remove namespace {}: {error:?}\n",
            namespace.name()
        ));
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The return value of a test.
pub trait TestOutcome {
    fn is_failure(&self) -> bool;
}

impl TestOutcome for () {
    fn is_failure(&self) -> bool {
        false
    }
}

impl<T, E> TestOutcome for Result<T, E> {
    fn is_failure(&self) -> bool {
        self.is_err()
    }
}

/// A namespace that belongs to one test; see [`with_namespace`].
pub struct TestNamespace {
    name: String,
    client: Client,
    has_controllers: bool,
    checks_statuses: AtomicBool,
    is_kept: AtomicBool,
}

impl TestNamespace {
    /// Makes one, named after the running test, with its default service account.
    pub async fn create(plane: &ControlPlane) -> Result<Self, NamespaceError> {
        let has_controllers = plane.has_controller_manager();
        Self::make(plane.client()?, BTreeMap::new(), has_controllers).await
    }

    /// Makes one in a cluster whose controllers run, with these labels.
    pub async fn create_labelled(
        client: Client,
        labels: &[(&str, &str)],
    ) -> Result<Self, NamespaceError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self::make(client, labels.iter().map(owned).collect(), true).await
    }

    async fn make(
        client: Client,
        labels: BTreeMap<String, String>,
        has_controllers: bool,
    ) -> Result<Self, NamespaceError> {
        let prefix = prefix(thread::current().name().unwrap_or_default());
        let namespace = Namespace {
            metadata: kube::core::ObjectMeta {
                generate_name: Some(prefix),
                labels: Some(labels),
                ..Default::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(client.clone());
        let namespace = api.create(&PostParams::default(), &namespace).await?;
        let created = Self {
            name: namespace.name_any(),
            client,
            has_controllers,
            checks_statuses: AtomicBool::new(true),
            is_kept: AtomicBool::new(false),
        };
        created.ensure_default_service_account().await?;
        Ok(created)
    }

    /// Without one no pod is admitted. Where no controller makes it, we do.
    async fn ensure_default_service_account(&self) -> Result<(), NamespaceError> {
        let accounts: Api<ServiceAccount> = self.api();
        if self.has_controllers {
            let what = "the default service account";
            eventually(what, async || accounts.get("default").await).await?;
            return Ok(());
        }
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("default".to_owned());
        accounts.create(&PostParams::default(), &account).await?;
        Ok(())
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client that may do everything.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The objects of one kind in it.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.name)
    }

    /// The objects in it of the kind of a JSON object.
    pub async fn api_of(&self, object: &Value) -> Result<Api<DynamicObject>, NamespaceError> {
        let text = |field| {
            object
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, version) = text("apiVersion")
            .rsplit_once('/')
            .unwrap_or(("", text("apiVersion")));
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        let (resource, _) = pinned_kind(&self.client, &kind).await?;
        Ok(Api::namespaced_with(self.client(), &self.name, &resource))
    }

    /// Creates an object, including its status if it has one. Returns it as stored.
    pub async fn create_object(&self, object: Value) -> Result<Value, NamespaceError> {
        let api = self.api_of(&object).await?;
        let status = object.get("status").cloned();
        let object: DynamicObject = serde_json::from_value(object)?;
        let mut created = api.create(&PostParams::default(), &object).await?;
        if let Some(status) = status {
            let patch = Patch::Merge(json!({ "status": status }));
            let parameters = PatchParams::default();
            created = api
                .patch_status(&created.name_any(), &parameters, &patch)
                .await?;
        }
        Ok(serde_json::to_value(created)?)
    }

    /// Disables the status check, for a test that writes invalid statuses itself.
    pub fn skip_status_check(&self) {
        self.checks_statuses.store(false, Ordering::Relaxed);
    }

    /// [`run_in`] leaves it where it is: it ends with its plane. To remove one takes a hundred
    /// requests.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    async fn check_statuses(&self) -> Result<(), String> {
        if !self.checks_statuses.load(Ordering::Relaxed) {
            return Ok(());
        }
        match status_check::violations(&self.client, &self.name).await {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => Err(format!(
                "the test passed, but leaves statuses that break the rules of kstatus:\n  {}",
                found.join("\n  ")
            )),
            Err(error) => Err(format!(
                "the test passed, but its statuses can't be judged: {error}"
            )),
        }
    }

    /// All objects in it as YAML, without the values of Secrets.
    pub async fn dump(&self) -> String {
        match contents::of(&self.client, &self.name).await {
            Ok(objects) => dump::text(&self.name, objects),
            Err(error) => format!("failed to list what is in {}: {error}\n", self.name),
        }
    }

    /// Removes it and everything in it, ignoring finalizers.
    ///
    /// Where controllers run, they end the namespace itself a moment later.
    pub async fn remove(&self) -> Result<(), NamespaceError> {
        Ok(removal::remove(&self.client, &self.name, self.has_controllers).await?)
    }
}

/// The beginning of a namespace's name: as much of the end of a test's path as fits.
fn prefix(path: &str) -> String {
    let words = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let start = name.len().saturating_sub(LONGEST_PREFIX);
    let end = name
        .get(start..)
        .unwrap_or_default()
        .trim_start_matches('-');
    if end.is_empty() {
        "test-".to_owned()
    } else {
        format!("test-{end}-")
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test harness shows it with the failed test"
)]
fn print(text: &str) {
    eprint!("{text}");
}

fn fatal(error: &NamespaceError) -> Box<dyn Any + Send> {
    silent_panic(format!(
        "failed to make a namespace for the test: {error:?}"
    ))
}

/// A panic without the hook's message, which would name this file instead of the test's.
fn silent_panic(message: String) -> Box<dyn Any + Send> {
    print(&format!("{message}\n"));
    Box::new(message)
}

/// Why a namespace does not serve.
#[derive(thiserror::Error)]
pub enum NamespaceError {
    /// There is no way in.
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("failed to ask the API server")]
    Refused(#[from] kube::Error),
    /// The service account does not appear.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// An object is no JSON object with metadata.
    #[error("failed to read an object")]
    Object(#[from] serde_json::Error),
}

crate::error_text::debug_is_text!(NamespaceError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_prefix_is_the_test_name() {
        assert_eq!(
            prefix("stack::rules::it_works"),
            "test-stack-rules-it-works-"
        );
        assert_eq!(prefix(""), "test-");
        let long = prefix(&"a_very_long_module::".repeat(10));
        assert!(long.len() <= 58 && !long.contains("--"), "{long}");
    }
}
