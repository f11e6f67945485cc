//! Tokens of the manager's service account, for upstream's agents, which review the caller's token.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use parking_lot::Mutex;
use pko_kube::RequestError;

use super::MIN_AGE_OF_REJECTED;

/// Replaced this long before they expire.
const LEEWAY: Duration = Duration::from_mins(5);
/// An audience that is unused for this long belongs to a deleted workspace.
const FORGET_AFTER: Duration = Duration::from_hours(2);

#[derive(Clone)]
pub(crate) struct IssuedToken {
    token: String,
    issued: Instant,
    lifetime: Duration,
}

impl IssuedToken {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.issued)
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.age(now) + LEEWAY < self.lifetime
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    #[error("the API server's response has no token")]
    Empty,
}

pub(crate) trait TokenIssuer: Send + Sync {
    fn issue(&self, audience: &str)
    -> impl Future<Output = Result<IssuedToken, IssueError>> + Send;
}

/// Requests tokens from the API server.
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

impl TokenIssuer for ServiceAccountIssuer {
    async fn issue(&self, audience: &str) -> Result<IssuedToken, IssueError> {
        let account = (self.namespace.as_str(), self.name.as_str());
        // Before the request: the lifetime begins while it is in flight.
        let issued = Instant::now();
        let requested = pko_kube::request_token(&self.client, account, audience).await?;
        let requested = requested.ok_or(IssueError::Empty)?;
        Ok(IssuedToken {
            token: requested.token,
            issued,
            lifetime: requested.lifetime,
        })
    }
}

/// Caches a token for each audience until shortly before it expires.
pub(crate) struct ServiceAccountTokens<I> {
    issuer: I,
    known: Mutex<HashMap<String, CachedToken>>,
}

/// The token of an audience. Concurrent callers wait for one request.
struct CachedToken {
    token: Arc<tokio::sync::Mutex<Option<IssuedToken>>>,
    last_used: Instant,
}

impl<I: TokenIssuer> ServiceAccountTokens<I> {
    pub(crate) fn new(issuer: I) -> Self {
        Self {
            issuer,
            known: Mutex::default(),
        }
    }

    /// If there is no new token, returns the old one, because agents cache their reviews.
    pub(crate) async fn token(&self, audience: &str, now: Instant) -> Result<String, IssueError> {
        let known = self.known(audience, now);
        let mut held = known.lock().await;
        if let Some(issued) = held.as_ref().filter(|issued| issued.is_fresh(now)) {
            return Ok(issued.token.clone());
        }
        match (self.issuer.issue(audience).await, held.as_ref()) {
            (Ok(issued), _) => Ok(held.insert(issued).token.clone()),
            (Err(error), Some(old)) => {
                tracing::warn!(audience, %error, "Failed to renew a token; using the old one");
                Ok(old.token.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Forgets a token that an agent rejects. Returns whether the next token is another one.
    pub(crate) async fn reject(&self, audience: &str, token: &str, now: Instant) -> bool {
        let known = self.known(audience, now);
        let mut held = known.lock().await;
        let Some(issued) = held.as_ref().filter(|issued| issued.token == token) else {
            return true;
        };
        let is_old = issued.age(now) >= MIN_AGE_OF_REJECTED;
        if is_old {
            *held = None;
        }
        is_old
    }

    fn known(&self, audience: &str, now: Instant) -> Arc<tokio::sync::Mutex<Option<IssuedToken>>> {
        let mut all = self.known.lock();
        all.retain(|_, known| now.saturating_duration_since(known.last_used) < FORGET_AFTER);
        let known = all
            .entry(audience.to_owned())
            .or_insert_with(|| CachedToken {
                token: Arc::default(),
                last_used: now,
            });
        known.last_used = now;
        Arc::clone(&known.token)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use axum::{
        BoxError,
        http::{Request, Response},
    };
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// Issues numbered tokens that are valid for an hour, or fails.
    #[derive(Default)]
    struct NumberedIssuer {
        issued: AtomicUsize,
        now: Mutex<Option<Instant>>,
        fails: AtomicBool,
    }

    impl TokenIssuer for NumberedIssuer {
        async fn issue(&self, audience: &str) -> Result<IssuedToken, IssueError> {
            if self.fails.load(Ordering::SeqCst) {
                return Err(IssueError::Empty);
            }
            let number = self.issued.fetch_add(1, Ordering::SeqCst);
            Ok(IssuedToken {
                token: format!("{audience}-{number}"),
                issued: self.now.lock().unwrap(),
                lifetime: Duration::from_hours(1),
            })
        }
    }

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn after(minutes: u64) -> Instant {
        *START + Duration::from_mins(minutes)
    }

    async fn token(
        tokens: &ServiceAccountTokens<NumberedIssuer>,
        audience: &str,
        minutes: u64,
    ) -> Option<String> {
        *tokens.issuer.now.lock() = Some(after(minutes));
        tokens.token(audience, after(minutes)).await.ok()
    }

    fn fails(tokens: &ServiceAccountTokens<NumberedIssuer>, fails: bool) {
        tokens.issuer.fails.store(fails, Ordering::SeqCst);
    }

    /// An API server that returns this response, and records the request.
    fn answering(code: u16, answer: &Value) -> (ServiceAccountIssuer, Arc<Mutex<Value>>) {
        let seen = Arc::new(Mutex::new(Value::Null));
        let (notes, text) = (Arc::clone(&seen), answer.to_string());
        let service = service_fn(move |request: Request<Body>| {
            let (notes, text) = (Arc::clone(&notes), text.clone());
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                *notes.lock() = json!({ "path": path, "spec": body["spec"] });
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
    async fn service_account_token_is_requested_for_one_audience() {
        let status = json!({ "token": "t", "expirationTimestamp": "2027-01-15T08:00:00Z" });
        let answer = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": { "audiences": ["ws.ns"], "expirationSeconds": 7200 }, "status": status,
        });
        let (issuer, request) = answering(201, &answer);
        let token = issuer.issue("ws.ns").await.ok().unwrap();
        let lifetime = Duration::from_hours(2);
        assert_eq!((token.token.as_str(), token.lifetime), ("t", lifetime));
        let expected = json!({
            "path": "/api/v1/namespaces/system/serviceaccounts/manager/token",
            "spec": { "audiences": ["ws.ns"] },
        });
        assert_eq!(*request.lock(), expected);
    }

    #[tokio::test]
    async fn service_account_token_failure_has_the_servers_message() {
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
    async fn service_account_token_is_reused_until_shortly_before_expiry() {
        let tokens = ServiceAccountTokens::new(NumberedIssuer::default());
        for (minutes, expected) in [(0, "a-0"), (54, "a-0"), (55, "a-1"), (109, "a-1")] {
            let token = token(&tokens, "a", minutes).await;
            assert_eq!(token.as_deref(), Some(expected), "{minutes}");
        }
        assert_eq!(token(&tokens, "b", 109).await.as_deref(), Some("b-2"));
    }

    #[tokio::test]
    async fn service_account_token_old_one_is_used_after_a_failure() {
        let tokens = ServiceAccountTokens::new(NumberedIssuer::default());
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
    async fn service_account_token_is_requested_again_after_a_rejection() {
        let tokens = ServiceAccountTokens::new(NumberedIssuer::default());
        token(&tokens, "a", 0).await;
        assert!(!tokens.reject("a", "a-0", after(0)).await, "it is new");
        assert!(tokens.reject("a", "a-0", after(1)).await);
        assert_eq!(token(&tokens, "a", 1).await.as_deref(), Some("a-1"));
        assert!(tokens.reject("a", "a-0", after(1)).await, "replaced before");
        assert_eq!(token(&tokens, "a", 1).await.as_deref(), Some("a-1"));
    }

    #[tokio::test]
    async fn service_account_tokens_unused_are_forgotten() {
        let tokens = ServiceAccountTokens::new(NumberedIssuer::default());
        let count = || tokens.known.lock().len();
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
    async fn service_account_token_requests_are_shared() {
        let tokens = ServiceAccountTokens::new(NumberedIssuer::default());
        let (one, two) = tokio::join!(token(&tokens, "a", 0), token(&tokens, "a", 0));
        assert_eq!((one.as_deref(), two.as_deref()), (Some("a-0"), Some("a-0")));
    }
}
