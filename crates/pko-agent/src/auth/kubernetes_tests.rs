//! Who gets in, with an API that answers as each case wants, and a clock that goes on when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;
use tonic::Code;

use super::*;
use crate::auth::clock::test::Manual;

/// An API with one user, whose tokens begin with `good`.
struct Answers {
    token_review: Option<ReviewError>,
    access_review: Option<ReviewError>,
    refusal: Option<&'static str>,
    users_asked: AtomicUsize,
    refusals_asked: AtomicUsize,
    /// Each review of a token takes one.
    turns: Semaphore,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            token_review: None,
            access_review: None,
            refusal: None,
            users_asked: AtomicUsize::new(0),
            refusals_asked: AtomicUsize::new(0),
            turns: Semaphore::new(1000),
        }
    }
}

impl Answers {
    /// How often was asked who a token belongs to, and what that one may do.
    fn asked(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.users_asked), count(&self.refusals_asked))
    }
}

impl Reviews for Arc<Answers> {
    async fn user(&self, token: &str, audiences: &[String]) -> Result<Option<User>, ReviewError> {
        self.users_asked.fetch_add(1, Ordering::SeqCst);
        self.turns.acquire().await.unwrap().forget();
        assert_eq!(audiences, ["ws.ns"]);
        match &self.token_review {
            Some(error) => Err(error.clone()),
            None => Ok(token.starts_with("good").then(User::default)),
        }
    }

    async fn refusal(
        &self,
        _user: &User,
        workspace: &WorkspaceName,
    ) -> Result<Option<String>, ReviewError> {
        self.refusals_asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!((&*workspace.namespace, &*workspace.name), ("ns", "ws"));
        match &self.access_review {
            Some(error) => Err(error.clone()),
            None => Ok(self.refusal.map(str::to_owned)),
        }
    }
}

struct Stage {
    answers: Arc<Answers>,
    clock: Arc<Manual>,
    authorizer: KubernetesAuthorizer<Arc<Answers>>,
}

impl Stage {
    fn new(answers: Answers) -> Self {
        let (answers, clock) = (Arc::new(answers), Manual::new());
        let workspace = WorkspaceName {
            namespace: "ns".to_owned(),
            name: "ws".to_owned(),
        };
        let audiences = vec!["ws.ns".to_owned()];
        let authorizer =
            KubernetesAuthorizer::new(answers.clone(), audiences, workspace, clock.clone());
        Self {
            answers,
            clock,
            authorizer: authorizer.unwrap(),
        }
    }

    async fn judge(&self, token: &str) -> (Code, String) {
        match self.authorizer.judge(token).await {
            Ok(_) => (Code::Ok, String::new()),
            Err(Refusal { status, .. }) => (status.code(), status.message().to_owned()),
        }
    }

    /// Lets time pass, judges, and says how often the API was asked for it.
    async fn asked_after(&self, time: Duration, token: &str) -> (usize, usize) {
        self.clock.pass(time);
        let before = self.answers.asked();
        self.judge(token).await;
        let after = self.answers.asked();
        (after.0 - before.0, after.1 - before.1)
    }
}

fn late() -> ReviewError {
    ReviewError::Unanswered("too late".to_owned())
}

/// A token of the user that ends in so many seconds.
fn ending(stage: &Stage, seconds: i64) -> String {
    let end = stage.clock.now().wall.as_second() + seconds;
    let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{end}}}"#));
    format!("good.{claims}.signature")
}

#[tokio::test]
async fn the_matrix() {
    let review = |token_review| Answers {
        token_review,
        ..Default::default()
    };
    let access = |access_review| Answers {
        access_review,
        ..Default::default()
    };
    let refused = |refusal| Answers {
        refusal: Some(refusal),
        ..Default::default()
    };
    let no = Code::Unauthenticated;
    let forbidden = || Some(ReviewError::Forbidden);
    let table = [
        (Answers::default(), "good", Code::Ok, ""),
        (Answers::default(), "bad", no, "unauthenticated"),
        (
            review(forbidden()),
            "good",
            no,
            "TokenReview API is unavailable",
        ),
        (review(Some(late())), "good", no, "too late"),
        (
            access(forbidden()),
            "good",
            no,
            "SubjectAccessReview API is unavailable",
        ),
        (access(Some(late())), "good", Code::Unknown, "too late"),
        (
            refused("forbidden"),
            "good",
            Code::PermissionDenied,
            "forbidden",
        ),
    ];
    for (answers, token, code, message) in table {
        let judged = Stage::new(answers).judge(token).await;
        assert_eq!(judged, (code, message.to_owned()));
    }
}

#[tokio::test]
async fn a_refused_user_is_named() {
    let stage = Stage::new(Answers {
        refusal: Some("forbidden"),
        ..Default::default()
    });
    let refusal = stage.authorizer.judge("good").await.unwrap_err();
    assert_eq!(refusal.user, Some(User::default()));
    let refusal = stage.authorizer.judge("bad").await.unwrap_err();
    assert_eq!(refusal.user, None);
}

#[tokio::test]
async fn a_user_is_known_for_an_hour_and_its_right_for_five_minutes() {
    let stage = Stage::new(Answers::default());
    let seconds = Duration::from_secs;
    let token = "good";
    assert_eq!(stage.asked_after(Duration::ZERO, token).await, (1, 1));
    assert_eq!(stage.asked_after(seconds(299), token).await, (0, 0));
    assert_eq!(stage.asked_after(seconds(1), token).await, (0, 1));
    assert_eq!(stage.asked_after(seconds(3299), token).await, (0, 1));
    assert_eq!(stage.asked_after(seconds(1), token).await, (1, 0));
}

#[tokio::test]
async fn a_token_is_not_believed_longer_than_it_says() {
    let stage = Stage::new(Answers::default());
    let seconds = Duration::from_secs;
    let token = ending(&stage, 90);
    assert_eq!(stage.asked_after(Duration::ZERO, &token).await, (1, 1));
    assert_eq!(stage.asked_after(seconds(89), &token).await, (0, 0));
    assert_eq!(stage.asked_after(seconds(1), &token).await.0, 1);
    // However far its end is, it is looked at again after an hour.
    let token = ending(&stage, 1_000_000);
    assert_eq!(stage.asked_after(Duration::ZERO, &token).await.0, 1);
    assert_eq!(stage.asked_after(seconds(3600), &token).await.0, 1);
}

#[tokio::test]
async fn a_bad_token_is_bad_for_a_minute() {
    let stage = Stage::new(Answers::default());
    let seconds = Duration::from_secs;
    assert_eq!(stage.asked_after(Duration::ZERO, "bad").await, (1, 0));
    assert_eq!(stage.asked_after(seconds(59), "bad").await, (0, 0));
    assert_eq!(stage.asked_after(seconds(1), "bad").await, (1, 0));
}

#[tokio::test]
async fn a_denial_holds_for_five_seconds() {
    let stage = Stage::new(Answers {
        refusal: Some("forbidden"),
        ..Default::default()
    });
    let seconds = Duration::from_secs;
    assert_eq!(stage.asked_after(Duration::ZERO, "good").await, (1, 1));
    assert_eq!(stage.asked_after(seconds(4), "good").await, (0, 0));
    assert_eq!(stage.asked_after(seconds(1), "good").await, (0, 1));
}

#[tokio::test]
async fn an_error_is_not_remembered() {
    for error in [Some(ReviewError::Forbidden), Some(late())] {
        let no_users = Stage::new(Answers {
            token_review: error.clone(),
            ..Default::default()
        });
        let no_rights = Stage::new(Answers {
            access_review: error,
            ..Default::default()
        });
        let now = Duration::ZERO;
        for _ in 0..2 {
            assert_eq!(no_users.asked_after(now, "good").await, (1, 0));
        }
        assert_eq!(no_rights.asked_after(now, "good").await, (1, 1));
        assert_eq!(no_rights.asked_after(now, "good").await, (0, 1));
    }
}

#[tokio::test]
async fn many_calls_with_one_token_are_one_review() {
    let stage = Stage::new(Answers {
        turns: Semaphore::new(0),
        token_review: Some(late()),
        ..Default::default()
    });
    let calls = async {
        tokio::join!(
            stage.judge("good"),
            stage.judge("good"),
            stage.judge("good")
        )
    };
    let answer = async {
        while stage.answers.asked().0 == 0 {
            tokio::task::yield_now().await;
        }
        stage.answers.turns.add_permits(1);
    };
    let (answers, ()) = tokio::join!(calls, answer);
    let expected = (Code::Unauthenticated, "too late".to_owned());
    assert_eq!(answers, (expected.clone(), expected.clone(), expected));
    assert_eq!(stage.answers.asked(), (1, 0));
}

#[test]
fn a_token_is_not_kept_as_it_is() {
    let (one, other) = (
        Stage::new(Answers::default()),
        Stage::new(Answers::default()),
    );
    let key = |stage: &Stage, token| stage.authorizer.desk.key(token);
    assert_eq!(key(&one, "good"), key(&one, "good"));
    assert_ne!(key(&one, "good"), key(&one, "goof"));
    assert_ne!(key(&one, "good"), key(&other, "good"));
}

#[test]
fn when_a_token_ends() {
    let token = |claims: &str| format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
    assert_eq!(
        end_of(&token(r#"{"exp": 1}"#)),
        Timestamp::from_second(1).ok()
    );
    assert_eq!(end_of(&token("{}")), None);
    assert_eq!(end_of("opaque"), None);
}
