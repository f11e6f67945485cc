//! Flags and environment variables.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, ValueEnum};
use pko_api::GoDuration;
use pko_core::{
    leadership::{BadTiming, Timing},
    queue::Limits,
};

/// Keeps Pulumi stacks up to date from inside a Kubernetes cluster
#[derive(Clone, Debug, Parser)]
#[command(name = "manager", version)]
pub(crate) struct Arguments {
    /// The kubeconfig of the cluster; without it, `$KUBECONFIG` or the pod's own account
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Where `/healthz` and `/readyz` are served
    #[arg(long, default_value = "0.0.0.0:8081", value_parser = address)]
    pub(crate) health_probe_bind_address: SocketAddr,

    /// Where Programs are served
    #[arg(long, env = "PROGRAM_FS_ADDR", default_value = "0.0.0.0:9090", value_parser = address)]
    pub(crate) program_fs_addr: SocketAddr,

    /// Where workspaces reach that; without it, it follows from `--program-fs-addr`
    #[arg(long, env = "PROGRAM_FS_ADV_ADDR")]
    pub(crate) program_fs_adv_addr: Option<String>,

    /// Where workspaces run
    #[arg(long, value_enum, default_value_t = WorkspaceRuntime::Process)]
    pub(crate) workspace_runtime: WorkspaceRuntime,

    /// Where process workspaces have their files
    #[arg(long, default_value = "/var/lib/pulumi-kubernetes-operator/workspaces")]
    pub(crate) workspace_dir: PathBuf,

    /// How many runs may be under way in the whole cluster; 0 for any number
    #[arg(long, env = "PKO_MAX_RUNS", default_value_t = 0)]
    pub(crate) max_runs: usize,

    /// How many runs may be under way in each namespace; 0 for any number
    #[arg(long, env = "PKO_MAX_RUNS_PER_NAMESPACE", default_value_t = 0)]
    pub(crate) max_runs_per_namespace: usize,

    /// Work only while holding the Lease `operator.pulumi.com`, so that there can be several managers
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// How long a Lease lasts that is not renewed
    #[arg(long, env = "LEADER_ELECTION_LEASE_DURATION", default_value = "20s")]
    pub(crate) leader_election_lease_duration: GoDuration,

    /// How long a leader tries to renew its Lease before it gives up
    #[arg(long, env = "LEADER_ELECTION_RENEW_DEADLINE", default_value = "15s")]
    pub(crate) leader_election_renew_deadline: GoDuration,

    /// The pause between two tries to get or to renew the Lease
    #[arg(long, env = "LEADER_ELECTION_RETRY_PERIOD", default_value = "5s")]
    pub(crate) leader_election_retry_period: GoDuration,

    /// The manager's own namespace, where its Lease is
    #[arg(
        long,
        env = "POD_NAMESPACE",
        default_value = "pulumi-kubernetes-operator"
    )]
    pub(crate) namespace: String,

    /// The agent's program; without it, `agent` beside this one
    #[arg(long, env = "PKO_AGENT")]
    pub(crate) agent: Option<PathBuf>,

    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,kube=debug`
    #[arg(long, env = "PKO_LOG", default_value = "info")]
    pub(crate) log_level: String,
}

/// Where workspaces run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceRuntime {
    /// Beside the manager, as processes of the same user
    Process,
}

/// An address as Go writes it, too: `:9090` is every interface.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    text.parse()
        .map_err(|_| "not an address: write it like `127.0.0.1:8081` or `:8081`".to_owned())
}

impl Arguments {
    /// How leaders are elected, if they are.
    pub(crate) fn election(&self) -> Result<Option<Timing>, BadTiming> {
        let timing = Timing {
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

    /// Where workspaces reach the Programs, if they are served at this address.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> String {
        self.program_fs_adv_addr
            .clone()
            .filter(|address| !address.is_empty())
            .unwrap_or_else(|| {
                if bound.ip().is_unspecified() {
                    format!("localhost:{}", bound.port())
                } else {
                    bound.to_string()
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_written_as_in_go() {
        assert_eq!(address(":9090"), Ok("0.0.0.0:9090".parse().unwrap()));
        assert_eq!(address("127.0.0.1:1"), Ok("127.0.0.1:1".parse().unwrap()));
        assert!(address("9090").unwrap_err().contains("127.0.0.1:8081"));
    }

    #[test]
    fn the_advertised_address_follows_from_the_bound_one() {
        let arguments = Arguments::parse_from(["manager"]);
        assert_eq!(
            arguments.advertised("0.0.0.0:9090".parse().unwrap()),
            "localhost:9090"
        );
        assert_eq!(
            arguments.advertised("127.0.0.1:77".parse().unwrap()),
            "127.0.0.1:77"
        );
        let arguments = Arguments::parse_from(["manager", "--program-fs-adv-addr", "operator.svc"]);
        assert_eq!(
            arguments.advertised("0.0.0.0:9090".parse().unwrap()),
            "operator.svc"
        );
    }
}
