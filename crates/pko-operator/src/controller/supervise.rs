//! What is around every pass: a span that says whose it is, and an end to panics.
//!
//! All passes of a kind are one task. A panic would end it and with it the manager; so it is one failed pass.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use kube::{Resource, ResourceExt as _, runtime::controller::Action};
use tracing::{Instrument as _, Span};

use super::{Context, PassError};

/// The same pass with that around it.
pub(super) fn supervised<K, F>(
    controller: &'static str,
    pass: impl Fn(Arc<K>, Arc<Context>) -> F,
) -> impl Fn(Arc<K>, Arc<Context>) -> BoxFuture<'static, Result<Action, PassError>>
where
    K: Resource<DynamicType = ()>,
    F: Future<Output = Result<Action, PassError>> + Send + 'static,
{
    move |object, context| {
        let span = span(controller, object.as_ref());
        caught(pass(object, context)).instrument(span).boxed()
    }
}

/// Whose pass it is, in the words of upstream's log.
fn span<K: Resource<DynamicType = ()>>(controller: &'static str, object: &K) -> Span {
    tracing::info_span!(
        "reconcile",
        controller,
        kind = %K::kind(&()),
        namespace = object.namespace(),
        name = object.name_any(),
    )
}

/// The end of a pass, or of its panic.
async fn caught<T>(pass: impl Future<Output = Result<T, PassError>>) -> Result<T, PassError> {
    // Whatever the pass had in its hands is dropped with it; what it shares is behind locks that outlive a panic.
    let end = AssertUnwindSafe(pass).catch_unwind().await;
    end.unwrap_or_else(|panic| Err(PassError::Panicked(words(panic.as_ref()))))
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::after_error, *};

    #[tokio::test]
    async fn a_panic_is_one_failed_pass_that_is_tried_again() {
        let reason = 7;
        let passes: [BoxFuture<'static, Result<(), PassError>>; 3] = [
            Box::pin(async { panic!("a mistake") }),
            Box::pin(async move { panic!("mistake {reason}") }),
            Box::pin(async { std::panic::panic_any(()) }),
        ];
        let expected = ["a mistake", "mistake 7", "without a word"];
        for (pass, expected) in passes.into_iter().zip(expected) {
            let error = caught(pass).await.unwrap_err();
            assert_eq!(error.to_string(), format!("the pass panicked: {expected}"));
            assert_ne!(after_error(&error), Action::await_change());
        }
    }

    #[tokio::test]
    async fn a_pass_without_a_panic_ends_as_it_ends() {
        assert_eq!(caught(async { Ok(1) }).await.unwrap(), 1);
        let error = caught(async { Err::<(), _>(PassError::TooManyQuestions) }).await;
        assert!(matches!(error, Err(PassError::TooManyQuestions)));
    }
}
