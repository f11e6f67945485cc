//! Tokens of the manager's own service account, for agents that ask the API server who calls: upstream's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;
use pko_kube::RequestError;

/// How long before its end a token is replaced.
const LEEWAY: Duration = Duration::from_mins(5);
/// An audience that was not used for so long belongs to a workspace that is gone.
const UNUSED: Duration = Duration::from_hours(2);

/// A token and its end.
#[derive(Clone)]
pub(crate) struct Issued {
    token: String,
    end: Timestamp,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    #[error("the API server's response has no token")]
    Empty,
}

/// Gives tokens.
pub(crate) trait Issuer: Send + Sync {
    /// A token for this audience alone.
    fn issue(&self, audience: &str) -> impl Future<Output = Result<Issued, IssueError>> + Send;
}

/// The API server, which gives tokens to a service account.
pub(crate) struct ServiceAccountIssuer {
    client: Client,
    namespace: String,
    name: String,
}

impl ServiceAccountIssuer {
    pub(crate) fn new(client: Client, namespace: &str, name: String) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name,
        }
    }
}

impl Issuer for ServiceAccountIssuer {
    async fn issue(&self, audience: &str) -> Result<Issued, IssueError> {
        let account = (self.namespace.as_str(), self.name.as_str());
        let status = pko_kube::request_token(&self.client, account, audience).await?;
        let status = status.ok_or(IssueError::Empty)?;
        Ok(Issued {
            token: status.token,
            end: status.expiration_timestamp.0,
        })
    }
}

/// Asks for tokens, and keeps each until shortly before its end.
pub(crate) struct AccountTokens<I> {
    issuer: I,
    known: Mutex<HashMap<String, Known>>,
}

/// The token of an audience. Whoever wants it while it is asked for waits for that answer.
struct Known {
    token: Arc<tokio::sync::Mutex<Option<Issued>>>,
    last_used: Timestamp,
}

impl<I: Issuer> AccountTokens<I> {
    pub(crate) fn new(issuer: I) -> Self {
        Self {
            issuer,
            known: Mutex::default(),
        }
    }

    /// A token for an audience. Where there is no new one, the old one is better than none: agents remember callers
    /// for a while.
    pub(crate) async fn token(&self, audience: &str, now: Timestamp) -> Result<String, IssueError> {
        let known = self.known(audience, now);
        let mut held = known.lock().await;
        if let Some(issued) = held.as_ref().filter(|issued| issued.end > now + LEEWAY) {
            return Ok(issued.token.clone());
        }
        match (self.issuer.issue(audience).await, held.as_ref()) {
            (Ok(issued), _) => Ok(held.insert(issued).token.clone()),
            (Err(error), Some(old)) => {
                tracing::warn!(audience, %error, "Token could not be renewed: the old one is used");
                Ok(old.token.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn known(&self, audience: &str, now: Timestamp) -> Arc<tokio::sync::Mutex<Option<Issued>>> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.last_used + UNUSED > now);
        let known = all.entry(audience.to_owned()).or_insert_with(|| Known {
            token: Arc::default(),
            last_used: now,
        });
        known.last_used = now;
        Arc::clone(&known.token)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use axum::{
        BoxError,
        http::{Request, Response},
    };
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// Gives numbered tokens that are good for an hour, unless it fails.
    #[derive(Default)]
    struct Numbered {
        given: AtomicUsize,
        asked_at: Mutex<Option<Timestamp>>,
        fails: AtomicBool,
    }

    impl Issuer for Numbered {
        async fn issue(&self, audience: &str) -> Result<Issued, IssueError> {
            if self.fails.load(Ordering::SeqCst) {
                return Err(IssueError::Empty);
            }
            let number = self.given.fetch_add(1, Ordering::SeqCst);
            let now = self.asked_at.lock().unwrap().unwrap();
            Ok(Issued {
                token: format!("{audience}-{number}"),
                end: now + Duration::from_hours(1),
            })
        }
    }

    fn after(minutes: u64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + Duration::from_mins(minutes)
    }

    async fn token(
        tokens: &AccountTokens<Numbered>,
        audience: &str,
        minutes: u64,
    ) -> Option<String> {
        *tokens.issuer.asked_at.lock().unwrap() = Some(after(minutes));
        tokens.token(audience, after(minutes)).await.ok()
    }

    fn fails(tokens: &AccountTokens<Numbered>, fails: bool) {
        tokens.issuer.fails.store(fails, Ordering::SeqCst);
    }

    /// An API server that answers everything with this, and remembers what it was asked.
    fn answering(code: u16, answer: &Value) -> (ServiceAccountIssuer, Arc<Mutex<Value>>) {
        let seen = Arc::new(Mutex::new(Value::Null));
        let (notes, text) = (Arc::clone(&seen), answer.to_string());
        let service = service_fn(move |request: Request<Body>| {
            let (notes, text) = (Arc::clone(&notes), text.clone());
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                *notes.lock().unwrap() = json!({ "path": path, "spec": body["spec"] });
                let response = Response::builder().status(code);
                Ok::<_, BoxError>(response.body(Body::from(text.into_bytes())).unwrap())
            }
        });
        let client = Client::new(service, "default");
        (
            ServiceAccountIssuer::new(client, "system", "manager".into()),
            seen,
        )
    }

    #[tokio::test]
    async fn a_service_account_is_asked_for_a_token_for_one_audience() {
        let status = json!({ "token": "t", "expirationTimestamp": "2027-01-15T08:00:00Z" });
        let answer = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": { "audiences": ["ws.ns"] }, "status": status,
        });
        let (issuer, seen) = answering(201, &answer);
        let given = issuer.issue("ws.ns").await.ok().unwrap();
        assert_eq!((given.token.as_str(), given.end), ("t", after(0)));
        let expected = json!({
            "path": "/api/v1/namespaces/system/serviceaccounts/manager/token",
            "spec": { "audiences": ["ws.ns"] },
        });
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn why_there_is_no_token_is_said() {
        for (code, reason) in [(404, "NotFound"), (403, "Forbidden")] {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure",
                "code": code, "reason": reason, "message": "no such account",
            });
            let (issuer, _) = answering(code, &status);
            let error = issuer.issue("ws.ns").await.err().unwrap();
            assert!(error.to_string().contains("no such account"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_token_is_kept_until_five_minutes_before_its_end() {
        let tokens = AccountTokens::new(Numbered::default());
        for (minutes, expected) in [(0, "a-0"), (54, "a-0"), (55, "a-1"), (109, "a-1")] {
            let token = token(&tokens, "a", minutes).await;
            assert_eq!(token.as_deref(), Some(expected), "{minutes}");
        }
        assert_eq!(token(&tokens, "b", 109).await.as_deref(), Some("b-2"));
    }

    #[tokio::test]
    async fn an_old_token_is_better_than_none() {
        let tokens = AccountTokens::new(Numbered::default());
        fails(&tokens, true);
        assert_eq!(token(&tokens, "a", 0).await, None);
        fails(&tokens, false);
        assert_eq!(token(&tokens, "a", 0).await.as_deref(), Some("a-0"));
        fails(&tokens, true);
        for minutes in [58, 70] {
            let token = token(&tokens, "a", minutes).await;
            assert_eq!(token.as_deref(), Some("a-0"), "{minutes}");
        }
        fails(&tokens, false);
        assert_eq!(token(&tokens, "a", 71).await.as_deref(), Some("a-1"));
    }

    #[tokio::test]
    async fn what_is_not_used_for_two_hours_is_forgotten() {
        let tokens = AccountTokens::new(Numbered::default());
        let count = || tokens.known.lock().unwrap().len();
        token(&tokens, "a", 0).await;
        token(&tokens, "b", 0).await;
        token(&tokens, "a", 60).await;
        assert_eq!(count(), 2);
        token(&tokens, "c", 120).await;
        assert_eq!(count(), 2, "b is forgotten, a was used since");
        token(&tokens, "c", 180).await;
        assert_eq!(count(), 1);
    }

    #[tokio::test]
    async fn who_asks_at_the_same_time_shares_the_answer() {
        let tokens = AccountTokens::new(Numbered::default());
        let (one, two) = tokio::join!(token(&tokens, "a", 0), token(&tokens, "a", 0));
        assert_eq!((one.as_deref(), two.as_deref()), (Some("a-0"), Some("a-0")));
    }
}
