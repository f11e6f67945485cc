//! What preview, up, refresh and destroy take.

use clap::Args;

use super::StackName;
use crate::display::{Options, palette::Colors};

/// What preview, up, refresh and destroy take.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of Pulumi's command line"
)]
pub(crate) struct OperationArgs {
    /// Which stack
    #[command(flatten)]
    pub stack: StackName,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Do not show first what would be done
    #[arg(short = 'f', long)]
    pub skip_preview: bool,
    /// Fail if there is anything to do
    #[arg(long)]
    pub expect_no_changes: bool,
    /// What to remember of this run
    #[arg(short, long, default_value = "")]
    pub message: String,
    /// Only these resources
    #[arg(short, long)]
    pub target: Vec<String>,
    /// And what depends on them
    #[arg(long)]
    pub target_dependents: bool,
    /// Replace these resources
    #[arg(long)]
    pub replace: Vec<String>,
    /// Only these resources, and replace them
    #[arg(long)]
    pub target_replace: Vec<String>,
    /// All but these resources
    #[arg(short = 'x', long)]
    pub exclude: Vec<String>,
    /// And what depends on them
    #[arg(long)]
    pub exclude_dependents: bool,
    /// All but what is protected
    #[arg(long)]
    pub exclude_protected: bool,
    /// Bring the state up to date first
    #[arg(short, long)]
    pub refresh: bool,
    /// Run the program, so that its providers are those of today
    #[arg(long)]
    pub run_program: bool,
    /// Only show what would be done
    #[arg(long)]
    pub preview_only: bool,
    /// Remove the stack once nothing is left in it
    #[arg(long)]
    pub remove: bool,
    /// Take the config as it is, whatever the project says of it
    #[arg(long)]
    pub skip_config_validation: bool,
    /// Forget resources that an earlier run may have created
    #[arg(long)]
    pub clear_pending_creates: bool,
    /// Leave them as they are
    #[arg(long)]
    pub skip_pending_creates: bool,
    /// URN and then ID of such resources, to take them into the state
    #[arg(long)]
    pub import_pending_creates: Vec<String>,
    /// `KEY=VALUE` for the run and the stack's config file
    #[arg(short, long)]
    pub config: Vec<String>,
    /// Keys of these are paths into values
    #[arg(long)]
    pub config_path: bool,
    /// The stack's config file, if it is another
    #[arg(long)]
    pub config_file: Option<String>,
    /// Events on standard output, one JSON object per line
    #[arg(short, long)]
    pub json: bool,
    /// Go on with other resources after a failure
    #[arg(long)]
    pub continue_on_error: bool,
    /// Write events to this file, one JSON object per line
    #[arg(long, hide = true)]
    pub event_log: Option<String>,
    /// Who started this run
    #[arg(long, hide = true)]
    pub exec_kind: Option<String>,
    /// Who started this run
    #[arg(long, hide = true)]
    pub exec_agent: Option<String>,
    /// How many resources are worked on at the same time; 1 for one after the other
    #[arg(short, long, env = "PULUMI_PARALLEL")]
    parallel: Option<i32>,
    /// What is shown
    #[command(flatten)]
    pub display: DisplayArgs,
}

/// What is shown of a run.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of Pulumi's command line"
)]
pub(crate) struct DisplayArgs {
    /// Show a tree with what differs
    #[arg(long)]
    diff: bool,
    /// Show resources that stay as they are
    #[arg(long)]
    show_sames: bool,
    /// Show resources that are only read
    #[arg(long)]
    show_reads: bool,
    /// Show each step of a replacement
    #[arg(long)]
    show_replacement_steps: bool,
    /// Show secrets in clear
    #[arg(long)]
    show_secrets: bool,
    /// Show the config of the run
    #[arg(long)]
    show_config: bool,
    /// Show long texts whole
    #[arg(long)]
    show_full_output: bool,
    /// Show URNs in place of types and names
    #[arg(long)]
    urns: bool,
    /// Show no outputs
    #[arg(long)]
    suppress_outputs: bool,
}

impl DisplayArgs {
    /// What the user wants to see; `whole` is whether texts are never cut.
    #[must_use]
    pub(crate) fn options(&self, colors: Colors, whole: bool) -> Options {
        Options {
            diff: self.diff,
            show_sames: self.show_sames,
            show_reads: self.show_reads,
            show_replacement_steps: self.show_replacement_steps,
            show_secrets: self.show_secrets,
            show_config: self.show_config,
            show_urns: self.urns,
            suppress_outputs: self.suppress_outputs,
            full_output: whole || self.show_full_output,
            colors,
        }
    }
}

impl OperationArgs {
    /// How many resources are worked on at the same time: as Pulumi has it, four for each core unless the user says.
    #[must_use]
    pub(crate) fn parallel(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        match self.parallel {
            Some(number) => usize::try_from(number).unwrap_or(1).max(1),
            None => cores() * 4,
        }
    }
}
