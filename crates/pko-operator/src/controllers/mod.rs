//! The four controllers, and the one loop that drives them.

pub(crate) mod context;
mod instrumentation;
pub(crate) mod last_rules;
pub(crate) mod program;
pub(crate) mod stack;
pub(crate) mod update;
pub(crate) mod workspace;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::controller::Action;
use pko_core::{Machine, Plan, Requeue, Step};
use pko_kube::RequestError;

pub(crate) use context::Context;

use instrumentation::supervised;

/// After an error that nobody expected.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// More requests than any machine has, so that a machine that never finishes is an error, not a hot loop.
const MAX_REQUESTS: usize = 16;

/// Why a pass did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    /// The API server refused, or did not answer.
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    /// A machine did not finish.
    #[error("no decision after {MAX_REQUESTS} requests")]
    TooManyRequests,
    /// Our own mistake.
    #[error("the pass panicked: {0}")]
    Panicked(String),
}

/// One look at an object: how its machine's requests and effects are carried out.
trait Pass: Sync {
    /// What is observed of the object, and decides.
    type Observed: Machine<Read: Send, Write: Send, Response: Send, Effect: Send> + Send + Sync;

    /// Looks something up, without an effect.
    fn read(
        &self,
        read: <Self::Observed as Machine>::Read,
    ) -> impl Future<Output = Result<<Self::Observed as Machine>::Response, PassError>> + Send;

    /// Changes something whose outcome the next decision depends on.
    fn write(
        &self,
        write: <Self::Observed as Machine>::Write,
    ) -> impl Future<Output = Result<<Self::Observed as Machine>::Response, PassError>> + Send;

    /// Performs an effect of the plan.
    fn act(
        &self,
        observed: &Self::Observed,
        effect: <Self::Observed as Machine>::Effect,
    ) -> impl Future<Output = Result<(), PassError>> + Send;

    /// The kind and the metadata of the object.
    fn object(&self) -> (&'static str, &ObjectMeta);

    /// What all passes share.
    fn context(&self) -> &Context;

    /// Whether an effect changes more than the memory of this process.
    fn is_change(_effect: &<Self::Observed as Machine>::Effect) -> bool {
        true
    }
}

/// The only loop, the same for all kinds: asks until there is a plan, then carries it out in order.
async fn drive<P: Pass>(pass: &P, mut observed: P::Observed) -> Result<Action, PassError> {
    let plan = plan(pass, &mut observed).await?;
    log_decision(pass, &plan);
    instrumentation::decided(plan.rule);
    for effect in plan.effects {
        pass.act(&observed, effect).await?;
    }
    Ok(action(plan.requeue))
}

/// Logs a decision: at level info if it changes something, or if another rule decided the last
/// time. An object that waits is decided on again and again, which is for level debug.
fn log_decision<P: Pass>(pass: &P, plan: &Plan<<P::Observed as Machine>::Effect>) {
    let (kind, object) = pass.object();
    let uid = object.uid.as_deref().unwrap_or_default();
    let is_other_rule = pass.context().last_rules.replace(uid, plan.rule);
    let (namespace, name) = (object.namespace.as_deref(), object.name.as_deref());
    let (generation, rule) = (object.generation, plan.rule);
    if is_other_rule || plan.effects.iter().any(P::is_change) {
        tracing::info!(namespace, name, generation, rule, "{kind} decided");
    } else {
        tracing::debug!(namespace, name, generation, rule, "{kind} decided");
    }
}

async fn plan<P: Pass>(
    pass: &P,
    observed: &mut P::Observed,
) -> Result<Plan<<P::Observed as Machine>::Effect>, PassError> {
    for _ in 0..MAX_REQUESTS {
        let response = match observed.decide(Timestamp::now()) {
            Step::Read(read) => pass.read(read).await,
            Step::Write(write) => pass.write(write).await,
            Step::Finish(plan) => return Ok(plan),
        };
        match response {
            Ok(response) => observed.observe(response),
            Err(error) => {
                keep(pass, observed).await;
                return Err(error);
            }
        }
    }
    Err(PassError::TooManyRequests)
}

/// Keeps what must not be lost with a pass that does not come to its end. Where that does not work either, the next pass
/// finds it again.
async fn keep<P: Pass>(pass: &P, observed: &P::Observed) {
    for effect in observed.unsaved(Timestamp::now()) {
        if let Err(error) = pass.act(observed, effect).await {
            tracing::warn!(%error, "A result could not be kept, and will be found again");
            return;
        }
    }
}

/// When the controller looks again.
fn action(requeue: Requeue) -> Action {
    match requeue {
        Requeue::Settled => Action::await_change(),
        Requeue::After(delay) => Action::requeue(delay),
    }
}

/// What happens after a pass that did not come to its end.
fn after_error(_: &PassError) -> Action {
    Action::requeue(AFTER_ERROR)
}
