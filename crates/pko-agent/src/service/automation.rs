//! Upstream's service.

use std::sync::Arc;

use pko_proto::agent::{
    AddEnvironmentsRequest, AddEnvironmentsResult, DestroyRequest, DestroyStream, InfoRequest,
    InfoResult, InstallRequest, InstallResult, PreviewRequest, PreviewStream, PulumiVersionRequest,
    PulumiVersionResult, RefreshRequest, RefreshStream, SelectStackRequest, SelectStackResult,
    SetAllConfigRequest, SetAllConfigResult, StackSummary, UpRequest, UpStream, WhoAmIRequest,
    WhoAmIResult, automation_service_server::AutomationService,
};
use tonic::{Request, Response, Status};

use super::{
    status::{failed_install, failed_who_am_i},
    stream::{self, Replies, Reply},
    to_the_end,
};
use crate::{
    pulumi::Operation,
    run::{RunRequest, Runs},
    workspace::{StackRequest, Workspace},
};

type Answer<T> = Result<Response<T>, Status>;

pub(super) struct Automation {
    pub(super) workspace: Arc<Workspace>,
    pub(super) runs: Arc<Runs>,
}

impl Automation {
    /// The stack is the one that is current now, whatever is selected while the run waits.
    async fn begin<R: Reply>(&self, operation: Operation) -> Answer<Replies<R>> {
        let workspace = Arc::clone(&self.workspace);
        let current = async move { Ok(workspace.unstoppable_turn().await.current().await?) };
        let request = RunRequest {
            stack: StackRequest {
                name: to_the_end(current).await?,
                ..Default::default()
            },
            config: None,
            operation,
            time_limit: None,
            lost_runs: Vec::new(),
        };
        Ok(Response::new(stream::begin(&self.runs, request)?))
    }
}

#[tonic::async_trait]
impl AutomationService for Automation {
    type PreviewStream = Replies<PreviewStream>;
    type RefreshStream = Replies<RefreshStream>;
    type UpStream = Replies<UpStream>;
    type DestroyStream = Replies<DestroyStream>;

    async fn who_am_i(&self, _request: Request<WhoAmIRequest>) -> Answer<WhoAmIResult> {
        let who = self.workspace.who_am_i().await;
        who.map(Response::new)
            .map_err(|error| failed_who_am_i(&error))
    }

    async fn select_stack(
        &self,
        request: Request<SelectStackRequest>,
    ) -> Answer<SelectStackResult> {
        let request = request.into_inner();
        let request = StackRequest {
            create: request.create(),
            name: request.stack_name,
            secrets_provider: request.secrets_provider,
        };
        let workspace = Arc::clone(&self.workspace);
        to_the_end(async move {
            workspace.unstoppable_turn().await.select(&request).await?;
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

    async fn info(&self, _request: Request<InfoRequest>) -> Answer<InfoResult> {
        let workspace = Arc::clone(&self.workspace);
        to_the_end(async move {
            let summary = workspace.unstoppable_turn().await.info().await?;
            Ok(Response::new(InfoResult {
                summary: Some(summary),
            }))
        })
        .await
    }

    async fn set_all_config(
        &self,
        request: Request<SetAllConfigRequest>,
    ) -> Answer<SetAllConfigResult> {
        let items = request.into_inner().config;
        let workspace = Arc::clone(&self.workspace);
        to_the_end(async move {
            let mut turn = workspace.unstoppable_turn().await;
            let stack = turn.current().await?;
            turn.configure(&stack, &items, &[]).await?;
            Ok(Response::new(SetAllConfigResult {}))
        })
        .await
    }

    async fn add_environments(
        &self,
        request: Request<AddEnvironmentsRequest>,
    ) -> Answer<AddEnvironmentsResult> {
        let environments = request.into_inner().environment;
        let workspace = Arc::clone(&self.workspace);
        to_the_end(async move {
            let mut turn = workspace.unstoppable_turn().await;
            let stack = turn.current().await?;
            turn.add_environments(&stack, &environments).await?;
            Ok(Response::new(AddEnvironmentsResult {}))
        })
        .await
    }

    async fn install(&self, _request: Request<InstallRequest>) -> Answer<InstallResult> {
        let workspace = Arc::clone(&self.workspace);
        to_the_end(async move {
            let installed = workspace.unstoppable_turn().await.install().await;
            installed.map_err(|error| failed_install(&error))?;
            Ok(Response::new(InstallResult {}))
        })
        .await
    }

    async fn pulumi_version(
        &self,
        _request: Request<PulumiVersionRequest>,
    ) -> Answer<PulumiVersionResult> {
        let version = self.workspace.version().await?.text();
        Ok(Response::new(PulumiVersionResult { version }))
    }

    async fn preview(&self, request: Request<PreviewRequest>) -> Answer<Self::PreviewStream> {
        self.begin(Operation::Preview(request.into_inner())).await
    }

    async fn refresh(&self, request: Request<RefreshRequest>) -> Answer<Self::RefreshStream> {
        self.begin(Operation::Refresh(request.into_inner())).await
    }

    async fn up(&self, request: Request<UpRequest>) -> Answer<Self::UpStream> {
        self.begin(Operation::Up(request.into_inner())).await
    }

    async fn destroy(&self, request: Request<DestroyRequest>) -> Answer<Self::DestroyStream> {
        self.begin(Operation::Destroy(request.into_inner())).await
    }
}
