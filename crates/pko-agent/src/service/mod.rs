//! The gRPC services: upstream's `AutomationService`, and our own `RunService`.

mod automation;
pub(crate) mod call_log;
mod manager_limits;
mod runs;
mod status;
mod stream;

use std::{future::Future, sync::Arc};

use pko_proto::{
    MAX_MESSAGE_BYTES, agent::automation_service_server::AutomationServiceServer,
    run::run_service_server::RunServiceServer,
};
use tonic::{Response, Status, service::Routes};

use crate::{run::Runs, workspace::Workspace};

type GrpcResult<T> = Result<Response<T>, Status>;

/// All services, including health.
pub(crate) async fn routes(workspace: Arc<Workspace>, runs: Arc<Runs>) -> Routes {
    let automation = AutomationServiceServer::new(automation::AutomationServer {
        workspace,
        runs: Arc::clone(&runs),
    });
    let run_service = RunServiceServer::new(runs::RunServer { runs });
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    Routes::new(health)
        .add_service(automation.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(run_service.max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Completes the work even if the caller disconnects, so that no command of the CLI is cut off.
async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(work)
        .await
        .unwrap_or_else(|_| Err(Status::internal("the call panicked")))
}
