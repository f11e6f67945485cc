//! Wraps every reconcile: a span, metrics, and the conversion of panics to errors.
//!
//! All reconciles of a kind run in one task. A panic would end that task and with it the manager.

use std::{any::Any, cell::Cell, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::{FutureExt as _, future::BoxFuture};
use kube::{Resource, ResourceExt as _, runtime::controller::Action};
use tracing::{Instrument as _, Span, field::Empty};

use super::{Context, ReconcileError};
use crate::metrics::{Metrics, ReconcileOutcome};

tokio::task_local! {
    /// The rule that decided the current reconcile.
    static RULE: Cell<Option<&'static str>>;
}

/// Records the rule of the current reconcile, for its span and metrics.
pub(super) fn record_rule(rule: &'static str) {
    Span::current().record("rule", rule);
    // There is none in a unit test.
    let _ = RULE.try_with(|decided| decided.set(Some(rule)));
}

/// Wraps a reconcile.
pub(super) fn instrument<K, F>(
    controller: &'static str,
    reconcile: impl Fn(Arc<K>, Arc<Context>) -> F,
) -> impl Fn(Arc<K>, Arc<Context>) -> BoxFuture<'static, Result<Action, ReconcileError>>
where
    K: Resource<DynamicType = ()>,
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    move |object, context| {
        let span = span(controller, object.as_ref());
        let metrics = context.metrics.clone();
        let kind = K::kind(&()).into_owned();
        let future = reconcile(object, context);
        async move { measure(controller, &kind, &metrics, future).await }
            .instrument(span)
            .boxed()
    }
}

/// Counts and times a reconcile, and logs its error.
async fn measure(
    controller: &'static str,
    kind: &str,
    metrics: &Metrics,
    reconcile: impl Future<Output = Result<Action, ReconcileError>>,
) -> Result<Action, ReconcileError> {
    let (_working, start) = (metrics.reconcile_started(controller), Instant::now());
    let reconcile = async {
        let end = catch_panic(reconcile).await;
        (end, RULE.with(Cell::get))
    };
    let (end, rule) = RULE.scope(Cell::new(None), reconcile).await;
    let how = match &end {
        Ok(action) if *action == Action::await_change() => ReconcileOutcome::Done,
        Ok(_) => ReconcileOutcome::Requeued,
        Err(ReconcileError::Panicked(_)) => ReconcileOutcome::Panicked,
        Err(_) => ReconcileOutcome::Failed,
    };
    metrics.reconcile_ended(controller, kind, rule, how, start.elapsed());
    match &end {
        Err(error @ ReconcileError::Panicked(_)) => tracing::error!(%error, "Reconcile failed"),
        Err(error) => tracing::warn!(%error, "Reconcile failed"),
        Ok(_) => {}
    }
    end
}

/// With the field names of upstream's log.
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

/// Converts a panic to an error.
async fn catch_panic<T>(
    reconcile: impl Future<Output = Result<T, ReconcileError>>,
) -> Result<T, ReconcileError> {
    // The state of the reconcile is dropped with it; shared state is behind locks.
    let end = AssertUnwindSafe(reconcile).catch_unwind().await;
    end.unwrap_or_else(|panic| Err(ReconcileError::Panicked(panic_message(panic.as_ref()))))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::after_error, *};

    #[tokio::test]
    async fn reconcile_panic_is_an_error_and_retried() {
        let reason = 7;
        let reconciles: [BoxFuture<'static, Result<(), ReconcileError>>; 3] = [
            Box::pin(async { panic!("a mistake") }),
            Box::pin(async move { panic!("mistake {reason}") }),
            Box::pin(async { std::panic::panic_any(()) }),
        ];
        let expected = ["a mistake", "mistake 7", "no message"];
        for (reconcile, expected) in reconciles.into_iter().zip(expected) {
            let error = catch_panic(reconcile).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the reconcile panicked: {expected}")
            );
            assert_ne!(after_error(&error), Action::await_change());
        }
    }

    #[tokio::test]
    async fn reconcile_metrics_count_panics_and_rules() {
        let metrics = Metrics::new().unwrap();
        let bad = async { panic!("a mistake") };
        let end = measure("stack-controller", "Stack", &metrics, bad).await;
        assert!(matches!(end, Err(ReconcileError::Panicked(_))));
        let good = async {
            record_rule("up-to-date");
            Ok(Action::await_change())
        };
        let end = measure("stack-controller", "Stack", &metrics, good).await;
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
    async fn reconcile_without_panic_keeps_its_result() {
        assert_eq!(catch_panic(async { Ok(1) }).await.unwrap(), 1);
        let error = catch_panic(async { Err::<(), _>(ReconcileError::TooManyRequests) }).await;
        assert!(matches!(error, Err(ReconcileError::TooManyRequests)));
    }
}
