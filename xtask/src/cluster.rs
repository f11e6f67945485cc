//! `cargo xtask cluster`: a real cluster with one node on this machine, for manual tests.

use std::path::PathBuf;
use std::process::exit;

use anyhow::{Context, bail};
use clap::Subcommand;
use pko_testkit::Cluster;
use pko_testkit::cluster::ClusterOptions;

use pko_testkit::progress::Step;

const NAME: &str = "dev";

#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start a cluster
    Up(Which),
    /// Remove a cluster and everything that belongs to it
    Down(Which),
    /// Run a command on the cluster's network, with its DNS and KUBECONFIG
    Run(Run),
    /// Load images into the cluster, which has no registry
    Load(Load),
}

#[derive(clap::Args)]
struct Which {
    /// The cluster's name; clusters of different names are independent
    #[arg(long, default_value = NAME)]
    name: String,
}

#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    which: Which,
    /// The command, such as `-- kubectl get pods -A`
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(clap::Args)]
struct Load {
    #[command(flatten)]
    which: Which,
    /// OCI layouts or archives, such as those of `cargo xtask image`
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Another full name for the image, such as `docker.io/local/agent:1`; for a single image
    #[arg(long = "as", value_name = "NAME")]
    reference: Option<String>,
}

pub(crate) async fn run(arguments: &ClusterArguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Up(which) => up(&which.name).await,
        Action::Down(which) => down(&which.name),
        Action::Run(run) => run_inside(run),
        Action::Load(load) => load_images(load),
    }
}

async fn up(name: &str) -> anyhow::Result<()> {
    let step = Step::begin("bringing a cluster up");
    let options = ClusterOptions {
        name: name.to_owned(),
        keep: true,
        progress: Box::new(|what| println!("  {what} …")),
    };
    let cluster = Cluster::up(options).await?;
    if cluster.was_up() {
        println!("  was up already");
    } else {
        println!("  up, {}", step.elapsed());
    }
    print_next_steps(&cluster, name);
    Ok(())
}

fn print_next_steps(cluster: &Cluster, name: &str) {
    let flag = flag(name);
    println!("\nkubeconfig  {}", cluster.kubeconfig().display());
    println!("logs        {}/*.log", cluster.folder().display());
    println!(
        "addresses   API server {}, this machine from a pod {}",
        cluster.url(),
        cluster.host_address()
    );
    println!("\nTry:\n");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    if has_proxy() {
        println!("  export NO_PROXY={}", cluster.node_address());
    }
    println!("  kubectl get nodes");
    for (action, comment) in [
        (
            "run",
            "-- kubectl get pods -A     # on its network, with its names",
        ),
        (
            "load",
            "target/images/*.tar       # what `cargo xtask image` made; then kubectl apply -f deploy/quickstart/install.yaml",
        ),
        ("down", ""),
    ] {
        let line = format!("  cargo xtask cluster {action}{flag} {comment}");
        println!("{}", line.trim_end());
    }
}

/// Whether kubectl would use a proxy for the cluster.
fn has_proxy() -> bool {
    ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn flag(name: &str) -> String {
    if name == NAME {
        return String::new();
    }
    format!(" --name {name}")
}

fn down(name: &str) -> anyhow::Result<()> {
    let step = Step::begin("taking the cluster down");
    Cluster::take_down(name)?;
    println!("  gone, {}", step.elapsed());
    Ok(())
}

fn find_running(name: &str) -> anyhow::Result<Cluster> {
    let Some(cluster) = Cluster::find(name)? else {
        bail!("no cluster is up: `cargo xtask cluster up{}`", flag(name));
    };
    Ok(cluster)
}

fn load_images(load: &Load) -> anyhow::Result<()> {
    let cluster = find_running(&load.which.name)?;
    match (&load.reference, load.images.as_slice()) {
        (Some(reference), [image]) => {
            cluster.load_image(image, reference)?;
            println!("{reference}");
        }
        (Some(_), _) => bail!("--as names one image, and there are several"),
        (None, images) => {
            for image in images {
                for name in cluster.load_named_image(image)? {
                    println!("{name}");
                }
            }
        }
    }
    Ok(())
}

fn run_inside(run: &Run) -> anyhow::Result<()> {
    let cluster = find_running(&run.which.name)?;
    let Some((program, arguments)) = run.command.split_first() else {
        bail!("no command");
    };
    let status = cluster
        .command(program, arguments)?
        .status()
        .context("failed to run nsenter")?;
    exit(status.code().unwrap_or(1))
}
