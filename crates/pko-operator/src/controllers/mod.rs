//! The controllers, one folder for each kind, and the loop that all of them share.
//!
//! A controller implements [`Reconciler`]: it performs the requests and effects that the decisions
//! of `pko-core` ask for. [`reconcile_object`] drives it.

mod applied_workspaces;
pub(crate) mod context;
mod instrumentation;
mod last_rules;
mod program;
mod run;
mod stack;
mod update;
pub(crate) mod workspace;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::controller::Action;
use pko_core::{Machine, Plan, Requeue, Step};
use pko_kube::RequestError;

pub(crate) use context::Context;
pub(crate) use run::run;

use crate::server::programs::ProcessingError;
use instrumentation::instrument;

/// The delay after a failed reconcile.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// More requests than any machine has, so that a machine that never finishes is an error, not a hot
/// loop.
const MAX_REQUESTS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// The API server refused, or did not answer.
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    #[error(transparent)]
    Processing(#[from] ProcessingError),
    /// A machine did not finish.
    /// An object that this one needs can't be read.
    #[error("the {kind} {name:?} does not decode: see its field `{field}`")]
    Undecodable {
        kind: &'static str,
        name: String,
        field: String,
    },
    #[error("no decision after {MAX_REQUESTS} requests")]
    TooManyRequests,
    #[error("the reconcile panicked: {0}")]
    Panicked(String),
}

/// Performs the requests and effects of one reconcile.
trait Reconciler: Sync {
    /// What is observed of the object, and decides.
    type Observed: Machine<Read: Send, Write: Send, Response: Send, Effect: Send> + Send + Sync;

    /// Looks something up, without an effect.
    fn read(
        &self,
        read: <Self::Observed as Machine>::Read,
    ) -> impl Future<Output = Result<<Self::Observed as Machine>::Response, ReconcileError>> + Send;

    /// Changes something whose outcome the next decision depends on.
    fn write(
        &self,
        write: <Self::Observed as Machine>::Write,
    ) -> impl Future<Output = Result<<Self::Observed as Machine>::Response, ReconcileError>> + Send;

    /// Performs an effect of the plan.
    fn perform(
        &self,
        observed: &Self::Observed,
        effect: <Self::Observed as Machine>::Effect,
    ) -> impl Future<Output = Result<(), ReconcileError>> + Send;

    /// The kind and the metadata of the object.
    fn object(&self) -> (&'static str, &ObjectMeta);

    fn context(&self) -> &Context;

    /// Whether an effect changes more than the memory of this process.
    fn is_change(_effect: &<Self::Observed as Machine>::Effect) -> bool {
        true
    }
}

/// Performs requests until there is a plan, then the effects of the plan in order.
async fn reconcile_object<R: Reconciler>(
    reconciler: &R,
    mut observed: R::Observed,
) -> Result<Action, ReconcileError> {
    let plan = plan(reconciler, &mut observed).await?;
    log_decision(reconciler, &plan);
    instrumentation::record_rule(plan.rule);
    for effect in plan.effects {
        reconciler.perform(&observed, effect).await?;
    }
    Ok(action(plan.requeue))
}

/// Logs a decision at level info if it changes something, or if another rule decided before.
/// Repeated decisions are logged at level debug.
fn log_decision<R: Reconciler>(reconciler: &R, plan: &Plan<<R::Observed as Machine>::Effect>) {
    let (kind, object) = reconciler.object();
    let uid = object.uid.as_deref().unwrap_or_default();
    let is_other_rule = reconciler
        .context()
        .memory
        .last_rules
        .replace(uid, plan.rule);
    let (namespace, name) = (object.namespace.as_deref(), object.name.as_deref());
    let (generation, rule) = (object.generation, plan.rule);
    if is_other_rule || plan.effects.iter().any(R::is_change) {
        tracing::info!(namespace, name, generation, rule, "{kind} decided");
    } else {
        tracing::debug!(namespace, name, generation, rule, "{kind} decided");
    }
}

async fn plan<R: Reconciler>(
    reconciler: &R,
    observed: &mut R::Observed,
) -> Result<Plan<<R::Observed as Machine>::Effect>, ReconcileError> {
    for _ in 0..MAX_REQUESTS {
        let response = match observed.decide(Timestamp::now()) {
            Step::Read(read) => reconciler.read(read).await,
            Step::Write(write) => reconciler.write(write).await,
            Step::Finish(plan) => return Ok(plan),
        };
        match response {
            Ok(response) => observed.observe(response),
            Err(error) => {
                save_results(reconciler, observed).await;
                return Err(error);
            }
        }
    }
    Err(ReconcileError::TooManyRequests)
}

/// Saves results that an interrupted reconcile must not lose. If that fails too, the next reconcile
/// finds them again.
async fn save_results<R: Reconciler>(reconciler: &R, observed: &R::Observed) {
    for effect in observed.unsaved_effects(Timestamp::now()) {
        if let Err(error) = reconciler.perform(observed, effect).await {
            tracing::warn!(%error, "Failed to save a result; the next reconcile finds it again");
            return;
        }
    }
}

fn action(requeue: Requeue) -> Action {
    match requeue {
        Requeue::Settled => Action::await_change(),
        Requeue::After(delay) => Action::requeue(delay),
    }
}

fn after_error(_: &ReconcileError) -> Action {
    Action::requeue(AFTER_ERROR)
}
