//! Flags and environment variables: upstream's under their names, and ours.
//!
//! Flags have Go's syntax (see [`syntax`]). Most variables are defaults for a flag, some override
//! it (see [`variables`]). No I/O but [`ListenAddress::bind`].

mod listen;
mod parsers;
mod settings;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;

use std::{collections::BTreeSet, ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use pko_api::GoDuration;
use pko_core::{
    leadership::{InvalidTiming, LeaseTiming},
    run_queue::Limits,
    stack::FluxSourceGroups,
    workspace::pod::PodRestrictions,
};

pub(crate) use listen::ListenAddress;
use pko_source::git::GITHUB_API;
use pko_telemetry::{LogEncoding, TimeEncoding};
pub(crate) use settings::{AgentImageSettings, LogLevel};
use variables::EnvironmentSettings;

use crate::sources::GitSettings;

/// The lower limit of `--git-poll-interval`.
const SHORTEST_GIT_POLL: Duration = Duration::from_secs(1);

/// Keeps Pulumi stacks up to date from inside a Kubernetes cluster
#[derive(Clone, Debug, Parser)]
#[command(
    name = "manager",
    version,
    about = "Keeps Pulumi stacks up to date from inside a Kubernetes cluster",
    long_about = None,
    args_override_self = true
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Arguments {
    /// Path of the kubeconfig file; defaults to `$KUBECONFIG`, then to the service account of the
    /// pod
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Timeout of requests to the API server; watches have none
    #[arg(long, default_value = "30s")]
    kube_api_timeout: GoDuration,

    /// Comma-separated list of namespaces to watch; empty for all
    #[arg(long, default_value = "", hide_default_value = true)]
    namespaces: String,

    /// Update a Stack as soon as a Secret that it refers to changes; requires permission to list
    /// and watch Secrets
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) watch_secrets: bool,

    /// Address of the metrics server, such as `:8443`; 0 disables it
    #[arg(long, default_value = "0")]
    pub(crate) metrics_bind_address: ListenAddress,

    /// Serve metrics over HTTPS to clients that may `get` `/metrics`; false serves them over HTTP
    /// to all
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) metrics_secure: bool,

    /// Enable HTTP/2 for the metrics server
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) enable_http2: bool,

    /// Address of `/healthz` and `/readyz`; 0 disables them
    #[arg(long, default_value = ":8081")]
    pub(crate) health_probe_bind_address: ListenAddress,

    /// Address of the server of Programs
    #[arg(long, default_value = ":9090")]
    pub(crate) program_fs_addr: ListenAddress,

    /// Address at which workspaces reach the server of Programs; derived from `--program-fs-addr`
    /// by default
    #[arg(long, default_value = "", hide_default_value = true)]
    program_fs_adv_addr: String,

    /// Sign the URLs of Programs, so that they can't be guessed; false serves them also at
    /// upstream's URLs, which everyone in the cluster can guess
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) program_fs_sealed: bool,

    /// How workspaces run
    #[arg(long, value_enum, default_value_t = WorkspaceRuntimeKind::Pod)]
    pub(crate) workspace_runtime: WorkspaceRuntimeKind,

    /// Folder of process workspaces
    #[arg(long, default_value = "/var/lib/pulumi-kubernetes-operator/workspaces")]
    pub(crate) workspace_dir: PathBuf,

    /// How to reach the agents of pods
    #[arg(long, value_enum, default_value_t = WorkspaceAddress::Ip)]
    pub(crate) workspace_address: WorkspaceAddress,

    /// Service account of workspace pods that name none; empty for the namespace's `default`
    #[arg(long, default_value = "", hide_default_value = true)]
    default_service_account: String,

    /// Comma-separated list of the service accounts that workspace pods may use; empty for all
    #[arg(long, default_value = "", hide_default_value = true)]
    allowed_service_accounts: String,

    /// Reject workspace pods beyond the Pod Security level `baseline`: privileged, host paths, host
    /// namespaces, added capabilities
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    restrict_pod_templates: bool,

    /// Scale an idle workspace to zero after this long; 0 disables it
    #[arg(long, default_value = "0")]
    workspace_idle_timeout: GoDuration,

    /// Cancel a run after this long; 0 disables it
    #[arg(long, default_value = "0")]
    run_timeout: GoDuration,

    /// Poll interval of git branches; a Stack can set a longer one
    #[arg(long, default_value = "1m")]
    git_poll_interval: GoDuration,

    /// Allow plain HTTP to git servers on other machines
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    git_allow_http: bool,

    /// URL of the GitHub API for GitHub Apps; `https://<host>/api/v3` for an Enterprise Server
    #[arg(long, default_value = GITHUB_API)]
    github_api_url: String,

    /// Comma-separated list of API groups whose objects a `fluxSource` may name; never Kubernetes'
    /// own
    #[arg(long, default_value = "source.toolkit.fluxcd.io,pulumi.com", value_parser = FluxSourceGroups::parse)]
    pub(crate) flux_source_groups: FluxSourceGroups,

    /// Maximum number of concurrent runs in the cluster; 0 for no limit
    #[arg(long, default_value_t = 0)]
    max_runs: usize,

    /// Maximum number of concurrent runs in a namespace; 0 for no limit. Defaults to three quarters
    /// of `--max-runs`, unless a single namespace is watched
    #[arg(long)]
    max_runs_per_namespace: Option<usize>,

    /// Enable leader election with the Lease `operator.pulumi.com`, for several replicas
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    leader_elect: bool,

    /// Duration after which a Lease that is not renewed expires
    #[arg(long, default_value = "20s")]
    leader_election_lease_duration: GoDuration,

    /// Duration for which a leader retries to renew its Lease before it ends
    #[arg(long, default_value = "15s")]
    leader_election_renew_deadline: GoDuration,

    /// Delay between attempts to acquire or renew the Lease
    #[arg(long, default_value = "5s")]
    leader_election_retry_period: GoDuration,

    /// Namespace of the manager and its Lease
    #[arg(long, default_value = "pulumi-kubernetes-operator")]
    pub(crate) namespace: String,

    /// Path of the agent for process workspaces; defaults to `agent` beside this program
    #[arg(long)]
    pub(crate) agent: Option<PathBuf>,

    /// Log filter, such as `info,kube=debug`; overrides `--zap-log-level`
    #[arg(long, default_value = "", hide_default_value = true)]
    log_level: String,

    /// Development defaults: console encoding and debug level
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    zap_devel: bool,

    /// Log encoding: json or console
    #[arg(long, value_parser = parsers::log_encoding)]
    zap_encoder: Option<LogEncoding>,

    /// Log level: debug, info, error, panic, or an integer above 0 for more detail
    #[arg(long, value_parser = parsers::log_level)]
    zap_log_level: Option<LogLevel>,

    /// Accepted for compatibility; logs have no stack traces
    #[arg(long, value_parser = ["info", "error", "panic"])]
    zap_stacktrace_level: Option<String>,

    /// Time encoding of logs: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano
    #[arg(long, default_value = "rfc3339", value_parser = parsers::time_encoding)]
    pub(crate) zap_time_encoding: TimeEncoding,

    #[command(flatten)]
    _ignored: syntax::IgnoredFlags,

    /// Variables without a flag.
    #[arg(skip)]
    environment: EnvironmentSettings,

    /// Flags and variables without effect.
    #[arg(skip)]
    warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceRuntimeKind {
    /// As a pod
    Pod,
    /// As a process beside the manager, of the same user
    Process,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceAddress {
    /// By the pod's IP, without DNS
    Ip,
    /// By the DNS name of the Service
    Name,
}

impl Arguments {
    /// Exits with Go's exit code and a usage text if the arguments are invalid.
    pub(crate) fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self::read(std::env::args_os(), &variable).unwrap_or_else(|error| error.exit())
    }

    /// An empty variable counts as unset.
    fn read(
        given: impl IntoIterator<Item = OsString>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, clap::Error> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut warnings = Vec::new();
        let command = variables::with_variables_in_help(Self::command());
        let mut given = syntax::normal(&command, given);
        let flags = given.len().min(1);
        given.splice(flags..flags, variables::default_flags(&variable));
        given.extend(variables::override_flags(&variable, &mut warnings));
        let mut matches = command.try_get_matches_from(given)?;
        warnings.extend(syntax::without_effect(&matches));
        let mut arguments = Self::from_arg_matches_mut(&mut matches)?;
        arguments.environment = EnvironmentSettings::read(&variable, &mut warnings);
        arguments.warnings = warnings;
        Ok(arguments)
    }

    /// Warnings to log: flags and variables without effect.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// None without leader election.
    pub(crate) fn election(&self) -> Result<Option<LeaseTiming>, InvalidTiming> {
        let timing = LeaseTiming {
            lease: self.leader_election_lease_duration.get(),
            renew_deadline: self.leader_election_renew_deadline.get(),
            retry: self.leader_election_retry_period.get(),
        };
        self.leader_elect.then(|| timing.check()).transpose()
    }

    pub(crate) fn limits(&self) -> Limits {
        let limit = |number: usize| Some(number).filter(|number| *number > 0);
        let cluster = limit(self.max_runs);
        let is_shared = self.watched_namespaces().len() != 1;
        match self.max_runs_per_namespace {
            None if is_shared => Limits::of_cluster(cluster),
            given => Limits {
                cluster,
                namespace: given.and_then(limit),
            },
        }
    }

    /// None for no limit.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        unless_zero(&self.kube_api_timeout)
    }

    /// None if disabled.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        unless_zero(&self.workspace_idle_timeout)
    }

    /// None for no limit.
    pub(crate) fn run_timeout(&self) -> Option<Duration> {
        unless_zero(&self.run_timeout)
    }

    pub(crate) fn git_settings(&self) -> GitSettings {
        GitSettings {
            allow_http: self.git_allow_http,
            interval: self.git_poll_interval.get().max(SHORTEST_GIT_POLL),
            github_api: self.github_api_url.clone(),
        }
    }

    /// Sorted and without duplicates; empty for all.
    pub(crate) fn watched_namespaces(&self) -> Vec<String> {
        name_list(&self.namespaces)
    }

    pub(crate) fn pod_restrictions(&self) -> PodRestrictions {
        let default = self.default_service_account.trim();
        PodRestrictions {
            default_service_account: Some(default.to_owned()).filter(|name| !name.is_empty()),
            allowed_service_accounts: name_list(&self.allowed_service_accounts),
            enforces_baseline: self.restrict_pod_templates,
        }
    }

    /// Concurrent reconciles of each kind.
    pub(crate) fn concurrency(&self) -> u16 {
        self.environment.concurrency
    }

    pub(crate) fn agent_image_settings(&self) -> &AgentImageSettings {
        &self.environment.pods
    }

    /// The address of all agents, for a manager outside of the cluster.
    pub(crate) fn workspace_localhost(&self) -> Option<&str> {
        self.environment.workspace_localhost.as_deref()
    }

    /// Namespace and name of the manager's service account. With process workspaces, only if the
    /// variables set it.
    pub(crate) fn service_account(&self) -> Option<(String, String)> {
        let name = self.environment.service_account.clone();
        let name = match self.workspace_runtime {
            WorkspaceRuntimeKind::Pod => name.unwrap_or_else(|| "controller-manager".to_owned()),
            WorkspaceRuntimeKind::Process => name?,
        };
        Some((self.namespace.clone(), name))
    }

    /// Where workspaces reach the server of Programs, which is bound to this address.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> String {
        if !self.program_fs_adv_addr.is_empty() {
            return self.program_fs_adv_addr.clone();
        }
        self.program_fs_addr
            .advertised(bound, self.environment.hostname.as_deref())
    }

    /// The log filter.
    pub(crate) fn log_filter(&self) -> &str {
        if !self.log_level.is_empty() {
            return &self.log_level;
        }
        let default = if self.zap_devel {
            LogLevel::Debug
        } else {
            LogLevel::Info
        };
        self.zap_log_level.unwrap_or(default).filter()
    }

    pub(crate) fn log_encoding(&self) -> LogEncoding {
        let default = if self.zap_devel {
            LogEncoding::Console
        } else {
            LogEncoding::Json
        };
        self.zap_encoder.unwrap_or(default)
    }
}

/// The names of a comma-separated list, sorted and without duplicates.
fn name_list(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

fn unless_zero(duration: &GoDuration) -> Option<Duration> {
    Some(duration.get()).filter(|duration| !duration.is_zero())
}
