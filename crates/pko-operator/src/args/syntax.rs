//! Go's syntax of flags, as in upstream: one dash or two, `--flag value` or `--flag=value`,
//! booleans with `=` only.

use std::{collections::VecDeque, ffi::OsString};

use clap::{Arg, ArgMatches, Args, Command, parser::ValueSource};

/// Flags of klog, which upstream links: accepted without effect.
#[derive(Clone, Debug, Args)]
pub(super) struct IgnoredFlags {
    #[arg(long = "v", hide = true)]
    v: Option<String>,
    #[arg(long = "vmodule", hide = true)]
    vmodule: Option<String>,
    #[arg(long = "stderrthreshold", hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_link", hide = true)]
    log_link: Option<String>,
    #[arg(long = "logbuflevel", hide = true)]
    logbuflevel: Option<String>,
    #[arg(long = "logtostderr", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
    #[arg(long = "alsologtostderr", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<String>,
}

const IGNORED: [&str; 9] = [
    "v",
    "vmodule",
    "stderrthreshold",
    "log_backtrace_at",
    "log_dir",
    "log_link",
    "logbuflevel",
    "logtostderr",
    "alsologtostderr",
];

/// Normalizes arguments to two dashes and `=`.
pub(super) fn normal(
    command: &Command,
    given: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut given: VecDeque<OsString> = given.into_iter().collect();
    let mut normal: Vec<OsString> = given.pop_front().into_iter().collect();
    while let Some(argument) = given.pop_front() {
        let text = argument.to_string_lossy();
        let Some(flag) = flag(&text) else {
            normal.push(argument);
            continue;
        };
        let mut whole = OsString::from(format!("--{flag}"));
        if !flag.contains('=')
            && wants_value(command, flag)
            && let Some(value) = given.pop_front()
        {
            whole.push("=");
            whole.push(value);
        }
        normal.push(whole);
    }
    normal
}

fn flag(argument: &str) -> Option<&str> {
    let flag = argument
        .strip_prefix("--")
        .or_else(|| argument.strip_prefix('-'))?;
    let flag = if flag == "h" { "help" } else { flag };
    (!flag.is_empty() && !flag.starts_with(['-', '='])).then_some(flag)
}

fn wants_value(command: &Command, flag: &str) -> bool {
    let found = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(flag));
    found.is_some_and(|argument| argument.get_action().takes_values() && !is_boolean(argument))
}

fn is_boolean(argument: &Arg) -> bool {
    argument.is_require_equals_set()
}

/// One warning for all flags without effect.
pub(super) fn without_effect(matches: &ArgMatches) -> Vec<String> {
    let is_given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let mut lines = Vec::new();
    let ignored: Vec<String> = IGNORED
        .iter()
        .filter(|name| is_given(name))
        .map(|name| format!("-{name}"))
        .collect();
    if !ignored.is_empty() {
        lines.push(format!(
            "{}: accepted for compatibility, and without effect",
            ignored.join(", ")
        ));
    }
    if is_given(&"zap_stacktrace_level") {
        lines.push("--zap-stacktrace-level has no effect: there are no stack traces".to_owned());
    }
    lines
}
