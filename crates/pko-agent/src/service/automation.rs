//! Upstream's `AutomationService`.

use std::sync::Arc;

use pko_proto::agent::{
    AddEnvironmentsRequest, AddEnvironmentsResult, DestroyRequest, DestroyStream, InfoRequest,
    InfoResult, InstallRequest, InstallResult, PreviewRequest, PreviewStream, PulumiVersionRequest,
    PulumiVersionResult, RefreshRequest, RefreshStream, SelectStackRequest, SelectStackResult,
    SetAllConfigRequest, SetAllConfigResult, StackSummary, UpRequest, UpStream, WhoAmIRequest,
    WhoAmIResult, automation_service_server::AutomationService,
};
use tonic::{Request, Response};

use super::{
    GrpcResult, run_detached,
    status::{install_failure_status, who_am_i_failure_status},
    stream::{self, Reply, ReplyStream},
};
use crate::{
    pulumi::Operation,
    run::{RunRequest, Runs},
    workspace::{StackRequest, Workspace},
};

pub(super) struct AutomationServer {
    pub(super) workspace: Arc<Workspace>,
    pub(super) runs: Arc<Runs>,
}

impl AutomationServer {
    /// Uses the stack that is current now, even if another one is selected while the run is queued.
    async fn start<R: Reply>(&self, operation: Operation) -> GrpcResult<ReplyStream<R>> {
        let workspace = Arc::clone(&self.workspace);
        let current = async move { Ok(workspace.session_until_shutdown().await.current().await?) };
        let request = RunRequest {
            stack: StackRequest {
                name: run_detached(current).await?,
                ..Default::default()
            },
            config: None,
            operation,
            time_limit: None,
            lost_runs: Vec::new(),
        };
        Ok(Response::new(stream::start_run(&self.runs, request)?))
    }
}

#[tonic::async_trait]
impl AutomationService for AutomationServer {
    type PreviewStream = ReplyStream<PreviewStream>;
    type RefreshStream = ReplyStream<RefreshStream>;
    type UpStream = ReplyStream<UpStream>;
    type DestroyStream = ReplyStream<DestroyStream>;

    async fn who_am_i(&self, _request: Request<WhoAmIRequest>) -> GrpcResult<WhoAmIResult> {
        let who = self.workspace.who_am_i().await;
        who.map(Response::new)
            .map_err(|error| who_am_i_failure_status(&error))
    }

    async fn select_stack(
        &self,
        request: Request<SelectStackRequest>,
    ) -> GrpcResult<SelectStackResult> {
        let request = request.into_inner();
        let request = StackRequest {
            create: request.create(),
            name: request.stack_name,
            secrets_provider: request.secrets_provider,
        };
        let workspace = Arc::clone(&self.workspace);
        run_detached(async move {
            workspace
                .session_until_shutdown()
                .await
                .select(&request)
                .await?;
            let summary = StackSummary {
                name: request.name,
                url: Some(String::new()),
                ..Default::default()
            };
            Ok(Response::new(SelectStackResult {
                summary: Some(summary),
            }))
        })
        .await
    }

    async fn info(&self, _request: Request<InfoRequest>) -> GrpcResult<InfoResult> {
        let workspace = Arc::clone(&self.workspace);
        run_detached(async move {
            let summary = workspace.session_until_shutdown().await.info().await?;
            Ok(Response::new(InfoResult {
                summary: Some(summary),
            }))
        })
        .await
    }

    async fn set_all_config(
        &self,
        request: Request<SetAllConfigRequest>,
    ) -> GrpcResult<SetAllConfigResult> {
        let items = request.into_inner().config;
        let workspace = Arc::clone(&self.workspace);
        run_detached(async move {
            let mut session = workspace.session_until_shutdown().await;
            let stack = session.current().await?;
            session.configure(&stack, &items, &[]).await?;
            Ok(Response::new(SetAllConfigResult {}))
        })
        .await
    }

    async fn add_environments(
        &self,
        request: Request<AddEnvironmentsRequest>,
    ) -> GrpcResult<AddEnvironmentsResult> {
        let environments = request.into_inner().environment;
        let workspace = Arc::clone(&self.workspace);
        run_detached(async move {
            let mut session = workspace.session_until_shutdown().await;
            let stack = session.current().await?;
            session.add_environments(&stack, &environments).await?;
            Ok(Response::new(AddEnvironmentsResult {}))
        })
        .await
    }

    async fn install(&self, _request: Request<InstallRequest>) -> GrpcResult<InstallResult> {
        let workspace = Arc::clone(&self.workspace);
        run_detached(async move {
            let installed = workspace.session_until_shutdown().await.install().await;
            installed.map_err(|error| install_failure_status(&error))?;
            Ok(Response::new(InstallResult {}))
        })
        .await
    }

    async fn pulumi_version(
        &self,
        _request: Request<PulumiVersionRequest>,
    ) -> GrpcResult<PulumiVersionResult> {
        let version = self.workspace.version().await?.text();
        Ok(Response::new(PulumiVersionResult { version }))
    }

    async fn preview(&self, request: Request<PreviewRequest>) -> GrpcResult<Self::PreviewStream> {
        self.start(Operation::Preview(request.into_inner())).await
    }

    async fn refresh(&self, request: Request<RefreshRequest>) -> GrpcResult<Self::RefreshStream> {
        self.start(Operation::Refresh(request.into_inner())).await
    }

    async fn up(&self, request: Request<UpRequest>) -> GrpcResult<Self::UpStream> {
        self.start(Operation::Up(request.into_inner())).await
    }

    async fn destroy(&self, request: Request<DestroyRequest>) -> GrpcResult<Self::DestroyStream> {
        self.start(Operation::Destroy(request.into_inner())).await
    }
}
