//! The runs of a lying agent.

use futures::{StreamExt as _, stream};
use pko_proto::run::{
    AcknowledgeRunRequest, AcknowledgeRunResponse, CancelRunRequest, GetRunRequest,
    ListRunsRequest, ListRunsResponse, Run, RunEvent, StartRunRequest, WatchRunRequest, run_event,
    run_service_server::RunService,
};
use tonic::{Code, Request, Response, Status};

use super::{GrpcReply, Lie, LyingAgent, Messages, run};

impl LyingAgent {
    async fn run(self, id: &str) -> GrpcReply<Run> {
        match self.0 {
            Lie::Silent => std::future::pending().await,
            Lie::LongHeaders => Err(Status::new(Code::Unknown, "x".repeat(200 * 1024))),
            lie => Ok(Response::new(run(lie, id))),
        }
    }
}

#[tonic::async_trait]
impl RunService for LyingAgent {
    type WatchRunStream = Messages<RunEvent>;

    async fn start_run(&self, request: Request<StartRunRequest>) -> GrpcReply<Run> {
        self.run(&request.into_inner().run_id).await
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> GrpcReply<Run> {
        self.run(&request.into_inner().run_id).await
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> GrpcReply<Run> {
        self.run(&request.into_inner().run_id).await
    }

    async fn watch_run(&self, _: Request<WatchRunRequest>) -> GrpcReply<Self::WatchRunStream> {
        let event = || RunEvent {
            sequence: 1,
            event: Some(run_event::Event::EngineEvent(vec![b'{'; 1000])),
        };
        let events: Messages<RunEvent> = match self.0 {
            Lie::EndlessEvents => Box::pin(stream::repeat_with(event).map(Ok)),
            Lie::FalseEnds => Box::pin(stream::empty()),
            _ => Box::pin(stream::pending()),
        };
        Ok(Response::new(events))
    }

    async fn acknowledge_run(
        &self,
        _: Request<AcknowledgeRunRequest>,
    ) -> GrpcReply<AcknowledgeRunResponse> {
        Ok(Response::new(AcknowledgeRunResponse {}))
    }

    async fn list_runs(&self, _: Request<ListRunsRequest>) -> GrpcReply<ListRunsResponse> {
        let count = if self.0 == Lie::ManyRuns { 100_000 } else { 0 };
        let runs = (0..count).map(|number| run(self.0, &format!("run-{number}")));
        let runs = runs.collect();
        Ok(Response::new(ListRunsResponse { runs }))
    }
}
