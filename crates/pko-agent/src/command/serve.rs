//! `agent serve`: opens the workspace, listens, and ends when it is told to and nothing goes on.

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
    pulumi::{Cli, StopReason, StopSignal, StopSource, locate, mask_own_environment},
    run::{Journal, Runs},
    service,
    workspace::{StackRequest, Workspace, env_file},
};

const KEEPALIVE: Duration = Duration::from_mins(1);

/// How long callers may take to read the last answers after everything has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Serves until a signal ends it.
pub(crate) fn run(global: &Global, arguments: &Serve) -> anyhow::Result<()> {
    super::version::run();
    if arguments.own_session {
        become_a_session();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(global, arguments));
    // What still runs on blocking threads has nothing to say any more.
    runtime.shutdown_background();
    served
}

fn become_a_session() {
    if let Err(error) = rustix::process::setsid() {
        tracing::warn!(%error, "This process is the leader of a group already and stays in its session");
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
        // A caller whose machine is gone is noticed, and its run with it.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .layer(service::call_log::CallLog)
        .layer(auth_layer)
        .add_routes(services);
    let idle = StopSource::new();
    tokio::spawn(end(signals, shutdown, runs, idle.clone()));
    let ended = until(idle.signal());
    let served = async {
        match listen_address(arguments) {
            Address::Unix(path) => {
                let listener = listen_on_socket(&path).await?;
                tracing::info!(socket = %path.display(), "Serving");
                let incoming = UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, ended).await
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(&address)
                    .await
                    .with_context(|| format!("unable to listen on {address}"))?;
                tracing::info!(address = %listener.local_addr()?, "Serving");
                let incoming = TcpListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, ended).await
            }
        }
        .context("unexpected serve error")
    };
    tokio::select! {
        served = served => served?,
        () = stragglers(idle.signal()) => tracing::warn!("Some callers did not hang up"),
    }
    tracing::info!("Server stopped");
    Ok(())
}

/// Beside the workspace, on the same volume; not inside, where programs would take it for theirs.
/// Absolute, since the CLI runs elsewhere.
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
    mask_own_environment(&mask);
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

/// What upstream's flags ask for before it listens.
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

/// Finds out which CLI it is without waiting for it: the first caller will want to know. One that can't
/// be used is said to whoever calls, where it can be seen, instead of ending again and again.
fn log_version(workspace: Arc<Workspace>) {
    tokio::spawn(async move {
        match workspace.version().await {
            Ok(version) => tracing::info!(version = version.text(), "Found pulumi"),
            Err(error) => tracing::error!(
                error = error.text(),
                "unable to open the workspace: pulumi can't be used"
            ),
        }
    });
}

/// Where to listen.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    Unix(PathBuf),
    Tcp(String),
}

fn listen_address(arguments: &Serve) -> Address {
    match &arguments.listen {
        Some(listen) => match listen.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Tcp(listen.clone()),
        },
        None => Address::Tcp(match arguments.host.parse() {
            Ok(address) => SocketAddr::new(address, arguments.port).to_string(),
            Err(_) => format!("{}:{}", arguments.host, arguments.port),
        }),
    }
}

/// A socket that an agent before us has left is taken over; one that answers is not.
async fn listen_on_socket(path: &Path) -> anyhow::Result<UnixListener> {
    if path.exists() {
        if UnixStream::connect(path).await.is_ok() {
            bail!(
                "unable to listen on {}: another process does",
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

/// The signals that end the agent.
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

/// At the first signal, interrupts what goes on. Until that has ended the agent still answers, so that
/// a result can be fetched; it starts nothing new. A second signal ends the process at once.
async fn end(mut signals: Signals, shutdown: StopSource, runs: Arc<Runs>, idle: StopSource) {
    signals.next().await;
    tracing::info!("Stopping");
    shutdown.stop(StopReason::Shutdown);
    tokio::spawn(async move {
        signals.next().await;
        tracing::warn!("Stopping at once");
        std::process::exit(1);
    });
    runs.shut_down().await;
    idle.stop(StopReason::Shutdown);
}

async fn until(mut idle: StopSignal) {
    idle.wait().await;
}

async fn stragglers(idle: StopSignal) {
    until(idle).await;
    tokio::time::sleep(LAST_ANSWERS).await;
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
            ("-w /w", Address::Tcp("0.0.0.0:50051".to_owned())),
            (
                "-w /w --port 1 --host ::1",
                Address::Tcp("[::1]:1".to_owned()),
            ),
            (
                "-w /w --listen unix:/s/agent.sock",
                Address::Unix("/s/agent.sock".into()),
            ),
            (
                "-w /w --listen 127.0.0.1:0",
                Address::Tcp("127.0.0.1:0".to_owned()),
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
