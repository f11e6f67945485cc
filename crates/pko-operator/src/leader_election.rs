//! Leader election with a Lease. The leader renews its Lease with one request at a time. A leader
//! that can't renew ends; one that is stopped releases the Lease.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use pko_api::names::field_managers;
use pko_core::leadership::{Candidate, LeaseAction, LeaseTiming, ObservedLease};
use pko_kube::RequestError;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// Upstream's name, so that its managers and ours never lead together.
pub(crate) const NAME: &str = "operator.pulumi.com";

pub(crate) struct LeaderElection {
    leader: watch::Receiver<bool>,
    task: JoinHandle<()>,
    holder: Arc<LeaseHolder>,
    /// Where the client is.
    runtime: Handle,
}

#[derive(Clone)]
pub(crate) struct LeaderStatus(watch::Receiver<bool>);

impl LeaderStatus {
    /// Without leader election.
    pub(crate) fn always() -> Self {
        Self(watch::channel(true).1)
    }

    pub(crate) fn is_leader(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until this manager leads.
    pub(crate) async fn wait(&mut self) {
        // The sender is dropped without leader election, or when the manager ends.
        if self.0.wait_for(|leader| *leader).await.is_err() && !*self.0.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

struct LeaseHolder {
    client: Client,
    namespace: String,
    identity: String,
    timing: LeaseTiming,
    /// As last written, while it is held.
    held: Mutex<Option<Lease>>,
}

impl LeaderElection {
    /// Starts on the current runtime, on which the client was made.
    pub(crate) fn start(client: Client, namespace: String, timing: LeaseTiming) -> Self {
        let holder = Arc::new(LeaseHolder {
            client,
            namespace,
            identity: identity(),
            timing,
            held: Mutex::default(),
        });
        let (sender, leader) = watch::channel(false);
        let task = tokio::spawn({
            let holder = Arc::clone(&holder);
            async move {
                holder.acquire().await;
                tracing::info!(
                    identity = holder.identity,
                    "Acquired the Lease: this manager leads"
                );
                let _ = sender.send(true);
                holder.keep_renewing().await;
            }
        });
        Self {
            leader,
            task,
            holder,
            runtime: Handle::current(),
        }
    }

    pub(crate) fn leader(&self) -> LeaderStatus {
        LeaderStatus(self.leader.clone())
    }

    /// Waits until this manager does not lead any more.
    pub(crate) async fn lost(&mut self) {
        let _ = (&mut self.task).await;
    }

    /// Releases the Lease, so that others need not wait for its expiry.
    pub(crate) async fn step_down(self) {
        self.task.abort();
        let _ = self.task.await;
        let holder = self.holder;
        let _ = self
            .runtime
            .spawn(async move { holder.release().await })
            .await;
    }
}

impl LeaseHolder {
    async fn acquire(&self) {
        let start = Instant::now();
        let mut candidate = Candidate::new(self.identity.clone());
        loop {
            match timeout(
                self.timing.renew_deadline,
                self.try_acquire(&mut candidate, start.elapsed()),
            )
            .await
            {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = error.full_text(),
                        "Failed to acquire the Lease; retrying"
                    );
                }
                Err(_) => tracing::warn!("Acquiring the Lease timed out; retrying"),
            }
            sleep(self.timing.retry).await;
        }
    }

    /// Tries once. Returns whether the Lease is held; false if another manager was faster.
    async fn try_acquire(
        &self,
        candidate: &mut Candidate,
        now: Duration,
    ) -> Result<bool, RequestError> {
        let found: Option<Lease> = pko_kube::find(&self.client, &self.namespace, NAME).await?;
        let seen = found.as_ref().map(observe);
        let written = match (candidate.next_action(seen.as_ref(), now), found) {
            (LeaseAction::Wait, _) => return Ok(false),
            (LeaseAction::Take, Some(lease)) => self.write(self.with_holder(lease)).await,
            (LeaseAction::Create | LeaseAction::Take, _) => self.create().await,
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.status_code() == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns when the Lease is lost.
    async fn keep_renewing(&self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.timing.retry).await;
            let left = self.timing.renew_deadline.saturating_sub(renewed.elapsed());
            let began = Instant::now();
            match timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = began,
                Ok(Ok(false)) => {
                    tracing::error!("Lost the Lease to another manager");
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = error.full_text(),
                        "Failed to renew the Lease; retrying"
                    );
                }
                Err(_) => {}
            }
            if renewed.elapsed() >= self.timing.renew_deadline {
                tracing::error!("Failed to renew the Lease before the deadline");
                return;
            }
        }
    }

    /// Returns whether the Lease is still held. One request, unless another client wrote to it.
    async fn renew(&self) -> Result<bool, RequestError> {
        let Some(held) = self.held() else {
            return Ok(false);
        };
        match self.write(self.with_renewal(held)).await {
            Ok(()) => Ok(true),
            Err(error) if error.status_code() == Some(409) => {
                let found: Option<Lease> =
                    pko_kube::find(&self.client, &self.namespace, NAME).await?;
                match found.filter(|lease| observe(lease).holder == self.identity) {
                    Some(lease) => self.write(self.with_renewal(lease)).await.map(|()| true),
                    None => Ok(false),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> Result<(), RequestError> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        };
        let lease = self.with_holder(lease);
        let created = pko_kube::create(&self.client, &lease, field_managers::OPERATOR).await?;
        self.hold(Some(created));
        Ok(())
    }

    async fn write(&self, lease: Lease) -> Result<(), RequestError> {
        let written = pko_kube::replace(&self.client, &lease, field_managers::OPERATOR).await?;
        self.hold(Some(written));
        Ok(())
    }

    /// The Lease with this manager as holder.
    fn with_holder(&self, mut lease: Lease) -> Lease {
        let before = lease.spec.unwrap_or_default();
        let changes = before.lease_transitions.unwrap_or_default();
        let is_new = before.holder_identity.is_none();
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_transitions: Some(if is_new {
                changes
            } else {
                changes.saturating_add(1)
            }),
            acquire_time: Some(MicroTime(Timestamp::now())),
            ..before
        });
        self.with_renewal(lease)
    }

    fn with_renewal(&self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let lasts = i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX);
        spec.lease_duration_seconds = Some(lasts.max(1));
        lease
    }

    async fn release(&self) {
        let Some(lease) = self.held() else {
            return;
        };
        let result = timeout(self.timing.renew_deadline, self.release_held(lease)).await;
        if let Ok(Ok(())) = result {
            tracing::info!("Released the Lease");
        } else {
            tracing::warn!("Failed to release the Lease; it expires by itself");
        }
    }

    /// A renewal that was in flight when this manager was stopped may have been written: then the
    /// Lease has another version and is still held.
    async fn release_held(&self, lease: Lease) -> Result<(), RequestError> {
        match self.write(released(lease)).await {
            Err(error) if error.status_code() == Some(409) => {
                let found: Option<Lease> =
                    pko_kube::find(&self.client, &self.namespace, NAME).await?;
                match found.filter(|lease| observe(lease).holder == self.identity) {
                    Some(lease) => self.write(released(lease)).await,
                    None => Ok(()),
                }
            }
            written => written,
        }
    }

    fn held(&self) -> Option<Lease> {
        self.held.lock().clone()
    }

    fn hold(&self, lease: Option<Lease>) {
        *self.held.lock() = lease;
    }
}

fn released(mut lease: Lease) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease
}

fn observe(lease: &Lease) -> ObservedLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let lasts = spec.lease_duration_seconds.unwrap_or_default();
    ObservedLease {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
        lasts: Duration::from_secs(u64::try_from(lasts).unwrap_or_default()),
    }
}

/// The host name, for people, and a suffix that no other process has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let start = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{}_{}-{}",
        host.trim(),
        std::process::id(),
        start.as_nanos()
    )
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    /// An API server with one Lease, which rejects outdated versions.
    fn api_server(lease: Value) -> (Client, Arc<Mutex<Value>>) {
        let stored = Arc::new(Mutex::new(lease));
        let server = Arc::clone(&stored);
        let service = service_fn(move |request: Request<Body>| {
            let stored = Arc::clone(&server);
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await?;
                let mut stored = stored.lock();
                let written: Value = serde_json::from_slice(&body).unwrap_or_default();
                let version = "/metadata/resourceVersion";
                let (code, answer) = if method == Method::GET {
                    (200, stored.clone())
                } else if written.pointer(version) == stored.pointer(version) {
                    *stored = written;
                    (200, stored.clone())
                } else {
                    let conflict = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "code": 409, "reason": "Conflict", "message": "another version",
                    });
                    (409, conflict)
                };
                let response = Response::builder().status(code);
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(response.body(body)?)
            }
        });
        (Client::new(service, "default"), stored)
    }

    fn lease(holder: &str, version: &str) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": NAME, "namespace": "system", "resourceVersion": version },
            "spec": { "holderIdentity": holder },
        })
    }

    /// Releases a Lease that is held in version 1. Returns the stored holder.
    async fn holder_after(stored: Value) -> Value {
        let (client, stored) = api_server(stored);
        let seconds = Duration::from_secs;
        let holder = LeaseHolder {
            client,
            namespace: "system".to_owned(),
            identity: "us".to_owned(),
            timing: LeaseTiming {
                lease: seconds(4),
                renew_deadline: seconds(3),
                retry: seconds(1),
            },
            held: Mutex::new(serde_json::from_value(lease("us", "1")).unwrap()),
        };
        holder.release().await;
        let stored = stored.lock();
        stored["spec"]["holderIdentity"].clone()
    }

    #[tokio::test]
    async fn lease_is_released_after_an_unanswered_renewal() {
        assert_eq!(holder_after(lease("us", "1")).await, "");
        assert_eq!(holder_after(lease("us", "2")).await, "");
        assert_eq!(holder_after(lease("another", "2")).await, "another");
    }
}
