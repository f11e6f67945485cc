//! Environment variables: defaults for flags, overrides of flags, and those without a flag.

use std::ffi::OsString;

use clap::Command;
use pko_api::{GoDuration, names::images};

use super::settings::AgentImageSettings;

/// Without `MAX_CONCURRENT_RECONCILES`. Runs don't occupy a worker.
const CONCURRENCY: u16 = 25;

/// Flag, and the variable with its default.
const DEFAULTS: [(&str, &str); 16] = [
    ("program-fs-addr", "PROGRAM_FS_ADDR"),
    ("program-fs-adv-addr", "PROGRAM_FS_ADV_ADDR"),
    ("program-fs-sealed", "PKO_PROGRAM_FS_SEALED"),
    ("workspace-idle-timeout", "PKO_WORKSPACE_IDLE_TIMEOUT"),
    ("run-timeout", "PKO_RUN_TIMEOUT"),
    ("git-poll-interval", "PKO_GIT_POLL_INTERVAL"),
    ("git-allow-http", "PKO_GIT_ALLOW_HTTP"),
    ("github-api-url", "PKO_GITHUB_API_URL"),
    ("flux-source-groups", "PKO_FLUX_SOURCE_GROUPS"),
    ("max-runs", "PKO_MAX_RUNS"),
    ("max-runs-per-namespace", "PKO_MAX_RUNS_PER_NAMESPACE"),
    ("namespaces", "PKO_NAMESPACES"),
    ("watch-secrets", "PKO_WATCH_SECRETS"),
    ("namespace", "POD_NAMESPACE"),
    ("agent", "PKO_AGENT"),
    ("log-level", "PKO_LOG"),
];

/// Flag of a duration, and the variable that overrides it, as in upstream.
const OVERRIDES: [(&str, &str); 4] = [
    (
        "leader-election-lease-duration",
        "LEADER_ELECTION_LEASE_DURATION",
    ),
    (
        "leader-election-renew-deadline",
        "LEADER_ELECTION_RENEW_DEADLINE",
    ),
    (
        "leader-election-retry-period",
        "LEADER_ELECTION_RETRY_PERIOD",
    ),
    ("kube-api-timeout", "KUBE_API_TIMEOUT"),
];

/// Adds the variables to the help.
pub(super) fn with_variables_in_help(command: Command) -> Command {
    let variables = DEFAULTS.iter().chain(&OVERRIDES);
    variables.fold(command, |command, (flag, name)| {
        command.mut_arg(flag.replace('-', "_"), |argument| {
            named_in_help(argument, name)
        })
    })
}

fn named_in_help(argument: clap::Arg, variable: &str) -> clap::Arg {
    let help = argument.get_help().map(ToString::to_string);
    argument.help(format!("{} [env: {variable}]", help.unwrap_or_default()))
}

/// Flags from variables, which flags of the command line override.
pub(super) fn default_flags(variable: &dyn Fn(&str) -> Option<String>) -> Vec<OsString> {
    DEFAULTS
        .iter()
        .filter_map(|(flag, name)| Some(format!("--{flag}={}", variable(name)?).into()))
        .collect()
}

/// Flags from variables that override the command line. Invalid values are ignored with a warning.
pub(super) fn override_flags(
    variable: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Vec<OsString> {
    let set = OVERRIDES
        .iter()
        .filter_map(|(flag, name)| Some((flag, name, variable(name)?)));
    let mut flags = Vec::new();
    for (flag, name, value) in set {
        match value.parse::<GoDuration>() {
            Ok(_) => flags.push(format!("--{flag}={value}").into()),
            Err(error) => warnings.push(format!("{name} is ignored: `{value}` is {error}")),
        }
    }
    flags
}

/// Variables without a flag.
#[derive(Clone, Debug)]
pub(super) struct EnvironmentSettings {
    pub(super) concurrency: u16,
    pub(super) pods: AgentImageSettings,
    pub(super) service_account: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) workspace_localhost: Option<String>,
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self::read(&|_| None, &mut Vec::new())
    }
}

impl EnvironmentSettings {
    pub(super) fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        warnings: &mut Vec<String>,
    ) -> Self {
        Self {
            concurrency: concurrency(variable("MAX_CONCURRENT_RECONCILES"), warnings),
            pods: AgentImageSettings {
                agent_image: variable("AGENT_IMAGE").unwrap_or_else(own_image),
                agent_image_pull_policy: pull_policy(variable("AGENT_IMAGE_PULL_POLICY")),
                max_untar_size: variable("FLUX_MAX_UNTAR_SIZE_BYTES"),
            },
            service_account: variable("POD_SA_NAME"),
            hostname: variable("HOSTNAME").or_else(hostname),
            workspace_localhost: variable("WORKSPACE_LOCALHOST"),
        }
    }
}

/// The image of this version.
fn own_image() -> String {
    format!("{}:v{}", images::OPERATOR, env!("CARGO_PKG_VERSION"))
}

fn concurrency(value: Option<String>, warnings: &mut Vec<String>) -> u16 {
    let Some(value) = value else {
        return CONCURRENCY;
    };
    match value.parse() {
        Ok(number) if number > 0 => number,
        _ => {
            warnings.push(format!(
                "MAX_CONCURRENT_RECONCILES is ignored: `{value}` is not a number from 1 to {}",
                u16::MAX
            ));
            CONCURRENCY
        }
    }
}

/// In the spelling of Kubernetes.
fn pull_policy(value: Option<String>) -> &'static str {
    const POLICIES: [&str; 3] = ["IfNotPresent", "Always", "Never"];
    let value = value.unwrap_or_default();
    let known = POLICIES
        .into_iter()
        .find(|policy| policy.eq_ignore_ascii_case(&value));
    known.unwrap_or("IfNotPresent")
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
