//! Flags of preview, up, refresh and destroy.

use clap::Args;

use super::StackName;
use crate::display::{Options, palette::Colors};

/// Flags of preview, up, refresh and destroy.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of Pulumi's command line"
)]
pub(crate) struct OperationArgs {
    /// Stack name; defaults to the selected stack
    #[command(flatten)]
    pub stack: StackName,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Do not run a preview first
    #[arg(short = 'f', long)]
    pub skip_preview: bool,
    /// Fail if there are any changes
    #[arg(long)]
    pub expect_no_changes: bool,
    /// Message for the update history
    #[arg(short, long, default_value = "")]
    pub message: String,
    /// URN of a resource to include; all others are skipped
    #[arg(short, long)]
    pub target: Vec<String>,
    /// Also include dependents of the given resources
    #[arg(long)]
    pub target_dependents: bool,
    /// URN of a resource to replace
    #[arg(long)]
    pub replace: Vec<String>,
    /// URN of a resource to replace; all others are skipped
    #[arg(long)]
    pub target_replace: Vec<String>,
    /// URN of a resource to skip
    #[arg(short = 'x', long)]
    pub exclude: Vec<String>,
    /// Also include dependents of the given resources
    #[arg(long)]
    pub exclude_dependents: bool,
    /// Skip protected resources
    #[arg(long)]
    pub exclude_protected: bool,
    /// Refresh the state first
    #[arg(short, long)]
    pub refresh: bool,
    /// Run the program to update provider configuration
    #[arg(long)]
    pub run_program: bool,
    /// Only show a preview
    #[arg(long)]
    pub preview_only: bool,
    /// Remove the stack after all resources are deleted
    #[arg(long)]
    pub remove: bool,
    /// Do not validate the config against the project
    #[arg(long)]
    pub skip_config_validation: bool,
    /// Clear pending creates from the state
    #[arg(long)]
    pub clear_pending_creates: bool,
    /// Keep pending creates in the state
    #[arg(long)]
    pub skip_pending_creates: bool,
    /// URN and ID pairs of pending creates to import
    #[arg(long)]
    pub import_pending_creates: Vec<String>,
    /// `KEY=VALUE` to set in the stack's config for this and later runs
    #[arg(short, long)]
    pub config: Vec<String>,
    /// Config keys are paths to properties in maps or lists
    #[arg(long)]
    pub config_path: bool,
    /// Config file to use instead of the stack's own
    #[arg(long)]
    pub config_file: Option<String>,
    /// Print events to standard output, one JSON object per line
    #[arg(short, long)]
    pub json: bool,
    /// Continue with other resources after an error
    #[arg(long)]
    pub continue_on_error: bool,
    /// Write events to this file, one JSON object per line
    #[arg(long, hide = true)]
    pub event_log: Option<String>,
    /// Accepted for compatibility: what started this run
    #[arg(long, hide = true)]
    pub exec_kind: Option<String>,
    /// Accepted for compatibility: what started this run
    #[arg(long, hide = true)]
    pub exec_agent: Option<String>,
    /// How many resources to process in parallel; 1 for no parallelism
    #[arg(short, long, env = "PULUMI_PARALLEL")]
    parallel: Option<i32>,
    /// Display options
    #[command(flatten)]
    pub display: DisplayArgs,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of Pulumi's command line"
)]
pub(crate) struct DisplayArgs {
    /// Show a tree with property diffs
    #[arg(long)]
    diff: bool,
    /// Show unchanged resources
    #[arg(long)]
    show_sames: bool,
    /// Show resource reads
    #[arg(long)]
    show_reads: bool,
    /// Show each step of a replacement
    #[arg(long)]
    show_replacement_steps: bool,
    /// Show secrets in plain text
    #[arg(long)]
    show_secrets: bool,
    /// Show the config of the run
    #[arg(long)]
    show_config: bool,
    /// Do not truncate long strings
    #[arg(long)]
    show_full_output: bool,
    /// Show full URNs
    #[arg(long)]
    urns: bool,
    /// Do not show stack outputs
    #[arg(long)]
    suppress_outputs: bool,
}

impl DisplayArgs {
    /// The display options. `whole` disables truncation.
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
    /// The number of parallel steps: by default four for each core, as in Pulumi.
    #[must_use]
    pub(crate) fn parallel(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        match self.parallel {
            Some(number) => usize::try_from(number).unwrap_or(1).max(1),
            None => cores() * 4,
        }
    }
}
