use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::*;

/// An API with one user, whose tokens begin with `good`.
struct FakeReviewApi {
    token_error: Option<ReviewError>,
    access_error: Option<ReviewError>,
    decision: Decision,
    token_reviews: AtomicUsize,
    access_reviews: AtomicUsize,
    /// Each review of a token takes one.
    permits: Semaphore,
}

impl Default for FakeReviewApi {
    fn default() -> Self {
        Self {
            token_error: None,
            access_error: None,
            decision: Decision::Allowed,
            token_reviews: AtomicUsize::new(0),
            access_reviews: AtomicUsize::new(0),
            permits: Semaphore::new(1000),
        }
    }
}

impl FakeReviewApi {
    fn with_token_error(error: ReviewError) -> Self {
        Self {
            token_error: Some(error),
            ..Self::default()
        }
    }

    fn with_access_error(error: ReviewError) -> Self {
        Self {
            access_error: Some(error),
            ..Self::default()
        }
    }

    fn denying(reason: &str) -> Self {
        Self {
            decision: Decision::Denied(reason.to_owned()),
            ..Self::default()
        }
    }

    /// The number of token reviews and access reviews.
    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.token_reviews), count(&self.access_reviews))
    }
}

impl ReviewApi for Arc<FakeReviewApi> {
    async fn authenticate(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.token_reviews.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        match &self.token_error {
            Some(error) => Err(error.clone()),
            None => Ok(token.starts_with("good").then(User::default)),
        }
    }

    async fn authorize(&self, _user: &User) -> Result<Decision, ReviewError> {
        self.access_reviews.fetch_add(1, Ordering::SeqCst);
        match &self.access_error {
            Some(error) => Err(error.clone()),
            None => Ok(self.decision.clone()),
        }
    }
}

struct Fixture {
    api: Arc<FakeReviewApi>,
    now: Mutex<Moment>,
    authorizer: CachedAuthorizer<Arc<FakeReviewApi>>,
}

const LIFETIMES: CacheLifetimes = CacheLifetimes {
    authenticated: Duration::from_hours(1),
    unauthenticated: Duration::from_mins(1),
    allowed: Duration::from_mins(5),
    denied: Duration::from_secs(5),
};

impl Fixture {
    fn new(api: FakeReviewApi) -> Self {
        let api = Arc::new(api);
        Self {
            api: api.clone(),
            now: Mutex::new(Moment::now()),
            authorizer: CachedAuthorizer::new(api, LIFETIMES).unwrap(),
        }
    }

    async fn authorize(&self, token: &str) -> Result<User, Denial> {
        let now = *self.now.lock();
        self.authorizer.authorize(token, now).await
    }

    /// Advances the clock, authorizes, and returns how many reviews that took.
    async fn reviews_after(&self, time: Duration, token: &str) -> (usize, usize) {
        {
            let mut now = self.now.lock();
            now.steady += time;
            now.wall += time;
        }
        let before = self.api.counts();
        let _ = self.authorize(token).await;
        let after = self.api.counts();
        (after.0 - before.0, after.1 - before.1)
    }

    /// A valid token that expires in so many seconds.
    fn token_expiring_in(&self, seconds: i64) -> String {
        let expiry = self.now.lock().wall.as_second() + seconds;
        let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{expiry}}}"#));
        format!("good.{claims}.signature")
    }
}

fn timed_out() -> ReviewError {
    ReviewError::Failed("too late".to_owned())
}

#[tokio::test]
async fn authorizer_denies_unless_both_reviews_allow() {
    let unverified = |user, review, error| {
        Err(Denial::Unverified {
            user,
            review,
            error,
        })
    };
    let (user, forbidden) = (Some(User::default()), ReviewError::Forbidden);
    let (token, access) = (ReviewKind::TokenReview, ReviewKind::SubjectAccessReview);
    let table = [
        (FakeReviewApi::default(), "good", Ok(User::default())),
        (
            FakeReviewApi::default(),
            "bad",
            Err(Denial::Unauthenticated),
        ),
        (
            FakeReviewApi::with_token_error(forbidden.clone()),
            "good",
            unverified(None, token, forbidden.clone()),
        ),
        (
            FakeReviewApi::with_token_error(timed_out()),
            "good",
            unverified(None, token, timed_out()),
        ),
        (
            FakeReviewApi::with_access_error(forbidden.clone()),
            "good",
            unverified(user.clone(), access, forbidden),
        ),
        (
            FakeReviewApi::with_access_error(timed_out()),
            "good",
            unverified(user, access, timed_out()),
        ),
        (
            FakeReviewApi::denying("no role"),
            "good",
            Err(Denial::Forbidden {
                user: User::default(),
                reason: "no role".to_owned(),
            }),
        ),
    ];
    for (api, token, expected) in table {
        assert_eq!(Fixture::new(api).authorize(token).await, expected);
    }
}

#[tokio::test]
async fn user_is_cached_for_an_hour_and_right_for_five_minutes() {
    let fixture = Fixture::new(FakeReviewApi::default());
    let seconds = Duration::from_secs;
    let token = "good";
    assert_eq!(fixture.reviews_after(Duration::ZERO, token).await, (1, 1));
    assert_eq!(fixture.reviews_after(seconds(299), token).await, (0, 0));
    assert_eq!(fixture.reviews_after(seconds(1), token).await, (0, 1));
    assert_eq!(fixture.reviews_after(seconds(3299), token).await, (0, 1));
    assert_eq!(fixture.reviews_after(seconds(1), token).await, (1, 0));
}

#[tokio::test]
async fn user_is_not_cached_beyond_token_expiry() {
    let fixture = Fixture::new(FakeReviewApi::default());
    let seconds = Duration::from_secs;
    let token = fixture.token_expiring_in(90);
    assert_eq!(fixture.reviews_after(Duration::ZERO, &token).await, (1, 1));
    assert_eq!(fixture.reviews_after(seconds(89), &token).await, (0, 0));
    assert_eq!(fixture.reviews_after(seconds(1), &token).await.0, 1);
    // A token with a distant expiry is reviewed again after an hour.
    let token = fixture.token_expiring_in(1_000_000);
    assert_eq!(fixture.reviews_after(Duration::ZERO, &token).await.0, 1);
    assert_eq!(fixture.reviews_after(seconds(3600), &token).await.0, 1);
}

#[tokio::test]
async fn invalid_token_is_cached_for_a_minute() {
    let fixture = Fixture::new(FakeReviewApi::default());
    let seconds = Duration::from_secs;
    assert_eq!(fixture.reviews_after(Duration::ZERO, "bad").await, (1, 0));
    assert_eq!(fixture.reviews_after(seconds(59), "bad").await, (0, 0));
    assert_eq!(fixture.reviews_after(seconds(1), "bad").await, (1, 0));
}

#[tokio::test]
async fn denial_is_cached_for_five_seconds() {
    let fixture = Fixture::new(FakeReviewApi::denying("forbidden"));
    let seconds = Duration::from_secs;
    assert_eq!(fixture.reviews_after(Duration::ZERO, "good").await, (1, 1));
    assert_eq!(fixture.reviews_after(seconds(4), "good").await, (0, 0));
    assert_eq!(fixture.reviews_after(seconds(1), "good").await, (0, 1));
}

#[tokio::test]
async fn failed_review_is_not_cached() {
    for error in [ReviewError::Forbidden, timed_out()] {
        let no_users = Fixture::new(FakeReviewApi::with_token_error(error.clone()));
        let no_rights = Fixture::new(FakeReviewApi::with_access_error(error));
        let now = Duration::ZERO;
        for _ in 0..2 {
            assert_eq!(no_users.reviews_after(now, "good").await, (1, 0));
        }
        assert_eq!(no_rights.reviews_after(now, "good").await, (1, 1));
        assert_eq!(no_rights.reviews_after(now, "good").await, (0, 1));
    }
}

#[tokio::test]
async fn concurrent_calls_with_one_token_share_a_review() {
    let fixture = Fixture::new(FakeReviewApi {
        permits: Semaphore::new(0),
        ..FakeReviewApi::with_token_error(timed_out())
    });
    let calls = async {
        tokio::join!(
            fixture.authorize("good"),
            fixture.authorize("good"),
            fixture.authorize("good")
        )
    };
    let review = async {
        while fixture.api.counts().0 == 0 {
            tokio::task::yield_now().await;
        }
        fixture.api.permits.add_permits(1);
    };
    let (denials, ()) = tokio::join!(calls, review);
    let expected = Err(Denial::Unverified {
        user: None,
        review: ReviewKind::TokenReview,
        error: timed_out(),
    });
    assert_eq!(denials, (expected.clone(), expected.clone(), expected));
    assert_eq!(fixture.api.counts(), (1, 0));
}

#[test]
fn token_key_is_specific_to_token_and_process() {
    let (one, other) = (
        Fixture::new(FakeReviewApi::default()),
        Fixture::new(FakeReviewApi::default()),
    );
    let key = |fixture: &Fixture, token| fixture.authorizer.tokens.key(token);
    assert_eq!(key(&one, "good"), key(&one, "good"));
    assert_ne!(key(&one, "good"), key(&one, "goof"));
    assert_ne!(key(&one, "good"), key(&other, "good"));
}

#[test]
fn token_expiry_is_read_from_its_claim() {
    let token = |claims: &str| format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
    assert_eq!(
        expiry(&token(r#"{"exp": 1}"#)),
        Timestamp::from_second(1).ok()
    );
    assert_eq!(expiry(&token("{}")), None);
    assert_eq!(expiry("opaque"), None);
}
