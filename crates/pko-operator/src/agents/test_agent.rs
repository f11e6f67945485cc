//! An agent in the process of the test, which records its calls.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use pko_proto::agent::{
    self as wire, automation_service_server, automation_service_server::AutomationService,
};
use tokio::net::UnixListener;
use tonic::{Request, Response, Status, service::Routes, transport::Server};

use super::{ConnectError, Connection, Credentials, ReceiveBudget, connect};
use crate::workspace_runtime::AgentTarget;

/// A server on a socket of its own.
pub(super) struct TestAgent {
    pub(super) address: String,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) socket: PathBuf,
    _folder: tempfile::TempDir,
    serving: tokio::task::JoinHandle<()>,
}

impl TestAgent {
    pub(super) fn serve(routes: Routes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let connections = Arc::<AtomicUsize>::default();
        let serving = listen(&socket, routes, &connections);
        Self {
            address: format!("unix:{}", socket.display()),
            connections,
            socket,
            _folder: folder,
            serving,
        }
    }

    pub(super) async fn restart(&mut self, routes: Routes) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
        std::fs::remove_file(&self.socket).unwrap();
        self.serving = listen(&self.socket, routes, &self.connections);
    }

    pub(super) fn at(&self, instance: &str) -> AgentTarget {
        AgentTarget {
            address: self.address.clone(),
            credentials: Credentials::None,
            instance: instance.to_owned(),
            namespace: "ns".to_owned(),
            owns_runs: true,
        }
    }

    pub(super) async fn connect(&self) -> Connection {
        self.connect_with(&Credentials::None).await.unwrap()
    }

    pub(super) async fn connect_with(
        &self,
        credentials: &Credentials,
    ) -> Result<Connection, ConnectError> {
        let share = ReceiveBudget::default().share("ns");
        connect(&self.address, credentials, share).await
    }
}

fn listen(
    socket: &std::path::Path,
    routes: Routes,
    connections: &Arc<AtomicUsize>,
) -> tokio::task::JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    let count = Arc::clone(connections);
    let accepted = stream::unfold(listener, move |listener| {
        let count = Arc::clone(&count);
        async move {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            count.fetch_add(1, Ordering::SeqCst);
            Some((accepted, listener))
        }
    });
    let served = Server::builder().add_routes(routes);
    tokio::spawn(async move { drop(served.serve_with_incoming(accepted).await) })
}

/// What follows the messages of an operation.
#[derive(Clone)]
pub(super) enum StreamEnding {
    Eof,
    Status(Status),
    Hangs,
}

/// Serves upstream's service only.
#[derive(Clone)]
pub(super) struct UpstreamAgent {
    pub(super) result: Option<wire::UpResult>,
    pub(super) ending: StreamEnding,
    pub(super) selection: Option<Status>,
    pub(super) asked: Arc<Mutex<Vec<String>>>,
}

impl UpstreamAgent {
    pub(super) fn new(result: Option<wire::UpResult>, ending: StreamEnding) -> Self {
        Self {
            result,
            ending,
            selection: None,
            asked: Arc::default(),
        }
    }

    pub(super) fn routes(&self) -> Routes {
        Routes::new(automation_service_server::AutomationServiceServer::new(
            self.clone(),
        ))
    }

    fn note(&self, text: String) {
        self.asked.lock().push(text);
    }

    fn stream<M: Send + 'static>(&self, messages: Vec<M>) -> Response<Messages<M>> {
        let messages = stream::iter(messages.into_iter().map(Ok));
        let ending: Messages<M> = match self.ending.clone() {
            StreamEnding::Eof => Box::pin(stream::empty()),
            StreamEnding::Status(status) => Box::pin(stream::iter([Err(status)])),
            StreamEnding::Hangs => Box::pin(stream::pending()),
        };
        Response::new(Box::pin(messages.chain(ending)))
    }
}

type Reply<T> = Result<Response<T>, Status>;
type Messages<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

fn event() -> prost_types::Struct {
    prost_types::Struct::default()
}

#[tonic::async_trait]
impl AutomationService for UpstreamAgent {
    type PreviewStream = Messages<wire::PreviewStream>;
    type RefreshStream = Messages<wire::RefreshStream>;
    type UpStream = Messages<wire::UpStream>;
    type DestroyStream = Messages<wire::DestroyStream>;

    async fn select_stack(
        &self,
        request: Request<wire::SelectStackRequest>,
    ) -> Reply<wire::SelectStackResult> {
        let request = request.into_inner();
        self.note(format!(
            "select {} create={:?}",
            request.stack_name, request.create
        ));
        match self.selection.clone() {
            Some(status) => Err(status),
            None => Ok(Response::new(wire::SelectStackResult::default())),
        }
    }

    async fn up(&self, request: Request<wire::UpRequest>) -> Reply<Self::UpStream> {
        self.note(format!("up {}", request.into_inner().message()));
        let result = self.result.clone().map(wire::up_stream::Response::Result);
        let all = [Some(wire::up_stream::Response::Event(event())), result];
        let all = all.into_iter().flatten().map(|response| wire::UpStream {
            response: Some(response),
        });
        Ok(self.stream(all.collect()))
    }

    async fn preview(&self, _: Request<wire::PreviewRequest>) -> Reply<Self::PreviewStream> {
        self.note("preview".to_owned());
        // Upstream's previews have no summary.
        let result = wire::PreviewResult {
            stdout: "Previewing update".to_owned(),
            ..wire::PreviewResult::default()
        };
        let response = Some(wire::preview_stream::Response::Result(result));
        Ok(self.stream(vec![wire::PreviewStream { response }]))
    }

    async fn refresh(&self, _: Request<wire::RefreshRequest>) -> Reply<Self::RefreshStream> {
        self.note("refresh".to_owned());
        let result = wire::RefreshResult {
            summary: self.result.clone().unwrap_or_default().summary,
            ..wire::RefreshResult::default()
        };
        let response = Some(wire::refresh_stream::Response::Result(result));
        Ok(self.stream(vec![wire::RefreshStream { response }]))
    }

    async fn destroy(&self, _: Request<wire::DestroyRequest>) -> Reply<Self::DestroyStream> {
        self.note("destroy".to_owned());
        let result = wire::DestroyResult {
            summary: self.result.clone().unwrap_or_default().summary,
            ..wire::DestroyResult::default()
        };
        let response = Some(wire::destroy_stream::Response::Result(result));
        Ok(self.stream(vec![wire::DestroyStream { response }]))
    }

    async fn who_am_i(&self, _: Request<wire::WhoAmIRequest>) -> Reply<wire::WhoAmIResult> {
        Err(Status::unimplemented("not called"))
    }

    async fn info(&self, _: Request<wire::InfoRequest>) -> Reply<wire::InfoResult> {
        Err(Status::unimplemented("not called"))
    }

    async fn set_all_config(
        &self,
        _: Request<wire::SetAllConfigRequest>,
    ) -> Reply<wire::SetAllConfigResult> {
        Err(Status::unimplemented("called by the Workspace only"))
    }

    async fn add_environments(
        &self,
        _: Request<wire::AddEnvironmentsRequest>,
    ) -> Reply<wire::AddEnvironmentsResult> {
        Err(Status::unimplemented("called by the Workspace only"))
    }

    async fn install(&self, _: Request<wire::InstallRequest>) -> Reply<wire::InstallResult> {
        Ok(Response::new(wire::InstallResult {}))
    }

    async fn pulumi_version(
        &self,
        _: Request<wire::PulumiVersionRequest>,
    ) -> Reply<wire::PulumiVersionResult> {
        Ok(Response::new(wire::PulumiVersionResult::default()))
    }
}
