//! Flags and environment variables: upstream's under their names, and ours.
//!
//! Flags have Go's syntax (see [`syntax`]). Most variables stand in for a flag that is not given, some overrule it
//! (see [`variables`]). No I/O but [`Listen::bind`].

mod listen;
mod parsers;
mod settings;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use pko_api::GoDuration;
use pko_core::{
    leadership::{InvalidTiming, LeaseTiming},
    run_queue::Limits,
};

pub(crate) use listen::Listen;
use pko_source::git::GITHUB_API;
pub(crate) use settings::{LogEncoding, LogLevel, PodSettings, TimeEncoding};
use variables::Surroundings;

use crate::sources::GitSettings;

/// No branch is looked at more often, whatever the flag says.
const SHORTEST_GIT_POLL: Duration = Duration::from_secs(1);

/// What the manager is told.
///
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
    /// The kubeconfig of the cluster; without it, `$KUBECONFIG` or the pod's own account
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// How long a request to the API server may take; watches may take any time
    #[arg(long, default_value = "30s")]
    kube_api_timeout: GoDuration,

    /// The namespaces that are worked in, with commas between them; without it, all
    #[arg(long, default_value = "", hide_default_value = true)]
    namespaces: String,

    /// Run a Stack at once when a Secret changes that it refers to; needs the right to list and watch Secrets
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) watch_secrets: bool,

    /// Where metrics are served, such as `:8443`; 0 for nowhere
    #[arg(long, default_value = "0")]
    pub(crate) metrics_bind_address: Listen,

    /// Serve metrics by HTTPS to those who may `get` `/metrics`; with `=false`, by HTTP to all
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) metrics_secure: bool,

    /// Speak HTTP/2, too, where metrics are served by HTTPS
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) enable_http2: bool,

    /// Where `/healthz` and `/readyz` are served; 0 for nowhere
    #[arg(long, default_value = ":8081")]
    pub(crate) health_probe_bind_address: Listen,

    /// Where Programs are served
    #[arg(long, default_value = ":9090")]
    pub(crate) program_fs_addr: Listen,

    /// Where workspaces reach that; without it, it follows from `--program-fs-addr`
    #[arg(long, default_value = "", hide_default_value = true)]
    program_fs_adv_addr: String,

    /// Serve each Program at an address that nobody can guess
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    pub(crate) program_fs_sealed: bool,

    /// Where workspaces run
    #[arg(long, value_enum, default_value_t = WorkspaceRuntime::Pod)]
    pub(crate) workspace_runtime: WorkspaceRuntime,

    /// Where process workspaces have their files
    #[arg(long, default_value = "/var/lib/pulumi-kubernetes-operator/workspaces")]
    pub(crate) workspace_dir: PathBuf,

    /// How the agents of pods are called: by the pod's address, or by the Service's name
    #[arg(long, value_enum, default_value_t = WorkspaceAddress::Ip)]
    pub(crate) workspace_address: WorkspaceAddress,

    /// After how long without a run a workspace is put to rest; 0 for never
    #[arg(long, default_value = "0")]
    workspace_idle_timeout: GoDuration,

    /// How long a run may take before it is cancelled; 0 for any time
    #[arg(long, default_value = "0")]
    run_timeout: GoDuration,

    /// How often a branch of a git repository is looked at, unless a Stack wants it less often
    #[arg(long, default_value = "1m")]
    git_poll_interval: GoDuration,

    /// Talk to git servers by plain HTTP, too; without it, only to those on this machine
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    git_allow_http: bool,

    /// Where GitHub Apps ask for tokens; an Enterprise Server has `https://<host>/api/v3`
    #[arg(long, default_value = GITHUB_API)]
    github_api_url: String,

    /// How many runs may be under way in the whole cluster; 0 for any number
    #[arg(long, default_value_t = 0)]
    max_runs: usize,

    /// How many runs may be under way in each namespace; 0 for any number
    #[arg(long, default_value_t = 0)]
    max_runs_per_namespace: usize,

    /// Work only while holding the Lease `operator.pulumi.com`, so that there can be several managers
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    leader_elect: bool,

    /// How long a Lease lasts that is not renewed
    #[arg(long, default_value = "20s")]
    leader_election_lease_duration: GoDuration,

    /// How long a leader tries to renew its Lease before it gives up
    #[arg(long, default_value = "15s")]
    leader_election_renew_deadline: GoDuration,

    /// The pause between two tries to get or to renew the Lease
    #[arg(long, default_value = "5s")]
    leader_election_retry_period: GoDuration,

    /// The manager's own namespace, where its Lease is
    #[arg(long, default_value = "pulumi-kubernetes-operator")]
    pub(crate) namespace: String,

    /// The agent's program for process workspaces; without it, `agent` beside this one
    #[arg(long)]
    pub(crate) agent: Option<PathBuf>,

    /// What is logged, as a filter such as `info,kube=debug`; without it, `--zap-log-level` says it
    #[arg(long, default_value = "", hide_default_value = true)]
    log_level: String,

    /// Log for people: console encoding and debug level, unless told otherwise
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parsers::boolean)]
    zap_devel: bool,

    /// How a log line is written: json, or console
    #[arg(long, value_parser = parsers::log_encoding)]
    zap_encoder: Option<LogEncoding>,

    /// What is logged: debug, info, error, panic, or a number above 0, where more is more
    #[arg(long, value_parser = parsers::log_level)]
    zap_log_level: Option<LogLevel>,

    /// Accepted for compatibility: there are no stack traces in our log
    #[arg(long, value_parser = ["info", "error", "panic"])]
    zap_stacktrace_level: Option<String>,

    /// How a log line's time is written: epoch, millis, nanos, iso8601, rfc3339, or rfc3339nano
    #[arg(long, default_value = "rfc3339", value_parser = parsers::time_encoding)]
    pub(crate) zap_time_encoding: TimeEncoding,

    #[command(flatten)]
    _ignored: syntax::Ignored,

    /// What the variables say that have no flag.
    #[arg(skip)]
    surroundings: Surroundings,

    /// What was given and has no effect.
    #[arg(skip)]
    warnings: Vec<String>,
}

/// Where workspaces run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceRuntime {
    /// In a pod each
    Pod,
    /// Beside the manager, as processes of the same user
    Process,
}

/// How the agents of pods are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceAddress {
    /// By the pod's address, which needs no DNS
    Ip,
    /// By the name of the Service
    Name,
}

impl Arguments {
    /// What the process was told. Ends it with Go's exit code and a usage text where that makes no sense.
    pub(crate) fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self::read(std::env::args_os(), &variable).unwrap_or_else(|error| error.exit())
    }

    /// What these arguments and variables say; a variable that is empty is not set.
    fn read(
        given: impl IntoIterator<Item = OsString>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, clap::Error> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut warnings = Vec::new();
        let command = variables::named(Self::command());
        let mut given = syntax::normal(&command, given);
        let flags = given.len().min(1);
        given.splice(flags..flags, variables::standing_in(&variable));
        given.extend(variables::overruling(&variable, &mut warnings));
        let mut matches = command.try_get_matches_from(given)?;
        warnings.extend(syntax::without_effect(&matches));
        let mut arguments = Self::from_arg_matches_mut(&mut matches)?;
        arguments.surroundings = Surroundings::read(&variable, &mut warnings);
        arguments.warnings = warnings;
        Ok(arguments)
    }

    /// What was given and has no effect, to be logged.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How leaders are elected, if they are.
    pub(crate) fn election(&self) -> Result<Option<LeaseTiming>, InvalidTiming> {
        let timing = LeaseTiming {
            lease: self.leader_election_lease_duration.get(),
            renew_deadline: self.leader_election_renew_deadline.get(),
            retry: self.leader_election_retry_period.get(),
        };
        self.leader_elect.then(|| timing.check()).transpose()
    }

    /// How many runs may be under way.
    pub(crate) fn limits(&self) -> Limits {
        let limit = |number: usize| Some(number).filter(|number| *number > 0);
        Limits {
            cluster: limit(self.max_runs),
            namespace: limit(self.max_runs_per_namespace),
        }
    }

    /// How long a request may take, unless it may take any time.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        unless_zero(&self.kube_api_timeout)
    }

    /// After how long without a run a workspace is put to rest, if ever.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        unless_zero(&self.workspace_idle_timeout)
    }

    /// How long a run may take, if there is a limit.
    pub(crate) fn run_timeout(&self) -> Option<Duration> {
        unless_zero(&self.run_timeout)
    }

    /// What is to know of git servers.
    pub(crate) fn git_settings(&self) -> GitSettings {
        GitSettings {
            allow_http: self.git_allow_http,
            interval: self.git_poll_interval.get().max(SHORTEST_GIT_POLL),
            github_api: self.github_api_url.clone(),
        }
    }

    /// The namespaces that are worked in, each once; none stands for all.
    pub(crate) fn watched_namespaces(&self) -> Vec<String> {
        let names = self.namespaces.split(',').map(str::trim);
        let mut names: Vec<String> = names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// How many objects of a kind are looked at at a time.
    pub(crate) fn concurrency(&self) -> u16 {
        self.surroundings.concurrency
    }

    /// What workspace pods are made with.
    pub(crate) fn pod_settings(&self) -> &PodSettings {
        &self.surroundings.pods
    }

    /// Where every agent is said to be, whatever its workspace says: for a manager outside of its cluster.
    pub(crate) fn workspace_localhost(&self) -> Option<&str> {
        self.surroundings.workspace_localhost.as_deref()
    }

    /// The manager's own service account, by namespace and name, where it may have one: beside processes it has one
    /// only if it is told.
    pub(crate) fn service_account(&self) -> Option<(String, String)> {
        let name = self.surroundings.service_account.clone();
        let name = match self.workspace_runtime {
            WorkspaceRuntime::Pod => name.unwrap_or_else(|| "controller-manager".to_owned()),
            WorkspaceRuntime::Process => name?,
        };
        Some((self.namespace.clone(), name))
    }

    /// Where workspaces reach the Programs, if they are served at this address.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> String {
        if !self.program_fs_adv_addr.is_empty() {
            return self.program_fs_adv_addr.clone();
        }
        self.program_fs_addr
            .advertised(bound, self.surroundings.hostname.as_deref())
    }

    /// The filter of what is logged.
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

    /// How a log line is written.
    pub(crate) fn log_encoding(&self) -> LogEncoding {
        let default = if self.zap_devel {
            LogEncoding::Console
        } else {
            LogEncoding::Json
        };
        self.zap_encoder.unwrap_or(default)
    }
}

fn unless_zero(duration: &GoDuration) -> Option<Duration> {
    Some(duration.get()).filter(|duration| !duration.is_zero())
}
