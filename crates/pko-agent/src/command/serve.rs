//! `agent serve`: opens the workspace and serves it, until a signal arrives and all runs have
//! finished.

use std::{
    fs::Permissions,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use pko_auth::Mask;
use tokio::{
    net::{TcpListener, UnixListener, UnixStream},
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;

use crate::{
    args::{Global, Serve},
    auth,
    pulumi::{Cli, StopReason, StopSignal, StopSource, locate},
    run::{Journal, Runs},
    secret_variables::SecretVariables,
    service,
    workspace::{StackRequest, Workspace, env_file},
};

const KEEPALIVE: Duration = Duration::from_mins(1);

/// How long callers may read their last responses after all runs have finished.
const LINGER: Duration = Duration::from_secs(10);

pub(crate) fn run(global: &Global, arguments: &Serve) -> anyhow::Result<()> {
    super::version::run();
    if arguments.own_session {
        start_own_session();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(global, arguments));
    // Do not wait for blocking threads.
    runtime.shutdown_background();
    served
}

fn start_own_session() {
    if let Err(error) = rustix::process::setsid() {
        tracing::warn!(%error, "Failed to start a session, because this process leads a process group");
    }
}

async fn serve(global: &Global, arguments: &Serve) -> anyhow::Result<()> {
    let auth_layer = auth::auth_layer(global, arguments).await?;
    let shutdown = StopSource::new();
    let data = data_folder(arguments)?;
    let workspace = open_workspace(arguments, &data, shutdown.clone())?;
    let runs = Runs::open(Arc::clone(&workspace), Journal::open(&data)?)?;
    prepare(arguments, &workspace).await?;
    let signals = Signals::new()?;
    log_version(Arc::clone(&workspace));
    let services = service::routes(workspace, Arc::clone(&runs)).await;
    let router = Server::builder()
        .http2_max_header_list_size(pko_proto::MAX_HEADER_BYTES)
        // Detects callers whose machine is gone, so that their runs are stopped.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .layer(service::call_log::CallLog)
        .layer(auth_layer)
        .add_routes(services);
    let idle = StopSource::new();
    tokio::spawn(shut_down_on_signal(signals, shutdown, runs, idle.clone()));
    let idle_signal = wait_until_idle(idle.signal());
    let served = async {
        match listen_address(arguments) {
            ListenAddress::Unix(path) => {
                let listener = listen_on_socket(&path).await?;
                tracing::info!(socket = %path.display(), "Serving");
                let incoming = UnixListenerStream::new(listener);
                router
                    .serve_with_incoming_shutdown(incoming, idle_signal)
                    .await
            }
            ListenAddress::Tcp(address) => {
                let listener = TcpListener::bind(&address)
                    .await
                    .with_context(|| format!("unable to listen on {address}"))?;
                tracing::info!(address = %listener.local_addr()?, "Serving");
                let incoming = TcpListenerStream::new(listener);
                router
                    .serve_with_incoming_shutdown(incoming, idle_signal)
                    .await
            }
        }
        .context("unexpected serve error")
    };
    tokio::select! {
        served = served => served?,
        () = linger(idle.signal()) => tracing::warn!("Closing connections of callers that did not disconnect"),
    }
    tracing::info!("Server stopped");
    Ok(())
}

/// Beside the workspace on the same volume, because programs may read the folder itself. Absolute,
/// because the CLI runs in another folder.
fn data_folder(arguments: &Serve) -> std::io::Result<PathBuf> {
    if let Some(folder) = &arguments.data_dir {
        return std::path::absolute(folder);
    }
    let workspace = std::path::absolute(&arguments.workspace)?;
    Ok(workspace.parent().unwrap_or(&workspace).join(".pko"))
}

fn open_workspace(
    arguments: &Serve,
    data: &Path,
    shutdown: StopSource,
) -> anyhow::Result<Arc<Workspace>> {
    let folder = arguments
        .workspace
        .canonicalize()
        .context("unable to resolve the workspace directory")?;
    let environment = match &arguments.env_file {
        Some(file) => env_file::load(file).context("unable to read the environment file")?,
        None => Vec::new(),
    };
    let mask = Arc::new(Mask::default());
    let unmasked = SecretVariables::from_environment()?.mask_environment(&mask);
    if !unmasked.is_empty() {
        tracing::warn!(
            variables = ?unmasked,
            "The values of these variables come from Secrets, but are too short or too common to be masked in logs and results"
        );
    }
    mask.add_environment(
        environment
            .iter()
            .map(|(name, value)| (name.into(), value.expose().into())),
    );
    let cli = Cli {
        program: locate().context("unable to open the workspace")?,
        folder,
        environment,
        mask,
        patience: arguments.stop_patience,
    };
    Workspace::open(cli, arguments.pulumi_log_level, data, shutdown)
        .context("unable to get the project settings")
}

/// Upstream's `--stack` and the installation, before listening.
async fn prepare(arguments: &Serve, workspace: &Arc<Workspace>) -> anyhow::Result<()> {
    if !arguments.skip_install {
        let installed = workspace.session_until_shutdown().await.install().await;
        installed.context("unable to install project dependencies")?;
    }
    if let Some(name) = arguments.stack.clone().filter(|name| !name.is_empty()) {
        let request = StackRequest {
            name,
            create: true,
            secrets_provider: arguments.secrets_provider.clone(),
        };
        let selected = workspace
            .session_until_shutdown()
            .await
            .select(&request)
            .await;
        selected.context("unable to make an automation server")?;
    }
    Ok(())
}

/// Reads the CLI's version in the background, for the first caller. An unsupported CLI does not end
/// the agent: callers get the error instead of a crash loop.
fn log_version(workspace: Arc<Workspace>) {
    tokio::spawn(async move {
        match workspace.version().await {
            Ok(version) => tracing::info!(version = version.text(), "Found pulumi"),
            Err(error) => tracing::error!(
                error = error.text(),
                "unable to open the workspace: unsupported pulumi CLI"
            ),
        }
    });
}

#[derive(Debug, PartialEq, Eq)]
enum ListenAddress {
    Unix(PathBuf),
    Tcp(String),
}

fn listen_address(arguments: &Serve) -> ListenAddress {
    match &arguments.listen {
        Some(listen) => match listen.strip_prefix("unix:") {
            Some(path) => ListenAddress::Unix(path.into()),
            None => ListenAddress::Tcp(listen.clone()),
        },
        None => ListenAddress::Tcp(match arguments.host.parse() {
            Ok(address) => SocketAddr::new(address, arguments.port).to_string(),
            Err(_) => format!("{}:{}", arguments.host, arguments.port),
        }),
    }
}

/// Replaces the socket of a previous agent, unless a process still listens on it.
async fn listen_on_socket(path: &Path) -> anyhow::Result<UnixListener> {
    if path.exists() {
        if UnixStream::connect(path).await.is_ok() {
            bail!(
                "unable to listen on {}: another process listens on it",
                path.display()
            );
        }
        std::fs::remove_file(path)?;
    }
    let listen = || {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        std::io::Result::Ok(listener)
    };
    listen().with_context(|| format!("unable to listen on {}", path.display()))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The first signal interrupts all runs. Until these have finished, the agent still serves, so that
/// results can be fetched, but starts no runs. A second signal exits at once.
async fn shut_down_on_signal(
    mut signals: Signals,
    shutdown: StopSource,
    runs: Arc<Runs>,
    idle: StopSource,
) {
    signals.next().await;
    tracing::info!("Stopping");
    shutdown.stop(StopReason::Shutdown);
    tokio::spawn(async move {
        signals.next().await;
        tracing::warn!("Exiting immediately");
        std::process::exit(1);
    });
    runs.shut_down().await;
    idle.stop(StopReason::Shutdown);
}

async fn wait_until_idle(mut idle: StopSignal) {
    idle.wait().await;
}

async fn linger(idle: StopSignal) {
    wait_until_idle(idle).await;
    tokio::time::sleep(LINGER).await;
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    fn arguments(line: &str) -> Serve {
        let parsed = Arguments::parse_from(format!("agent serve {line}").split_whitespace());
        match parsed.command {
            Some(Command::Serve(serve)) => serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn listen_address_follows_flags() {
        let table = [
            ("-w /w", ListenAddress::Tcp("0.0.0.0:50051".to_owned())),
            (
                "-w /w --port 1 --host ::1",
                ListenAddress::Tcp("[::1]:1".to_owned()),
            ),
            (
                "-w /w --listen unix:/s/agent.sock",
                ListenAddress::Unix("/s/agent.sock".into()),
            ),
            (
                "-w /w --listen 127.0.0.1:0",
                ListenAddress::Tcp("127.0.0.1:0".to_owned()),
            ),
        ];
        for (line, address) in table {
            assert_eq!(listen_address(&arguments(line)), address);
        }
    }

    #[test]
    fn data_folder_is_beside_workspace() {
        let folder = |line| data_folder(&arguments(line)).unwrap();
        assert_eq!(folder("-w /share/workspace"), Path::new("/share/.pko"));
        assert_eq!(folder("-w /w/x --data-dir /d"), Path::new("/d"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder("-w workspace"), here.join(".pko"));
        assert_eq!(folder("-w ."), here.parent().unwrap().join(".pko"));
    }
}
