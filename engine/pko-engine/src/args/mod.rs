//! The command line: that of Pulumi's CLI, as far as a Stack's life needs it. Pure.

mod lists;
mod operation;

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use lists::{REFUSED_COMMANDS, REFUSED_FLAGS, SWITCHES, WITHOUT_EFFECT};
pub(crate) use operation::OperationArgs;

/// A whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "pulumi",
    bin_name = "pulumi",
    disable_version_flag = true,
    disable_help_subcommand = true
)]
pub(crate) struct CommandLine {
    /// Run as if in this directory
    #[arg(short = 'C', long, global = true)]
    pub cwd: Option<String>,
    /// Colors: always, never, raw or auto
    #[arg(long, global = true)]
    pub color: Option<String>,
    /// Accepted; this engine keeps no logs of its own
    #[arg(short, long, global = true, hide = true)]
    verbose: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the version
    Version,
    /// Print who is using which backend
    #[command(name = "whoami")]
    WhoAmI {
        #[arg(long)]
        json: bool,
    },
    /// Nothing to install: built-in resources need no plugin
    Install,
    /// Remove the locks of a stack
    Cancel {
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        /// Stack, the selected one if none is given
        #[arg(short, long, env = "PULUMI_STACK")]
        stack: Option<String>,
        /// The same, without a flag
        name: Option<String>,
    },
    /// Stacks and their state
    #[command(subcommand)]
    Stack(StackCommand),
    /// Config values of a stack
    Config(ConfigArgs),
    /// Show what an up would do
    #[command(visible_alias = "pre")]
    Preview(OperationArgs),
    /// Create, update and delete resources as the program says
    #[command(visible_alias = "update")]
    Up(OperationArgs),
    /// Bring the state up to date
    Refresh(OperationArgs),
    /// Delete all resources
    #[command(visible_alias = "down")]
    Destroy(OperationArgs),
}

/// Which stack.
#[derive(Debug, Args)]
pub(crate) struct StackName {
    /// Stack, the selected one if none is given
    #[arg(short, long, env = "PULUMI_STACK")]
    pub stack: Option<String>,
}

/// Commands about stacks.
#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// Make a stack and select it
    Init {
        name: Option<String>,
        /// The same, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        #[arg(long)]
        secrets_provider: Option<String>,
        /// Do not select it
        #[arg(long)]
        no_select: bool,
    },
    /// Select a stack
    Select {
        name: Option<String>,
        /// The same, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        /// Make it if it does not exist
        #[arg(short, long)]
        create: bool,
        /// Provider of its secrets, when it is made
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
        /// One output only
        name: Option<String>,
        #[arg(short, long)]
        json: bool,
        /// Secrets in clear
        #[arg(long)]
        show_secrets: bool,
        /// Which stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Print what was done to a stack
    History {
        #[arg(short, long)]
        json: bool,
        /// Secret config in clear
        #[arg(long)]
        show_secrets: bool,
        /// Runs per page
        #[arg(long, default_value_t = 10)]
        page_size: usize,
        /// Which page
        #[arg(long, default_value_t = 1)]
        page: usize,
        /// Which stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Print the state of a stack
    Export {
        /// Secrets in clear
        #[arg(long)]
        show_secrets: bool,
        /// Write to this file
        #[arg(long)]
        file: Option<String>,
        /// An earlier state, which backends of this kind do not give
        #[arg(long)]
        version: Option<String>,
        /// Which stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Take a state as that of a stack
    Import {
        /// Read this file, not standard input
        #[arg(long)]
        file: Option<String>,
        /// Even if something seems to be wrong with it
        #[arg(short, long)]
        force: bool,
        /// Which stack
        #[command(flatten)]
        stack: StackName,
    },
    /// Names and values that users give to a stack
    Tag {
        /// Which stack
        #[arg(short, long, env = "PULUMI_STACK", global = true)]
        stack: Option<String>,
        /// What to do
        #[command(subcommand)]
        command: TagCommand,
    },
    /// Remove a stack
    Rm {
        name: Option<String>,
        /// The same, as a flag
        #[arg(short, long)]
        stack: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        /// Even if it has resources
        #[arg(short, long)]
        force: bool,
        /// Keep its config file
        #[arg(long)]
        preserve_config: bool,
    },
}

/// Commands about tags.
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
    /// What to do; without it all values are printed
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
    #[arg(short, long)]
    pub json: bool,
    /// Secrets in clear
    #[arg(long)]
    pub show_secrets: bool,
    /// Which stack
    #[arg(short, long, env = "PULUMI_STACK", global = true)]
    pub stack: Option<String>,
}

/// Commands about config values.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print one value
    Get {
        key: String,
        #[arg(short, long)]
        json: bool,
        /// The key is a path into a value
        #[arg(long)]
        path: bool,
    },
    /// Set one value; without a value it is read from standard input
    Set {
        key: String,
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
        /// The key is a path into a value
        #[arg(long)]
        path: bool,
        /// In clear
        #[arg(long)]
        plaintext: bool,
        /// Sealed
        #[arg(long, conflicts_with = "plaintext")]
        secret: bool,
    },
    /// Set many values
    SetAll {
        /// `KEY=VALUE`, in clear
        #[arg(long, allow_hyphen_values = true)]
        plaintext: Vec<String>,
        /// `KEY=VALUE`, sealed
        #[arg(long, allow_hyphen_values = true)]
        secret: Vec<String>,
        /// Keys are paths into values
        #[arg(long)]
        path: bool,
        /// All values as one document
        #[arg(long = "json", conflicts_with_all = ["plaintext", "secret"])]
        document: Option<String>,
    },
    /// Remove one value
    Rm {
        key: String,
        /// The key is a path into a value
        #[arg(long)]
        path: bool,
    },
    /// Remove many values
    RmAll {
        /// Their keys
        keys: Vec<String>,
        /// Keys are paths into values
        #[arg(long)]
        path: bool,
    },
    /// Environments of Pulumi ESC, which file backends do not have
    Env {
        /// Anything
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// Parses the words after the program's name. The error is what to print, and whether it is help.
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

/// Takes out what has no effect, and `=true` and `=false` of flags that need neither.
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
    fn what_the_agent_runs_is_understood() {
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
    fn what_is_not_there_is_refused_by_name() {
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
