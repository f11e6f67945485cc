//! Programs: each is published as an archive.

use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::{Controller, controller::Action};
use pko_api::{
    Decoded, Program,
    names::{events, field_managers},
};
use pko_core::program::{Effect, World, decide};

use super::{Context, PassError, action, after_error, context::readable, supervised};

/// Runs the controller until the manager ends.
pub(crate) async fn run(controller: Controller<Decoded<Program>>, context: Arc<Context>) {
    let stream = controller.run(
        supervised(events::PROGRAM_CONTROLLER, reconcile),
        |_, error, _| after_error(error),
        context,
    );
    futures::StreamExt::for_each(stream, |_| std::future::ready(())).await;
}

async fn reconcile(
    program: Arc<Decoded<Program>>,
    context: Arc<Context>,
) -> Result<Action, PassError> {
    let Some(program) = readable(&program) else {
        return Ok(Action::await_change());
    };
    let world = World {
        program: program.clone(),
        advertised: context.advertised.clone(),
    };
    let plan = decide(&world, Timestamp::now())?;
    for effect in plan.effects {
        match effect {
            Effect::PatchStatus(status) => {
                pko_kube::apply_status::<Program>(
                    &context.client,
                    program,
                    &status,
                    field_managers::PROGRAM_STATUS,
                )
                .await?;
            }
        }
    }
    Ok(action(plan.requeue))
}
