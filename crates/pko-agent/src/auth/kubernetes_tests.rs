//! Who gets in, with an API that answers as each case wants.

use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Code;

use super::*;

/// An API with one token for one user.
#[derive(Default)]
struct Answers {
    token_review: Option<ReviewError>,
    access_review: Option<ReviewError>,
    refusal: Option<&'static str>,
    asked: AtomicUsize,
}

impl Reviews for &Answers {
    async fn user(&self, token: &str, audiences: &[String]) -> Result<Option<User>, ReviewError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(audiences, ["ws.ns"]);
        match &self.token_review {
            Some(ReviewError::Forbidden) => Err(ReviewError::Forbidden),
            Some(ReviewError::Unanswered(text)) => Err(ReviewError::Unanswered(text.clone())),
            None => Ok((token == "good").then(User::default)),
        }
    }

    async fn refusal(
        &self,
        _user: &User,
        workspace: &WorkspaceName,
    ) -> Result<Option<String>, ReviewError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!((&*workspace.namespace, &*workspace.name), ("ns", "ws"));
        match &self.access_review {
            Some(_) => Err(ReviewError::Forbidden),
            None => Ok(self.refusal.map(str::to_owned)),
        }
    }
}

fn authorizer(answers: &Answers) -> KubernetesAuthorizer<&Answers> {
    let workspace = WorkspaceName {
        namespace: "ns".to_owned(),
        name: "ws".to_owned(),
    };
    KubernetesAuthorizer::new(answers, vec!["ws.ns".to_owned()], workspace)
}

async fn judge(answers: &Answers, authorization: Option<&str>) -> (Code, String) {
    match authorizer(answers).judge(authorization).await {
        Ok(()) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    }
}

#[tokio::test]
async fn the_matrix() {
    let good = Answers::default();
    let forbidden = Answers {
        token_review: Some(ReviewError::Forbidden),
        ..Default::default()
    };
    let down = Answers {
        token_review: Some(ReviewError::Unanswered("timeout".to_owned())),
        ..Default::default()
    };
    let no_access_review = Answers {
        access_review: Some(ReviewError::Forbidden),
        ..Default::default()
    };
    let refused = Answers {
        refusal: Some("forbidden"),
        ..Default::default()
    };
    let no = Code::Unauthenticated;
    let table: [(&Answers, Option<&str>, Code, &str); 10] = [
        (&good, Some("Bearer good"), Code::Ok, ""),
        (&good, Some("bearer good"), Code::Ok, ""),
        (&good, None, no, "Request unauthenticated with Bearer"),
        (
            &good,
            Some("Basic good"),
            no,
            "Request unauthenticated with Bearer",
        ),
        (&good, Some("good"), no, "Bad authorization string"),
        (&good, Some("Bearer bad"), no, "unauthenticated"),
        (
            &forbidden,
            Some("Bearer good"),
            no,
            "TokenReview API is unavailable",
        ),
        (&down, Some("Bearer good"), no, "timeout"),
        (
            &no_access_review,
            Some("Bearer good"),
            no,
            "SubjectAccessReview API is unavailable",
        ),
        (
            &refused,
            Some("Bearer good"),
            Code::PermissionDenied,
            "forbidden",
        ),
    ];
    for (answers, authorization, code, message) in table {
        let judged = judge(answers, authorization).await;
        assert_eq!(judged, (code, message.to_owned()), "{authorization:?}");
    }
}

#[tokio::test]
async fn an_answer_is_remembered_and_an_error_is_not() {
    let good = Answers::default();
    let authorizer_of_good = authorizer(&good);
    for _ in 0..3 {
        authorizer_of_good.judge(Some("Bearer good")).await.unwrap();
    }
    assert_eq!(good.asked.load(Ordering::SeqCst), 2);
    let forbidden = Answers {
        token_review: Some(ReviewError::Forbidden),
        ..Default::default()
    };
    let authorizer_of_forbidden = authorizer(&forbidden);
    for _ in 0..3 {
        authorizer_of_forbidden
            .judge(Some("Bearer good"))
            .await
            .unwrap_err();
    }
    assert_eq!(forbidden.asked.load(Ordering::SeqCst), 3);
}

#[test]
fn a_token_is_not_believed_longer_than_it_says() {
    let token = |claims: &str| format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
    assert_eq!(lifetime(&token(r#"{"exp": 1}"#)), Duration::ZERO);
    assert_eq!(lifetime(&token("{}")), Duration::MAX);
    assert_eq!(lifetime("opaque"), Duration::MAX);
    assert!(lifetime(&token(r#"{"exp": 99999999999}"#)) > KNOWN_USER);
}
