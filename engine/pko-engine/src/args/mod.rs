//! The command line: the part of Pulumi's CLI that a Stack needs.

mod lists;
mod operation;

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use lists::{REFUSED_COMMANDS, REFUSED_FLAGS, SWITCHES, WITHOUT_EFFECT};
pub(crate) use operation::OperationArgs;

#[derive(Debug, Parser)]
#[command(
    name = "pulumi",
    bin_name = "pulumi",
    disable_version_flag = true,
    disable_help_subcommand = true
)]
pub(crate) struct CommandLine {
    /// Run as if started in this directory
    #[arg(short = 'C', long, global = true)]
    pub cwd: Option<String>,
    /// Colors: always, never, raw or auto
    #[arg(long, global = true)]
    pub color: Option<String>,
    /// Accepted without effect: this engine writes no logs
    #[arg(short, long, global = true, hide = true)]
    verbose: Option<String>,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the version
    Version,
    /// Print the current user and backend
    #[command(name = "whoami")]
    WhoAmI {
        #[arg(long)]
        json: bool,
    },
    /// Accepted without effect: built-in packages need no plugins
    Install,
    /// Remove the locks of a stack
    Cancel {
        /// Skip the confirmation
        #[arg(short, long)]
        yes: bool,
        /// Stack name; defaults to the selected stack
        #[arg(short, long, env = "PULUMI_STACK")]
        stack: Option<String>,
        /// Stack name, as an argument
        name: Option<String>,
    },
    /// Manage stacks and their state
    #[command(subcommand)]
    Stack(StackCommand),
    /// Manage the config of a stack
    Config(ConfigArgs),
    /// Show what `up` would change
    #[command(visible_alias = "pre")]
    Preview(OperationArgs),
    /// Create, update and delete the resources of the program
    #[command(visible_alias = "update")]
    Up(OperationArgs),
    /// Update the state from the live resources
    Refresh(OperationArgs),
    /// Delete all resources of the stack
    #[command(visible_alias = "down")]
    Destroy(OperationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StackName {
    /// Stack name; defaults to the selected stack
    #[arg(short, long, env = "PULUMI_STACK")]
    pub stack: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// Create a stack and select it
    Init {
        name: Option<String>,
        /// Stack name, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        #[arg(long)]
        secrets_provider: Option<String>,
        /// Do not select the new stack
        #[arg(long)]
        no_select: bool,
    },
    /// Select a stack
    Select {
        name: Option<String>,
        /// Stack name, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        /// Create the stack if it does not exist
        #[arg(short, long)]
        create: bool,
        /// Secrets provider of a new stack
        #[arg(long)]
        secrets_provider: Option<String>,
    },
    /// List the stacks of the project
    Ls {
        #[arg(long)]
        json: bool,
    },
    /// Print the outputs of a stack
    Output {
        /// Print only this output
        name: Option<String>,
        #[arg(short, long)]
        json: bool,
        /// Show secrets in plain text
        #[arg(long)]
        show_secrets: bool,
        /// Stack name; defaults to the selected stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Print the update history of a stack
    History {
        #[arg(short, long)]
        json: bool,
        /// Show secret config in plain text
        #[arg(long)]
        show_secrets: bool,
        /// Updates per page
        #[arg(long, default_value_t = 10)]
        page_size: usize,
        /// Page number
        #[arg(long, default_value_t = 1)]
        page: usize,
        /// Stack name; defaults to the selected stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Print the state of a stack
    Export {
        /// Show secrets in plain text
        #[arg(long)]
        show_secrets: bool,
        /// Write to this file instead of standard output
        #[arg(long)]
        file: Option<String>,
        /// Not supported: self-managed backends keep no earlier versions
        #[arg(long)]
        version: Option<String>,
        /// Stack name; defaults to the selected stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Import the state of a stack
    Import {
        /// Read from this file instead of standard input
        #[arg(long)]
        file: Option<String>,
        /// Import the state even if it fails validation
        #[arg(short, long)]
        force: bool,
        /// Stack name; defaults to the selected stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Manage the tags of a stack
    Tag {
        /// Stack name; defaults to the selected stack
        #[arg(short, long, env = "PULUMI_STACK", global = true)]
        stack: Option<String>,
        /// The command
        #[command(subcommand)]
        command: TagCommand,
    },
    /// Remove a stack
    Rm {
        name: Option<String>,
        /// Stack name, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        /// Skip the confirmation
        #[arg(short, long)]
        yes: bool,
        /// Remove the stack even if it still has resources
        #[arg(short, long)]
        force: bool,
        /// Keep the stack's config file
        #[arg(long)]
        preserve_config: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TagCommand {
    /// List all tags
    #[command(visible_alias = "list")]
    Ls {
        #[arg(short, long)]
        json: bool,
    },
    /// Print one tag
    Get { name: String },
    /// Set one tag
    #[command(visible_alias = "new")]
    Set {
        name: String,
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove one tag
    #[command(visible_alias = "remove")]
    Rm { name: String },
}

/// `config`, alone or with a command.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The command; without one, all values are printed
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
    #[arg(short, long)]
    pub json: bool,
    /// Show secrets in plain text
    #[arg(long)]
    pub show_secrets: bool,
    /// Stack name; defaults to the selected stack
    #[arg(short, long, env = "PULUMI_STACK", global = true)]
    pub stack: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print one value
    Get {
        key: String,
        #[arg(short, long)]
        json: bool,
        /// The key is a path to a property in a map or list
        #[arg(long)]
        path: bool,
    },
    /// Set one value; reads standard input if none is given
    Set {
        key: String,
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
        /// The key is a path to a property in a map or list
        #[arg(long)]
        path: bool,
        /// Save the value as plain text
        #[arg(long)]
        plaintext: bool,
        /// Encrypt the value
        #[arg(long, conflicts_with = "plaintext")]
        secret: bool,
    },
    /// Set several values
    SetAll {
        /// `KEY=VALUE` to save as plain text
        #[arg(long, allow_hyphen_values = true)]
        plaintext: Vec<String>,
        /// `KEY=VALUE` to encrypt
        #[arg(long, allow_hyphen_values = true)]
        secret: Vec<String>,
        /// Keys are paths to properties in maps or lists
        #[arg(long)]
        path: bool,
        /// All values as one JSON document
        #[arg(long = "json", conflicts_with_all = ["plaintext", "secret"])]
        document: Option<String>,
    },
    /// Remove one value
    Rm {
        key: String,
        /// The key is a path to a property in a map or list
        #[arg(long)]
        path: bool,
    },
    /// Remove several values
    RmAll {
        /// Keys to remove
        keys: Vec<String>,
        /// Keys are paths to properties in maps or lists
        #[arg(long)]
        path: bool,
    },
    /// Not supported: Pulumi ESC environments require Pulumi Cloud
    Env {
        /// Any arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// Parses the arguments. The error is the text to print, and whether it is help.
pub(crate) fn parse(
    words: Vec<String>,
    debug_commands: bool,
) -> Result<CommandLine, (String, bool)> {
    let words = normalise(words);
    let events = words
        .iter()
        .any(|word| word == "--event-log" || word.starts_with("--event-log="));
    if events && !debug_commands {
        return Err(("unknown flag: --event-log".to_owned(), false));
    }
    CommandLine::try_parse_from(std::iter::once("pulumi".to_owned()).chain(words))
        .map_err(|error| explain(&error))
}

/// Removes flags without effect, and `=true` and `=false` of boolean flags.
fn normalise(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            kept.push(word);
            break;
        }
        let (name, value) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if WITHOUT_EFFECT.contains(&name) {
            continue;
        }
        match value {
            Some("true") if SWITCHES.contains(&name) => kept.push(name.to_owned()),
            Some("false") if SWITCHES.contains(&name) => {}
            _ => kept.push(word),
        }
    }
    kept.extend(words);
    kept
}

fn explain(error: &clap::Error) -> (String, bool) {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let argument = context(ContextKind::InvalidArg);
            if REFUSED_FLAGS.contains(&argument.as_str()) {
                (
                    format!(
                        "flag `{argument}` is not supported by pulumi-engine for this command; use an image with Pulumi's CLI"
                    ),
                    false,
                )
            } else if argument.starts_with('-') {
                (format!("unknown flag: {argument}"), false)
            } else {
                (format!("unexpected argument {argument:?}"), false)
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = context(ContextKind::InvalidSubcommand);
            if REFUSED_COMMANDS.contains(&name.as_str()) {
                (
                    format!(
                        "command `{name}` is not supported by pulumi-engine; use an image with Pulumi's CLI"
                    ),
                    false,
                )
            } else {
                let text = format!(
                    "unknown command {name:?} for \"pulumi\"\nRun 'pulumi --help' for usage."
                );
                (text, false)
            }
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            (error.render().to_string(), true)
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            (text.lines().next().unwrap_or_default().to_owned(), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CommandLine, String> {
        let words = line.split_whitespace().map(ToOwned::to_owned).collect();
        parse(words, true).map_err(|(message, _)| message)
    }

    #[test]
    fn command_line_accepts_agent_commands() {
        for line in [
            "version",
            "--non-interactive whoami --json",
            "--non-interactive stack select --stack dev",
            "--non-interactive stack init dev --secrets-provider passphrase",
            "--non-interactive stack ls --json",
            "--non-interactive refresh --yes --skip-preview --run-program=true --stack dev",
            "--non-interactive destroy --yes --skip-preview --run-program=true --stack dev",
            "--non-interactive config set-all --stack dev --path --plaintext demo:[\"a\"]=hi --secret demo:b=-x",
            "--non-interactive config set-all --stack dev --json {}",
            "--non-interactive config set --secret demo:token --stack dev",
            "--non-interactive config --json --show-secrets --stack dev",
            "--non-interactive config env add org/env --yes --stack dev",
            "--non-interactive install",
            "--non-interactive preview --exec-kind=auto.local --logtostderr -v=3 --message=m --expect-no-changes --diff --replace=u --target=u --target=w --target-dependents --parallel=4 --exec-agent=a --refresh --event-log /x --stack dev",
            "--non-interactive up --yes --skip-preview --exec-kind=auto.local --diff --suppress-progress --continue-on-error --refresh=true --stack dev",
            "--non-interactive refresh --yes --skip-preview --run-program=false --stack dev",
            "--non-interactive destroy --yes --skip-preview --stack dev --target-dependents",
            "--non-interactive stack output --json --show-secrets --stack dev",
            "--non-interactive stack history --json --show-secrets --page-size 1 --page 1 --stack dev",
            "--non-interactive stack rm --yes dev",
            "--non-interactive cancel --yes --stack dev",
        ] {
            if let Err(error) = parsed(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn command_line_rejects_unsupported_flags() {
        for (line, expected) in [
            ("up --nosuchflag --stack dev", "unknown flag: --nosuchflag"),
            (
                "up --policy-pack x",
                "flag `--policy-pack` is not supported by pulumi-engine for this command; use an image with Pulumi's CLI",
            ),
            (
                "import a b c",
                "command `import` is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
            (
                "stack rename x",
                "command `rename` is not supported by pulumi-engine; use an image with Pulumi's CLI",
            ),
            (
                "nosuch",
                "unknown command \"nosuch\" for \"pulumi\"\nRun 'pulumi --help' for usage.",
            ),
        ] {
            assert_eq!(parsed(line).err().as_deref(), Some(expected), "{line}");
        }
        let words = vec!["up".to_owned(), "--event-log".to_owned(), "x".to_owned()];
        assert_eq!(
            parse(words, false)
                .err()
                .map(|(message, _)| message)
                .as_deref(),
            Some("unknown flag: --event-log")
        );
    }
}
