//! Leader election: one of several managers works, the others are ready to. The one that leads renews its Lease with
//! one request at a time; one that can't ends, and one that is told to end gives the Lease back.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Client, ResourceExt as _};
use pko_api::names::field_managers;
use pko_core::leadership::{Candidate, LeaseAction, LeaseTiming, ObservedLease};
use pko_kube::RequestError;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// Upstream's, so that its managers and ours are never at work together.
pub(crate) const NAME: &str = "operator.pulumi.com";

/// A manager that wants to lead, or does.
pub(crate) struct Leadership {
    elected: watch::Receiver<bool>,
    campaign: JoinHandle<()>,
    office: Arc<Office>,
}

/// Whether this manager leads, for whoever works only then.
#[derive(Clone)]
pub(crate) struct Elected(watch::Receiver<bool>);

impl Elected {
    /// One that needs no election.
    pub(crate) fn always() -> Self {
        Self(watch::channel(true).1)
    }

    /// Whether this manager leads now.
    pub(crate) fn is_so(&self) -> bool {
        *self.0.borrow()
    }

    /// Comes when this manager leads.
    pub(crate) async fn wait(&mut self) {
        // Nobody can tell any more only where it was told, or where the manager ends.
        if self.0.wait_for(|elected| *elected).await.is_err() && !*self.0.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

/// Where the Lease is, and who we are to it.
struct Office {
    client: Client,
    namespace: String,
    identity: String,
    timing: LeaseTiming,
    /// As it was written last, while it is ours.
    held: Mutex<Option<Lease>>,
}

impl Leadership {
    /// Begins to want to lead.
    pub(crate) fn seek(client: Client, namespace: String, timing: LeaseTiming) -> Self {
        let office = Arc::new(Office {
            client,
            namespace,
            identity: identity(),
            timing,
            held: Mutex::default(),
        });
        let (tell, elected) = watch::channel(false);
        let campaign = tokio::spawn({
            let office = Arc::clone(&office);
            async move {
                office.win().await;
                tracing::info!(identity = office.identity, "This manager leads");
                let _ = tell.send(true);
                office.stay().await;
            }
        });
        Self {
            elected,
            campaign,
            office,
        }
    }

    /// Whether this manager leads.
    pub(crate) fn elected(&self) -> Elected {
        Elected(self.elected.clone())
    }

    /// Comes when it does not lead any more.
    pub(crate) async fn lost(&mut self) {
        let _ = (&mut self.campaign).await;
    }

    /// Gives the Lease back, so that nobody has to wait for its end.
    pub(crate) async fn resign(self) {
        self.campaign.abort();
        let _ = self.campaign.await;
        self.office.give_back().await;
    }
}

impl Office {
    /// Until the Lease is ours.
    async fn win(&self) {
        let start = Instant::now();
        let mut candidate = Candidate::new(self.identity.clone());
        loop {
            match timeout(
                self.timing.renew_deadline,
                self.step(&mut candidate, start.elapsed()),
            )
            .await
            {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(
                        error = error.full_text(),
                        "The Lease could not be asked for"
                    );
                }
                Err(_) => tracing::warn!("The Lease could not be asked for in time"),
            }
            sleep(self.timing.retry).await;
        }
    }

    /// Whether the Lease is ours now. Somebody else may have been faster, which is no error.
    async fn step(&self, candidate: &mut Candidate, now: Duration) -> Result<bool, RequestError> {
        let found: Option<Lease> = pko_kube::find(&self.client, &self.namespace, NAME).await?;
        let seen = found.as_ref().map(seen);
        let written = match (candidate.next(seen.as_ref(), now), found) {
            (LeaseAction::Wait, _) => return Ok(false),
            (LeaseAction::Take, Some(lease)) => self.write(self.taken(lease)).await,
            (LeaseAction::Create | LeaseAction::Take, _) => self.create().await,
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.status_code() == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews the Lease for as long as that works.
    async fn stay(&self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.timing.retry).await;
            let left = self.timing.renew_deadline.saturating_sub(renewed.elapsed());
            let began = Instant::now();
            match timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = began,
                Ok(Ok(false)) => {
                    tracing::error!("Another manager leads");
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = error.full_text(), "The Lease could not be renewed");
                }
                Err(_) => {}
            }
            if renewed.elapsed() >= self.timing.renew_deadline {
                tracing::error!("The Lease could not be renewed in time");
                return;
            }
        }
    }

    /// Whether the Lease is still ours. One request, unless somebody wrote to it.
    async fn renew(&self) -> Result<bool, RequestError> {
        let Some(held) = self.held() else {
            return Ok(false);
        };
        match self.write(self.renewed(held)).await {
            Ok(()) => Ok(true),
            Err(error) if error.status_code() == Some(409) => {
                let found: Option<Lease> =
                    pko_kube::find(&self.client, &self.namespace, NAME).await?;
                match found.filter(|lease| seen(lease).holder == self.identity) {
                    Some(lease) => self.write(self.renewed(lease)).await.map(|()| true),
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
        let lease = self.taken(lease);
        let created = pko_kube::create(&self.client, &lease, field_managers::OPERATOR).await?;
        self.hold(Some(created));
        Ok(())
    }

    async fn write(&self, lease: Lease) -> Result<(), RequestError> {
        let written = pko_kube::replace(&self.client, &lease, field_managers::OPERATOR).await?;
        self.hold(Some(written));
        Ok(())
    }

    /// The Lease in our hands.
    fn taken(&self, mut lease: Lease) -> Lease {
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
        self.renewed(lease)
    }

    fn renewed(&self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let lasts = i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX);
        spec.lease_duration_seconds = Some(lasts.max(1));
        lease
    }

    async fn give_back(&self) {
        let Some(lease) = self.held() else {
            return;
        };
        let given = timeout(self.timing.renew_deadline, self.give_back_held(lease)).await;
        if let Ok(Ok(())) = given {
            tracing::info!("The Lease is given back");
        } else {
            tracing::warn!("The Lease could not be given back: it ends by itself");
        }
    }

    /// A renewal that was under way when this manager was stopped may have been written: then the
    /// Lease is another one than the one that is held, and still ours.
    async fn give_back_held(&self, lease: Lease) -> Result<(), RequestError> {
        match self.write(given_back(lease)).await {
            Err(error) if error.status_code() == Some(409) => {
                let found: Option<Lease> =
                    pko_kube::find(&self.client, &self.namespace, NAME).await?;
                match found.filter(|lease| seen(lease).holder == self.identity) {
                    Some(lease) => self.write(given_back(lease)).await,
                    None => Ok(()),
                }
            }
            written => written,
        }
    }

    fn held(&self) -> Option<Lease> {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn hold(&self, lease: Option<Lease>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }
}

fn given_back(mut lease: Lease) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease
}

fn seen(lease: &Lease) -> ObservedLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let lasts = spec.lease_duration_seconds.unwrap_or_default();
    ObservedLease {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
        lasts: Duration::from_secs(u64::try_from(lasts).unwrap_or_default()),
    }
}

/// The machine's name, which people look for, and what no other process has.
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

    /// An API server with one Lease, which refuses to replace another version than the last.
    fn api_server(lease: Value) -> (Client, Arc<Mutex<Value>>) {
        let stored = Arc::new(Mutex::new(lease));
        let server = Arc::clone(&stored);
        let service = service_fn(move |request: Request<Body>| {
            let stored = Arc::clone(&server);
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await?;
                let mut stored = stored.lock().unwrap();
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

    /// Gives back a Lease that is held in version 1, and returns who holds the stored one then.
    async fn holder_after(stored: Value) -> Value {
        let (client, stored) = api_server(stored);
        let seconds = Duration::from_secs;
        let office = Office {
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
        office.give_back().await;
        let stored = stored.lock().unwrap();
        stored["spec"]["holderIdentity"].clone()
    }

    #[tokio::test]
    async fn lease_is_given_back_also_after_a_renewal_that_was_not_answered() {
        assert_eq!(holder_after(lease("us", "1")).await, "");
        assert_eq!(holder_after(lease("us", "2")).await, "");
        assert_eq!(holder_after(lease("another", "2")).await, "another");
    }
}
