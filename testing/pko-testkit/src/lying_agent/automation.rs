//! The rest of what a manager asks of a lying agent: it is always fine.

use futures::{StreamExt as _, stream};
use pko_proto::agent::{
    AddEnvironmentsRequest, AddEnvironmentsResult, DestroyRequest, DestroyStream, InfoRequest,
    InfoResult, InstallRequest, InstallResult, PreviewRequest, PreviewStream, PulumiVersionRequest,
    PulumiVersionResult, RefreshRequest, RefreshStream, SelectStackRequest, SelectStackResult,
    SetAllConfigRequest, SetAllConfigResult, UpRequest, UpStream, WhoAmIRequest, WhoAmIResult,
    automation_service_server::AutomationService, up_stream,
};
use tonic::{Request, Response, Status};

use super::{GrpcReply, Lie, LyingAgent, Messages};

#[tonic::async_trait]
impl AutomationService for LyingAgent {
    type PreviewStream = Messages<PreviewStream>;
    type RefreshStream = Messages<RefreshStream>;
    type UpStream = Messages<UpStream>;
    type DestroyStream = Messages<DestroyStream>;

    async fn up(&self, _: Request<UpRequest>) -> GrpcReply<Self::UpStream> {
        let event = up_stream::Response::Event(pko_proto::Struct::default());
        let event = UpStream {
            response: Some(event),
        };
        if self.0 == Lie::LongHeaders {
            let failure = Status::unknown("x".repeat(2 * 1024 * 1024));
            return Ok(Response::new(Box::pin(stream::iter([
                Ok(event),
                Err(failure),
            ]))));
        }
        Ok(Response::new(Box::pin(stream::repeat(event).map(Ok))))
    }

    async fn preview(&self, _: Request<PreviewRequest>) -> GrpcReply<Self::PreviewStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn refresh(&self, _: Request<RefreshRequest>) -> GrpcReply<Self::RefreshStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn destroy(&self, _: Request<DestroyRequest>) -> GrpcReply<Self::DestroyStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn pulumi_version(
        &self,
        _: Request<PulumiVersionRequest>,
    ) -> GrpcReply<PulumiVersionResult> {
        Ok(Response::new(PulumiVersionResult {
            version: "3.259.0".to_owned(),
        }))
    }

    async fn install(&self, _: Request<InstallRequest>) -> GrpcReply<InstallResult> {
        Ok(Response::new(InstallResult {}))
    }

    async fn select_stack(&self, _: Request<SelectStackRequest>) -> GrpcReply<SelectStackResult> {
        Ok(Response::new(SelectStackResult::default()))
    }

    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> GrpcReply<WhoAmIResult> {
        Ok(Response::new(WhoAmIResult::default()))
    }

    async fn info(&self, _: Request<InfoRequest>) -> GrpcReply<InfoResult> {
        Ok(Response::new(InfoResult::default()))
    }

    async fn set_all_config(
        &self,
        _: Request<SetAllConfigRequest>,
    ) -> GrpcReply<SetAllConfigResult> {
        Ok(Response::new(SetAllConfigResult {}))
    }

    async fn add_environments(
        &self,
        _: Request<AddEnvironmentsRequest>,
    ) -> GrpcReply<AddEnvironmentsResult> {
        Ok(Response::new(AddEnvironmentsResult {}))
    }
}
