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

use super::{Lie, LyingAgent, Messages, Reply};

#[tonic::async_trait]
impl AutomationService for LyingAgent {
    type PreviewStream = Messages<PreviewStream>;
    type RefreshStream = Messages<RefreshStream>;
    type UpStream = Messages<UpStream>;
    type DestroyStream = Messages<DestroyStream>;

    async fn up(&self, _: Request<UpRequest>) -> Reply<Self::UpStream> {
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

    async fn preview(&self, _: Request<PreviewRequest>) -> Reply<Self::PreviewStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn refresh(&self, _: Request<RefreshRequest>) -> Reply<Self::RefreshStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn destroy(&self, _: Request<DestroyRequest>) -> Reply<Self::DestroyStream> {
        Ok(Response::new(Box::pin(stream::pending())))
    }

    async fn pulumi_version(&self, _: Request<PulumiVersionRequest>) -> Reply<PulumiVersionResult> {
        Ok(Response::new(PulumiVersionResult {
            version: "3.259.0".to_owned(),
        }))
    }

    async fn install(&self, _: Request<InstallRequest>) -> Reply<InstallResult> {
        Ok(Response::new(InstallResult {}))
    }

    async fn select_stack(&self, _: Request<SelectStackRequest>) -> Reply<SelectStackResult> {
        Ok(Response::new(SelectStackResult::default()))
    }

    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> Reply<WhoAmIResult> {
        Ok(Response::new(WhoAmIResult::default()))
    }

    async fn info(&self, _: Request<InfoRequest>) -> Reply<InfoResult> {
        Ok(Response::new(InfoResult::default()))
    }

    async fn set_all_config(&self, _: Request<SetAllConfigRequest>) -> Reply<SetAllConfigResult> {
        Ok(Response::new(SetAllConfigResult {}))
    }

    async fn add_environments(
        &self,
        _: Request<AddEnvironmentsRequest>,
    ) -> Reply<AddEnvironmentsResult> {
        Ok(Response::new(AddEnvironmentsResult {}))
    }
}
