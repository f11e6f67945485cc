//! Pulumi's command line. Unknown flags are rejected, as Pulumi does.

use std::env;

use crate::cli_error::CliError;

const SWITCHES: [&str; 16] = [
    "--non-interactive",
    "--yes",
    "--skip-preview",
    "--diff",
    "--suppress-progress",
    "--expect-no-changes",
    "--target-dependents",
    "--refresh",
    "--continue-on-error",
    "--run-program",
    "--logtostderr",
    "--json",
    "--show-secrets",
    "--path",
    "--secret",
    "--plaintext",
];

const OPTIONS: [&str; 14] = [
    "--stack",
    "-s",
    "-v",
    "--exec-kind",
    "--exec-agent",
    "--message",
    "--target",
    "--replace",
    "--parallel",
    "--policy-pack",
    "--secrets-provider",
    "--page",
    "--page-size",
    EVENT_LOG,
];

/// Of `config set-all`, these have values.
const OF_SET_ALL: [&str; 3] = ["--plaintext", "--secret", "--json"];

/// Exists only for the Automation API.
const EVENT_LOG: &str = "--event-log";

/// A command line that was understood.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    words: Vec<String>,
    /// The number of words before the first flag of the command.
    leading: usize,
    flags: Vec<(String, String)>,
}

impl CommandLine {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, CliError> {
        let mut line = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if !argument.starts_with('-') || argument == "-" {
                line.word(argument);
                continue;
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let value = match (line.kind(name)?, value) {
                (_, Some(value)) => value,
                (FlagKind::Switch, None) => "true".to_owned(),
                (FlagKind::Option, None) => match arguments.next() {
                    Some(value) => value.clone(),
                    None => {
                        return Err(CliError::new(1, format!("flag needs an argument: {name}")));
                    }
                },
            };
            line.flags.push((name.to_owned(), value));
        }
        Ok(line)
    }

    fn word(&mut self, word: &str) {
        let only_global = self
            .flags
            .iter()
            .all(|(name, _)| name == "--non-interactive");
        if only_global {
            self.leading += 1;
        }
        self.words.push(word.to_owned());
    }

    fn kind(&self, name: &str) -> Result<FlagKind, CliError> {
        let hidden = name == EVENT_LOG && !debug_commands();
        if self.is("config set-all") && OF_SET_ALL.contains(&name) {
            return Ok(FlagKind::Option);
        }
        if SWITCHES.contains(&name) {
            return Ok(FlagKind::Switch);
        }
        if OPTIONS.contains(&name) && !hidden {
            return Ok(FlagKind::Option);
        }
        Err(CliError::new(1, format!("unknown flag: {name}")))
    }

    /// True for calls of this command.
    pub(crate) fn is(&self, command: &str) -> bool {
        let leading = self.words.iter().take(self.leading);
        let mut leading = leading.map(String::as_str);
        command.split(' ').all(|word| leading.next() == Some(word))
    }

    /// The n-th word, from zero on.
    pub(crate) fn nth(&self, index: usize) -> Option<&str> {
        self.words.get(index).map(String::as_str)
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// All values of a flag.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let flags = self.flags.iter().filter(move |(flag, _)| flag == name);
        flags.map(|(_, value)| value.as_str())
    }

    /// All flags in their order.
    pub(crate) fn flags(&self) -> &[(String, String)] {
        &self.flags
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "false")
    }

    pub(crate) fn event_log(&self) -> Option<&str> {
        self.value(EVENT_LOG)
    }

    /// The stack that `--stack` names.
    pub(crate) fn stack(&self) -> Option<&str> {
        self.value("--stack").or_else(|| self.value("-s"))
    }

    /// True for `up`, `preview`, `refresh` and `destroy`.
    pub(crate) fn is_operation(&self) -> bool {
        let operations = ["up", "preview", "refresh", "destroy"];
        operations.into_iter().any(|operation| self.is(operation))
    }
}

enum FlagKind {
    Switch,
    Option,
}

fn debug_commands() -> bool {
    env::var("PULUMI_DEBUG_COMMANDS").is_ok_and(|value| value == "true" || value == "1")
}
