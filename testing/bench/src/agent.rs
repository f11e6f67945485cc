//! Measures the workspace agent through upstream's gRPC service, so that any agent can be measured.
//! `pulumi` is a stand-in that takes no time.
#![expect(
    clippy::cast_precision_loss,
    reason = "no figure here has more than a few digits"
)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use pko_proto::{
    agent::{
        InstallRequest, PulumiVersionRequest, SelectStackRequest, SetAllConfigRequest, UpRequest,
        automation_service_client::AutomationServiceClient,
    },
    convert::literal_config,
};
use pko_testkit::{
    Reply, Script, StandIn,
    checkout::{cargo, target_folder},
    progress::Step,
    stand_in,
};
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

use super::{
    process::{ServerProcess, free_address},
    report::Figure,
};

const STARTS: usize = 30;
const EVENTS: u32 = 10_000;
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// Measures an agent, by default ours.
pub(super) async fn measure(agent: Option<&Path>, runs: u32) -> anyhow::Result<Vec<Figure>> {
    let agent = match agent {
        Some(agent) => agent.canonicalize().context("failed to find the agent")?,
        None => build()?,
    };
    let environment = AgentEnvironment::new(agent, build_stand_in()?)?;
    let mut figures = vec![size(&environment.agent)?];
    figures.extend(starts(&environment)?);
    figures.extend(processes(&environment).await?);
    figures.extend(events(&environment).await?);
    figures.extend(many_runs(&environment, runs).await?);
    Ok(figures)
}

/// Builds a static agent, as it is shipped.
fn build() -> anyhow::Result<PathBuf> {
    let step = Step::begin("building the agent");
    let arguments = ["build", "--release", "--quiet", "--package", "pko-agent"];
    let built = cargo()
        .args(arguments)
        .args(["--target", STATIC_TARGET])
        // One dependency has C code, which needs no C library.
        .env("CC_x86_64_unknown_linux_musl", "gcc")
        .status()?;
    if !built.success() {
        bail!("the agent does not build: `rustup target add {STATIC_TARGET}` may be missing");
    }
    println!("  built, {}", step.elapsed());
    let profile = target_folder()?.join(STATIC_TARGET).join("release");
    Ok(profile.join("agent"))
}

pub(super) fn build_stand_in() -> anyhow::Result<PathBuf> {
    let arguments = [
        "build",
        "--release",
        "--quiet",
        "--package",
        "pko-testkit",
        "--bins",
    ];
    if !cargo().args(arguments).status()?.success() {
        bail!("the stand-in for pulumi does not build");
    }
    Ok(target_folder()?.join("release/pulumi-stand-in"))
}

/// The agent, its workspaces and the stand-in for `pulumi`.
struct AgentEnvironment {
    agent: PathBuf,
    folder: tempfile::TempDir,
    stand_in: StandIn,
}

impl AgentEnvironment {
    fn new(agent: PathBuf, pulumi: PathBuf) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let bin = folder.path().join("bin");
        fs::create_dir(&bin)?;
        // Upstream's agent finds `pulumi` by PATH only.
        symlink(pulumi, bin.join("pulumi"))?;
        let stand_in = StandIn::new(folder.path().join("stand-in"), &Script::new());
        Ok(Self {
            agent,
            folder,
            stand_in,
        })
    }

    /// Serves a new workspace.
    fn serve(&self) -> anyhow::Result<ServerProcess> {
        let workspace = tempfile::tempdir_in(self.folder.path())?
            .keep()
            .join("workspace");
        fs::create_dir(&workspace)?;
        fs::write(workspace.join("Pulumi.yaml"), "name: demo\nruntime: yaml\n")?;
        let address = free_address()?;
        let mut command = Command::new(&self.agent);
        command
            .args(["serve", "--skip-install", "--workspace"])
            .arg(&workspace)
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", self.folder.path())
            .env("PULUMI_BACKEND_URL", "file:///state")
            .env("PULUMI_CONFIG_PASSPHRASE", "passphrase")
            .env_remove("PKO_PULUMI")
            .env(stand_in::FOLDER, self.stand_in.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ServerProcess::start(command, address)
    }
}

fn size(agent: &Path) -> anyhow::Result<Figure> {
    let bytes = fs::metadata(agent)?.len();
    Ok(figure("size of the program", bytes as f64 / 1e6, "MB"))
}

fn figure(name: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure::new(name, value, unit)
}

fn starts(environment: &AgentEnvironment) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin("starting it");
    let mut milliseconds = Vec::new();
    for _ in 0..STARTS {
        milliseconds.push(environment.serve()?.start.as_secs_f64() * 1e3);
    }
    milliseconds.sort_by(f64::total_cmp);
    println!("  {STARTS} times, {}", step.elapsed());
    let at = |index: usize| milliseconds.get(index).copied().unwrap_or_default();
    Ok(vec![
        figure("start to listening, median", at(STARTS / 2), "ms"),
        figure("start to listening, slowest", at(STARTS - 1), "ms"),
    ])
}

async fn connect(server: &ServerProcess) -> anyhow::Result<AutomationServiceClient<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address))?;
    let channel = endpoint.connect().await?;
    Ok(AutomationServiceClient::new(channel)
        .max_decoding_message_size(pko_proto::MAX_MESSAGE_BYTES))
}

async fn select(client: &mut AutomationServiceClient<Channel>) -> anyhow::Result<()> {
    let request = SelectStackRequest {
        stack_name: "dev".to_owned(),
        create: Some(true),
        secrets_provider: None,
    };
    client.select_stack(request).await?;
    Ok(())
}

/// Runs an update and returns the number of messages.
async fn update(client: &mut AutomationServiceClient<Channel>) -> anyhow::Result<u32> {
    let request = UpRequest {
        message: Some("measured".to_owned()),
        ..Default::default()
    };
    let mut stream = client.up(request).await?.into_inner();
    let mut messages = 0;
    while stream.message().await?.is_some() {
        messages += 1;
    }
    Ok(messages)
}

/// The requests of an operator before the first update of a workspace.
async fn prepare(client: &mut AutomationServiceClient<Channel>) -> anyhow::Result<()> {
    client.pulumi_version(PulumiVersionRequest {}).await?;
    client.install(InstallRequest {}).await?;
    select(client).await?;
    let config = vec![literal_config("size", &json!("4"), false, false)];
    client
        .set_all_config(SetAllConfigRequest { config })
        .await?;
    Ok(())
}

async fn processes(environment: &AgentEnvironment) -> anyhow::Result<Vec<Figure>> {
    // Counted before the start, because the agent asks for the version then or later.
    let before = environment.stand_in.calls().len();
    let server = environment.serve()?;
    let mut client = connect(&server).await?;
    prepare(&mut client).await?;
    select(&mut client).await?;
    update(&mut client).await?;
    let first = environment.stand_in.calls().len() - before;
    select(&mut client).await?;
    update(&mut client).await?;
    let later = environment.stand_in.calls().len() - before - first;
    Ok(vec![
        figure("pulumi processes, first update", first as f64, ""),
        figure("pulumi processes, later update", later as f64, ""),
    ])
}

async fn events(environment: &AgentEnvironment) -> anyhow::Result<Vec<Figure>> {
    let script = Script::new().on("up", Reply::new().floods(EVENTS.into(), 1000).run_default());
    environment.stand_in.set_script(&script);
    let server = environment.serve()?;
    let mut client = connect(&server).await?;
    select(&mut client).await?;
    let messages = update(&mut client).await?;
    if messages < EVENTS {
        bail!("only {messages} of {EVENTS} events came");
    }
    environment.stand_in.set_script(&Script::new());
    Ok(vec![figure(
        "peak memory, one update with 10,000 events",
        server.peak()? / 1024.0,
        "MiB",
    )])
}

async fn many_runs(environment: &AgentEnvironment, runs: u32) -> anyhow::Result<Vec<Figure>> {
    let step = Step::begin(&format!("running {runs} updates"));
    let server = environment.serve()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = server.resident()?;
    let mut client = connect(&server).await?;
    select(&mut client).await?;
    update(&mut client).await?;
    let (first, files) = (server.resident()?, server.open_files()?);
    for _ in 1..runs {
        update(&mut client).await?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("  ran, {}", step.elapsed());
    let last = server.resident()?;
    let left = server.open_files()? as f64 - files as f64;
    Ok(vec![
        figure("memory, idle", idle / 1024.0, "MiB"),
        figure("memory after the first update", first / 1024.0, "MiB"),
        figure("memory after all updates", last / 1024.0, "MiB"),
        figure("files left open by all updates", left, ""),
    ])
}
