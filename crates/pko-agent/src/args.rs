//! The command line: upstream's flags, and our own.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};

/// Serves a workspace to the Pulumi Kubernetes Operator
#[derive(Debug, Parser)]
#[command(name = "agent", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags of all commands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Enable debug logs
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// The kubeconfig file for `--auth-mode kube`
    #[arg(long, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy the agent to a volume that the workspace's containers share
    Bootstrap(Bootstrap),
    /// Fetch the source of a workspace
    Init(Init),
    /// Serve a workspace by gRPC, and run `pulumi` in it
    Serve(Serve),
    /// Print the agent's version to the log
    Version,
}

/// `agent bootstrap`.
#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// Folder to copy `agent` to
    #[arg(short, long)]
    pub(crate) target_dir: PathBuf,
}

/// `agent init`: exactly one source.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["git_url", "flux_url", "project_name", "local_dir"])))]
pub(crate) struct Init {
    /// Folder for the source; existing content is replaced
    #[arg(short, long, required_unless_present = "local_dir")]
    pub(crate) target_dir: Option<PathBuf>,
    /// Git repository to fetch; `env:GIT_URL` for the address in that variable, which is not
    /// visible to others if it has credentials. Credentials and options are environment variables:
    /// `GIT_TOKEN`, `GIT_USERNAME` and `GIT_PASSWORD`, `GIT_SSH_PRIVATE_KEY`, `GIT_GITHUB_APP_ID`,
    /// `GIT_GITHUB_APP_INSTALLATION_ID` and `GIT_GITHUB_APP_PRIVATE_KEY`, `GIT_SHALLOW`,
    /// `GIT_SUBMODULES`, `GIT_KNOWN_HOSTS`, `SSH_KNOWN_HOSTS`
    #[arg(long, requires = "git_revision")]
    pub(crate) git_url: Option<String>,
    /// Commit, branch or tag to check out
    #[arg(long, requires = "git_url", conflicts_with_all = ["flux_url", "project_name", "local_dir"])]
    pub(crate) git_revision: Option<String>,
    /// Artifact to fetch: a gzipped tar file, as served by Flux and by Programs; `env:FLUX_URL` for
    /// the address in that variable
    #[arg(long, requires = "flux_digest")]
    pub(crate) flux_url: Option<String>,
    /// Digest of the artifact, `sha256:...`
    #[arg(long, requires = "flux_url", conflicts_with_all = ["git_url", "project_name", "local_dir"])]
    pub(crate) flux_digest: Option<String>,
    /// Name of a project without a program; only a project file is written
    #[arg(long, requires = "project_runtime")]
    pub(crate) project_name: Option<String>,
    /// Runtime of that project
    #[arg(long, requires = "project_name", conflicts_with_all = ["git_url", "flux_url", "local_dir"])]
    pub(crate) project_runtime: Option<String>,
    /// Existing folder, possibly in another container's image; only `--workspace-link` is created
    #[arg(long, requires = "workspace_link", conflicts_with_all = ["target_dir", "source_dir"])]
    pub(crate) local_dir: Option<PathBuf>,
    /// Symbolic link to create, which points to the source (or to `--source-dir` in it)
    #[arg(long)]
    pub(crate) workspace_link: Option<PathBuf>,
    /// Folder of the project in the source; it must exist and must not leave the source. Empty for
    /// the source itself
    #[arg(long, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) source_dir: Option<PathBuf>,
    /// Copy the agent to this folder first, like `agent bootstrap`
    #[arg(long)]
    pub(crate) bootstrap_dir: Option<PathBuf>,
    /// Maximum size of the unpacked artifact in bytes; negative for no limit
    #[arg(
        long,
        env = "FLUX_MAX_UNTAR_SIZE_BYTES",
        default_value = "104857600",
        allow_hyphen_values = true
    )]
    pub(crate) flux_max_untar_size_bytes: String,
}

/// `agent serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Folder of the Pulumi project
    #[arg(short, long)]
    pub(crate) workspace: PathBuf,
    /// Skip the installation of the program's dependencies
    #[arg(long)]
    pub(crate) skip_install: bool,
    /// Stack to select at the start; it is created if it is missing
    #[arg(short, long)]
    pub(crate) stack: Option<String>,
    /// Secrets provider for creating that stack
    #[arg(long)]
    pub(crate) secrets_provider: Option<String>,
    /// File with environment variables for the CLI
    #[arg(long)]
    pub(crate) env_file: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    pub(crate) host: String,
    /// Port to listen on
    #[arg(long, default_value_t = 50051)]
    pub(crate) port: u16,
    /// Unix socket (`unix:PATH`) or address (`HOST:PORT`) to listen on instead
    #[arg(long, conflicts_with_all = ["host", "port"])]
    pub(crate) listen: Option<String>,
    /// Authentication of callers: `none`, `kube`, `manager`, or `kube,manager`
    #[arg(long, default_value = "none")]
    pub(crate) auth_mode: String,
    /// Accepted audience of callers' tokens, in the modes `kube` and `manager`
    #[arg(long, value_delimiter = ',')]
    pub(crate) kube_audience: Vec<String>,
    /// File with public keys of the manager as PEM, for mode `manager`; may be repeated. Without
    /// it, the keys are read from `PKO_MANAGER_PUBLIC_KEY`
    #[arg(long)]
    pub(crate) manager_public_key: Vec<PathBuf>,
    /// Namespace of the served Workspace
    #[arg(long, env = "WORKSPACE_NAMESPACE")]
    pub(crate) kube_workspace_namespace: Option<String>,
    /// Name of the served Workspace
    #[arg(long, env = "WORKSPACE_NAME")]
    pub(crate) kube_workspace_name: Option<String>,
    /// Log level of the CLI; above 0 it logs to standard error
    #[arg(long, default_value_t = 0)]
    pub(crate) pulumi_log_level: u32,
    /// Folder of the run journal [default: `.pko` beside the workspace]
    #[arg(long)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seconds between the interrupt and the kill of a stopped run; less than the ten minutes of a
    /// pod's grace period
    #[arg(long, default_value = "540", value_parser = seconds)]
    pub(crate) stop_patience: Duration,
    /// Start a new session, so that the agent survives its parent's terminal and process group
    #[arg(long)]
    pub(crate) own_session: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMode {
    /// All callers
    None,
    /// Callers with a token for this workspace and the right to use it
    Kube,
    /// Callers with a token that a trusted manager signed for this workspace
    Manager,
}

impl Arguments {
    /// Exits the process if the command line is invalid.
    pub(crate) fn from_command_line() -> Self {
        let arguments = without_stray_separator(std::env::args_os());
        Self::try_parse_from(arguments).unwrap_or_else(|error| {
            // There is no other channel for the error.
            let _ = error.print();
            std::process::exit(i32::from(error.use_stderr()))
        })
    }

    pub(crate) fn print_help() -> anyhow::Result<()> {
        Ok(Self::command().print_help()?)
    }
}

/// Managers start `agent -- serve`, where the separator is for an init process that may be absent.
fn without_stray_separator(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_some_and(|argument| argument == "--") {
        arguments.remove(1);
    }
    arguments
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        let words = line.split_whitespace().map(OsString::from);
        Arguments::try_parse_from(without_stray_separator(words))
    }

    fn serve(line: &str) -> Serve {
        match parse(line).unwrap().command {
            Some(Command::Serve(serve)) => serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn command_line_definition_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn serve_accepts_separator_of_init_process() {
        let flags = "serve --workspace /share/workspace --skip-install --env-file /share/.env \
                     --auth-mode kube --kube-audience w.n --kube-workspace-namespace n \
                     --kube-workspace-name w --pulumi-log-level 3";
        for start in ["agent --", "agent"] {
            let serve = serve(&format!("{start} {flags}"));
            assert!(serve.skip_install);
            assert_eq!(serve.auth_mode, "kube");
            assert_eq!(serve.kube_audience, ["w.n"]);
            assert_eq!((serve.port, serve.pulumi_log_level), (50051, 3));
        }
    }

    #[test]
    fn bootstrap_requires_target_dir() {
        assert!(parse("agent bootstrap --target-dir /share").is_ok());
        assert!(parse("agent bootstrap").is_err());
    }

    #[test]
    fn missing_command_parses() {
        assert!(parse("agent").unwrap().command.is_none());
    }

    #[test]
    fn init_requires_exactly_one_complete_source() {
        let table = [
            ("-t /x --flux-url u --flux-digest d", true),
            ("--target-dir /x --git-url u --git-revision r", true),
            ("-t /x --project-name p --project-runtime yaml", true),
            ("-t /x", false),
            ("-t /x --flux-url u", false),
            ("-t /x --git-revision r", false),
            ("-t /x --project-name p", false),
            ("--flux-url u --flux-digest d", false),
            ("-t /x --flux-url u --flux-digest d --source-dir a", true),
            ("--local-dir /d --workspace-link /l", true),
            ("--local-dir /d", false),
            ("-t /x --local-dir /d --workspace-link /l", false),
            ("--local-dir /d --workspace-link /l --source-dir a", false),
            (
                "-t /x --project-name p --project-runtime r --local-dir /d --workspace-link /l",
                false,
            ),
            (
                "-t /x --git-url u --git-revision r --project-name p --project-runtime r",
                false,
            ),
            ("-t /x --git-url u --git-revision r --flux-digest d", false),
            ("-t /x --git-url u", false),
            ("-t /x --flux-digest d", false),
            ("-t /x --project-runtime r", false),
            (
                "-t /x --flux-url u --flux-digest d --git-url u --git-revision r",
                false,
            ),
        ];
        for (flags, good) in table {
            assert_eq!(
                parse(&format!("agent init {flags}")).is_ok(),
                good,
                "{flags}"
            );
        }
    }

    #[test]
    fn listen_conflicts_with_host_and_port() {
        assert_eq!(
            serve("agent serve -w /w --listen unix:/s")
                .listen
                .as_deref(),
            Some("unix:/s")
        );
        assert!(parse("agent serve -w /w --listen unix:/s --port 1").is_err());
        assert!(parse("agent serve").is_err());
    }
}
