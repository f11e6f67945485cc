//! Our own `RunService`.

use std::{pin::Pin, sync::Arc, time::Duration};

use pko_proto::{
    convert::from_proto_timestamp,
    run::{
        self as wire, AcknowledgeRunRequest, AcknowledgeRunResponse, CancelRunRequest,
        GetRunRequest, ListRunsRequest, ListRunsResponse, Run, RunEvent, StartRunRequest,
        WatchRunRequest, run_service_server::RunService,
    },
};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::{
    GrpcResult,
    manager_limits::{fit_event, fit_run},
};
use crate::{
    pulumi::StopReason,
    run::{LostRun, RunRequest, Runs},
    workspace::StackRequest,
};

pub(super) struct RunServer {
    pub(super) runs: Arc<Runs>,
}

#[tonic::async_trait]
impl RunService for RunServer {
    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<RunEvent, Status>> + Send>>;

    async fn start_run(&self, request: Request<StartRunRequest>) -> GrpcResult<Run> {
        let request = request.into_inner();
        let run_id = request.run_id.clone();
        let run = self.runs.start(&run_id, run_request(request)?, false)?;
        Ok(Response::new(fit_run(run)))
    }

    async fn watch_run(
        &self,
        request: Request<WatchRunRequest>,
    ) -> GrpcResult<Self::WatchRunStream> {
        let request = request.into_inner();
        let events = self.runs.watch(&request.run_id, request.after_sequence)?;
        let events = ReceiverStream::new(events);
        let events = events.map(|event| event.map(fit_event).map_err(Status::from));
        Ok(Response::new(Box::pin(events)))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> GrpcResult<Run> {
        let run = self.runs.get(&request.into_inner().run_id)?;
        Ok(Response::new(fit_run(run)))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> GrpcResult<Run> {
        let run_id = request.into_inner().run_id;
        let run = self.runs.cancel(&run_id, StopReason::Canceled)?;
        Ok(Response::new(fit_run(run)))
    }

    async fn acknowledge_run(
        &self,
        request: Request<AcknowledgeRunRequest>,
    ) -> GrpcResult<AcknowledgeRunResponse> {
        self.runs.acknowledge(&request.into_inner().run_id)?;
        Ok(Response::new(AcknowledgeRunResponse {}))
    }

    async fn list_runs(&self, _request: Request<ListRunsRequest>) -> GrpcResult<ListRunsResponse> {
        let runs = self.runs.list();
        Ok(Response::new(ListRunsResponse { runs }))
    }
}

fn run_request(request: StartRunRequest) -> Result<RunRequest, Status> {
    let stack = request.stack.unwrap_or_default();
    if stack.name.is_empty() {
        return Err(Status::invalid_argument("invalid stack name"));
    }
    let operation = request
        .operation
        .ok_or_else(|| Status::invalid_argument("the run has no operation"))?;
    let time_limit = request.time_limit.map(Duration::try_from).transpose();
    Ok(RunRequest {
        stack: StackRequest {
            name: stack.name,
            create: stack.create,
            secrets_provider: stack.secrets_provider,
        },
        config: stack
            .config
            .map(|config| (config.items, config.environments)),
        operation: operation.into(),
        time_limit: time_limit
            .map_err(|_| Status::invalid_argument("the time limit is negative"))?,
        lost_runs: request.lost_runs.into_iter().filter_map(lost_run).collect(),
    })
}

/// A lost run without both times is ignored.
fn lost_run(run: wire::LostRun) -> Option<LostRun> {
    Some(LostRun {
        begun: from_proto_timestamp(run.begun_at.as_ref()?)?,
        lost: from_proto_timestamp(run.lost_at.as_ref()?)?,
        run_id: run.run_id,
    })
}
