//! What is around every pass: a span that says whose it is, its measures, and an end to panics.
//!
//! All passes of a kind are one task. A panic would end it and with it the manager; so it is one failed pass.

use std::{any::Any, cell::Cell, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::{FutureExt as _, future::BoxFuture};
use kube::{Resource, ResourceExt as _, runtime::controller::Action};
use tracing::{Instrument as _, Span, field::Empty};

use super::{Context, PassError};
use crate::metrics::{Metrics, PassEnd};

tokio::task_local! {
    /// The rule that decided the pass that runs.
    static RULE: Cell<Option<&'static str>>;
}

/// Says which rule decided, to whoever is around the pass.
pub(super) fn decided(rule: &'static str) {
    Span::current().record("rule", rule);
    // Outside of one, as in a test, nobody wants to know.
    let _ = RULE.try_with(|decided| decided.set(Some(rule)));
}

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
        let metrics = context.metrics.clone();
        let kind = K::kind(&()).into_owned();
        let pass = pass(object, context);
        async move { measured(controller, &kind, &metrics, pass).await }
            .instrument(span)
            .boxed()
    }
}

/// Counts and times a pass, and says what went wrong in it.
async fn measured(
    controller: &'static str,
    kind: &str,
    metrics: &Metrics,
    pass: impl Future<Output = Result<Action, PassError>>,
) -> Result<Action, PassError> {
    let (_working, start) = (metrics.pass_begins(controller), Instant::now());
    let pass = async {
        let end = caught(pass).await;
        (end, RULE.with(Cell::get))
    };
    let (end, rule) = RULE.scope(Cell::new(None), pass).await;
    let how = match &end {
        Ok(action) if *action == Action::await_change() => PassEnd::Settled,
        Ok(_) => PassEnd::Again,
        Err(PassError::Panicked(_)) => PassEnd::Panicked,
        Err(_) => PassEnd::Failed,
    };
    metrics.pass_ended(controller, kind, rule, how, start.elapsed());
    match &end {
        Err(error @ PassError::Panicked(_)) => tracing::error!(%error, "Pass failed"),
        Err(error) => tracing::warn!(%error, "Pass failed"),
        Ok(_) => {}
    }
    end
}

/// Whose pass it is, in the words of upstream's log.
fn span<K: Resource<DynamicType = ()>>(controller: &'static str, object: &K) -> Span {
    tracing::info_span!(
        "reconcile",
        controller,
        kind = %K::kind(&()),
        namespace = object.namespace(),
        name = object.name_any(),
        rule = Empty,
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
    async fn a_panic_is_counted_and_the_rule_of_a_good_pass_too() {
        let metrics = Metrics::new().unwrap();
        let bad = async { panic!("a mistake") };
        let end = measured("stack-controller", "Stack", &metrics, bad).await;
        assert!(matches!(end, Err(PassError::Panicked(_))));
        let good = async {
            decided("up-to-date");
            Ok(Action::await_change())
        };
        let end = measured("stack-controller", "Stack", &metrics, good).await;
        assert_eq!(end.unwrap(), Action::await_change());
        let text = metrics.text().unwrap();
        for line in [
            r#"controller_runtime_reconcile_panics_total{controller="stack-controller"} 1"#,
            r#"controller_runtime_active_workers{controller="stack-controller"} 0"#,
            r#"pko_reconcile_seconds_count{kind="Stack",rule="up-to-date"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[tokio::test]
    async fn a_pass_without_a_panic_ends_as_it_ends() {
        assert_eq!(caught(async { Ok(1) }).await.unwrap(), 1);
        let error = caught(async { Err::<(), _>(PassError::TooManyRequests) }).await;
        assert!(matches!(error, Err(PassError::TooManyRequests)));
    }
}
