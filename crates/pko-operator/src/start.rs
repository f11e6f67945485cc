//! The composition root: builds the parts, runs them, and ends with them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use axum::Router;
use kube::{
    Client, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use pko_api::{Decoded, Update, Workspace, names::events};
use pko_proto::token::SigningKey;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc::unbounded_channel,
};

use crate::{
    agents::{AccountTokens, Agents, ManagerTokens, ServiceAccountIssuer, Streams},
    api_client,
    args::{Arguments, Listen, WorkspaceAddress, WorkspaceRuntime},
    controllers::{
        Context,
        context::{Applied, EventRecorders, Followed},
        last_rules::LastRules,
        workspace::setup::Preparations,
    },
    leader_election::{Elected, Leadership},
    manager_key,
    metrics::{Metrics, Objects},
    runs::{pod_usage::Occupancy, queue::Turns},
    server::{
        bounded,
        health::{self, Readiness},
        metrics::{self, ClusterAccess, Door},
        programs::{self, Seals, Shelf},
    },
    sources::Sources,
    watch::{
        shared::Watching,
        streams::{Feeds, Woken},
    },
    workspace_runtime::{Children, Places, PodSettings, Pods, Processes, Tokens, Wake},
};

/// How often the folders of process workspaces are compared with the Workspaces that there are.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Runs the manager until it is told to end. Runs in workspaces go on without it.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let election = arguments.election()?;
    let metrics = Arc::new(Metrics::new()?);
    let client = api_client::client(&arguments, &metrics).await?;
    let listeners = Listeners::bind(&arguments).await?;
    let advertised = arguments.advertised(listeners.programs.local_addr()?);

    let (ground, key, _claim) = ground(&arguments, &client).await?;
    let seals = arguments.program_fs_sealed;
    let seals = seals.then(|| Arc::new(Seals::new(&key)));
    let tokens = tokens(key, &arguments, &client);
    let mut leadership = election
        .map(|timing| Leadership::seek(client.clone(), arguments.namespace.clone(), timing));
    let elected = leadership
        .as_ref()
        .map_or_else(Elected::always, Leadership::elected);
    let watching = Watching::new(&client, &elected, arguments.watched_namespaces());
    let in_pods = matches!(ground, Ground::Cluster);
    let feeds = Feeds::new(&watching, in_pods, arguments.watch_secrets);
    let (wake_stack, woken_stacks) = unbounded_channel();
    let (wake_workspace, woken_workspaces) = unbounded_channel();
    let (wake_update, woken_updates) = unbounded_channel();
    let occupancy = Arc::new(Occupancy::default());
    let places = match (ground, feeds.children.children(feeds.programs.store())) {
        (Ground::Cluster, Some(children)) => {
            let updates = feeds.updates.store();
            let occupancy = Arc::clone(&occupancy);
            pods(&arguments, &client, tokens, children, updates, occupancy)
        }
        (Ground::Folder(folder), _) => {
            processes(&arguments, &client, tokens, folder, &wake_workspace)?
        }
        (Ground::Cluster, None) => anyhow::bail!("workspaces in pods are not watched"),
    };
    let sources = Sources::new(
        &client,
        feeds.stacks.store(),
        arguments.watched_namespaces(),
        arguments.git_settings(),
        &wake_stack,
    )?;
    let context = Arc::new(Context {
        sources,
        places,
        preparations: Preparations::new(wake_workspace),
        stacks: feeds.stacks.store(),
        workspaces: feeds.workspaces.store(),
        updates: feeds.updates.store(),
        programs: feeds.programs.store(),
        versions: feeds.versions.known(),
        advertised,
        seals: seals.clone(),
        own_writes: pko_kube::OwnWrites::default(),
        applied: Applied::default(),
        last_rules: LastRules::default(),
        recorders: EventRecorders::new(&client),
        followed: Followed::new(wake_update.clone()),
        streams: Streams::new(wake_update.clone()),
        turns: Turns::new(arguments.limits(), wake_update, metrics.clone()),
        occupancy,
        agents: Agents::new(arguments.workspace_localhost()),
        leading_since: OnceLock::new(),
        run_timeout: arguments.run_timeout(),
        metrics,
        client,
    });
    let readiness = Readiness::default();
    let shelf = Shelf::new(context.programs.clone(), context.client.clone(), seals);
    let health_server = health::routes(readiness.clone());

    said(&arguments, &context.advertised);
    let workers = arguments.concurrency();
    counted(&context, workers, elected.clone())?;
    let woken = Woken {
        wake_stacks: wake_stack,
        stacks: woken_stacks,
        workspaces: woken_workspaces,
        updates: woken_updates,
    };
    tokio::select! {
        () = feeds.drive(woken, workers, context.clone()) => {}
        () = sweep(context.clone(), readiness, elected) => {}
        () = lost(leadership.as_mut()) => anyhow::bail!("another manager leads, or may: this one ends"),
        () = bounded::serve(listeners.programs, programs::routes(shelf), programs::LIMITS) => {}
        served = serve(listeners.health, health_server) => served.context("the health server ended")?,
        served = serve_metrics(listeners.metrics, &arguments, &context) => served.context("the server of metrics ended")?,
        () = end() => tracing::info!("Manager told to end"),
    }
    if let Some(leadership) = leadership {
        leadership.resign().await;
    }
    Ok(())
}

/// Says at the beginning what this manager was told.
fn said(arguments: &Arguments, advertised: &str) {
    let pods = arguments.pod_settings();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        advertised,
        sealed = arguments.program_fs_sealed,
        workspace_runtime = ?arguments.workspace_runtime,
        workspace_address = ?arguments.workspace_address,
        workspace_localhost = arguments.workspace_localhost(),
        idle_timeout = ?arguments.idle_timeout(),
        run_timeout = ?arguments.run_timeout(),
        git = ?arguments.git_settings(),
        namespaces = ?arguments.watched_namespaces(),
        watch_secrets = arguments.watch_secrets,
        agent_image = pods.agent_image,
        agent_image_pull_policy = pods.agent_image_pull_policy,
        max_untar_size = pods.max_untar_size,
        "Manager started"
    );
}

/// Comes when this manager does not lead any more; never where nobody is elected.
async fn lost(leadership: Option<&mut Leadership>) {
    match leadership {
        Some(leadership) => leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// Where the manager listens.
struct Listeners {
    programs: TcpListener,
    health: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    async fn bind(arguments: &Arguments) -> anyhow::Result<Self> {
        let programs = bind("--program-fs-addr", &arguments.program_fs_addr).await?;
        let health = &arguments.health_probe_bind_address;
        Ok(Self {
            programs: programs
                .context("--program-fs-addr: Programs have to be served somewhere")?,
            health: bind("--health-probe-bind-address", health).await?,
            metrics: bind("--metrics-bind-address", &arguments.metrics_bind_address).await?,
        })
    }
}

/// Listens where a flag says, if anywhere.
async fn bind(flag: &str, address: &Listen) -> anyhow::Result<Option<TcpListener>> {
    let listener = address.bind().await;
    listener.with_context(|| format!("{flag} {address}"))
}

/// Serves until the manager ends, if anywhere.
async fn serve(listener: Option<TcpListener>, routes: Router) -> std::io::Result<()> {
    match listener {
        Some(listener) => axum::serve(listener, routes).await,
        None => std::future::pending().await,
    }
}

/// Serves metrics until the manager ends, if anywhere.
async fn serve_metrics(
    listener: Option<TcpListener>,
    arguments: &Arguments,
    context: &Context,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let door = if arguments.metrics_secure {
        Door::Guarded {
            judge: ClusterAccess::new(context.client.clone()),
            http2: arguments.enable_http2,
        }
    } else {
        Door::Open
    };
    metrics::serve(listener, context.metrics.clone(), door).await
}

/// Begins to count what there is.
fn counted(context: &Arc<Context>, workers: u16, elected: Elected) -> anyhow::Result<()> {
    let metrics = &context.metrics;
    for controller in [
        events::STACK_CONTROLLER,
        events::WORKSPACE_CONTROLLER,
        events::UPDATE_CONTROLLER,
        events::PROGRAM_CONTROLLER,
    ] {
        metrics.controller_begins(controller, workers);
    }
    // The metrics are in the context: a strong hold here would be a ring.
    let runs = Arc::downgrade(context);
    let runs = move || {
        runs.upgrade()
            .map(|context| context.turns.counts())
            .unwrap_or_default()
    };
    let (stacks, programs) = (context.stacks.clone(), context.programs.clone());
    metrics.add(Objects::new(stacks, programs, runs, move || {
        elected.is_so()
    })?)?;
    Ok(())
}

/// The folder of the workspaces, for this manager alone and for one cluster alone: what belongs to no Workspace of the
/// cluster is removed from it.
async fn claim(folder: &Path, client: &Client) -> anyhow::Result<(PathBuf, File)> {
    let name = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("--workspace-dir {name}"))?;
    let folder = folder.canonicalize()?;
    let lock = File::create(folder.join(".lock"))?;
    if lock.try_lock().is_err() {
        anyhow::bail!("--workspace-dir {name}: another manager works there");
    }
    let cluster = pko_kube::cluster_uid(client).await?.unwrap_or_default();
    let owner = folder.join(".cluster");
    match fs::read_to_string(&owner) {
        Ok(other) if other != cluster => {
            anyhow::bail!(
                "--workspace-dir {name} has the workspaces of another cluster: give this one a folder of its own"
            )
        }
        Ok(_) => {}
        Err(_) => fs::write(&owner, cluster)?,
    }
    Ok((folder, lock))
}

/// On what workspaces stand.
enum Ground {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The cluster.
    Cluster,
}

/// Where workspaces are, the key by which their agents know this manager, and the claim on a folder.
async fn ground(
    arguments: &Arguments,
    client: &Client,
) -> anyhow::Result<(Ground, SigningKey, Option<File>)> {
    match arguments.workspace_runtime {
        WorkspaceRuntime::Pod => {
            let key = manager_key::in_cluster(client, &arguments.namespace).await?;
            Ok((Ground::Cluster, key, None))
        }
        WorkspaceRuntime::Process => {
            let (folder, claim) = claim(&arguments.workspace_dir, client).await?;
            let key = manager_key::in_folder(&folder)?;
            Ok((Ground::Folder(folder), key, Some(claim)))
        }
    }
}

/// Workspaces in pods.
fn pods(
    arguments: &Arguments,
    client: &Client,
    tokens: Tokens,
    children: Children,
    updates: Store<Decoded<Update>>,
    occupancy: Arc<Occupancy>,
) -> Places {
    Places::Pods(Box::new(Pods {
        client: client.clone(),
        children,
        updates,
        settings: pod_settings(arguments, &tokens),
        tokens,
        occupancy,
        marked: pko_kube::OwnWrites::default(),
        refusing: Mutex::default(),
    }))
}

/// Workspaces beside the manager.
fn processes(
    arguments: &Arguments,
    client: &Client,
    tokens: Tokens,
    folder: PathBuf,
    wake: &Wake,
) -> anyhow::Result<Places> {
    let (agent, client) = (agent(arguments)?, client.clone());
    Ok(Places::Processes(Processes::new(
        folder,
        agent,
        client,
        tokens,
        wake.clone(),
    )))
}

fn pod_settings(arguments: &Arguments, tokens: &Tokens) -> PodSettings {
    let given = arguments.pod_settings();
    PodSettings {
        pod: pko_core::workspace::pod::AgentSettings {
            agent_image: given.agent_image.clone(),
            agent_image_pull_policy: given.agent_image_pull_policy.to_owned(),
            max_untar_size: given.max_untar_size.clone(),
            manager_public_key: tokens.manager.public_key(),
        },
        by_name: arguments.workspace_address == WorkspaceAddress::Name,
        everywhere: arguments.workspace_localhost().map(str::to_owned),
        idle_timeout: arguments.idle_timeout(),
    }
}

/// What the manager shows to agents: tokens by its own key, and those of its service account if it knows that.
fn tokens(key: SigningKey, arguments: &Arguments, client: &Client) -> Tokens {
    let account = arguments.service_account().map(|(namespace, name)| {
        let issuer = ServiceAccountIssuer::new(client.clone(), &namespace, name);
        Arc::new(AccountTokens::new(issuer))
    });
    Tokens {
        manager: Arc::new(ManagerTokens::new(key)),
        account,
    }
}

/// The agent's program.
fn agent(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("agent"));
    let agent = arguments.agent.clone().map_or_else(beside, Ok)?;
    let agent = agent.canonicalize().unwrap_or(agent);
    anyhow::ensure!(
        agent.is_file(),
        "there is no agent at {}: give --agent",
        agent.display()
    );
    Ok(agent)
}

/// Ends process workspaces whose Workspace is gone, and gives back the turns of Updates that are, once the caches
/// are filled.
async fn sweep(context: Arc<Context>, readiness: Readiness, mut elected: Elected) {
    let stores = [
        context.stacks.wait_until_ready().await.is_ok(),
        context.workspaces.wait_until_ready().await.is_ok(),
        context.updates.wait_until_ready().await.is_ok(),
        context.programs.wait_until_ready().await.is_ok(),
        context.places.are_known().await,
    ];
    if stores.contains(&false) {
        return;
    }
    readiness.is_reached();
    elected.wait().await;
    context.turns.prime(&context.updates, &context.workspaces);
    loop {
        for (namespace, name, uid) in context.places.recorded() {
            if is_gone(&context, &namespace, &name, &uid).await {
                tracing::info!(namespace, name, "Workspace is gone: its process ends");
                context.places.remove(&namespace, &name, &uid);
                context.applied.forget(&namespace, &name);
            }
        }
        context.turns.keep_only(|update, run| {
            let known = context.updates.get(update);
            known.is_some_and(|known| known.uid().as_deref() == Some(run))
        });
        context.forget_gone_objects();
        context.sources.tidy();
        context.agents.tidy();
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Whether a Workspace is gone, or is another one by now. That is believed from a live read only: an API server that
/// lags behind lists what was before, and a run may be under way in what it does not know yet.
async fn is_gone(context: &Context, namespace: &str, name: &str, uid: &str) -> bool {
    let cached = context
        .workspaces
        .get(&ObjectRef::new(name).within(namespace));
    if cached.is_some_and(|cached| cached.uid().as_deref() == Some(uid)) {
        return false;
    }
    let live = pko_kube::find_metadata::<Workspace>(&context.client, namespace, name).await;
    match live {
        Ok(live) => live.and_then(|live| live.uid).as_deref() != Some(uid),
        Err(error) => {
            tracing::info!(namespace, name, error = %error.full_text(), "Workspace could not be looked for; it is tried again");
            false
        }
    }
}

/// Comes when the manager is told to end.
async fn end() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
