//! Converts options to the CLI's arguments. Pure.

use pko_proto::agent::PolicyPack;

use super::Operation;

/// The arguments of an operation besides its options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationContext<'a> {
    pub(crate) stack: &'a str,
    pub(crate) event_log: &'a str,
    pub(crate) log_level: u32,
}

pub(crate) fn operation(operation: &Operation, context: OperationContext<'_>) -> Vec<String> {
    let mut line = CommandLine::new();
    match operation {
        Operation::Preview(options) => line
            .words(&["preview", "--diff"])
            .flag("--expect-no-changes", options.expect_no_changes())
            .each("--replace", &options.replace)
            .each("--target", &options.target)
            .flag("--target-dependents", options.target_dependents())
            .parallel(options.parallel())
            .policy_packs(&options.policy_pack)
            .flag("--refresh", options.refresh()),
        Operation::Up(options) => line
            .words(&[
                "up",
                "--yes",
                "--skip-preview",
                "--diff",
                "--suppress-progress",
            ])
            .flag("--expect-no-changes", options.expect_no_changes())
            .each("--replace", &options.replace)
            .each("--target", &options.target)
            .flag("--target-dependents", options.target_dependents())
            .parallel(options.parallel())
            .policy_packs(&options.policy_pack)
            .flag("--refresh", options.refresh())
            .flag("--continue-on-error", options.continue_on_error()),
        Operation::Refresh(options) => line
            .words(&["refresh", "--yes", "--skip-preview"])
            .flag("--expect-no-changes", options.expect_no_changes())
            .each("--target", &options.target)
            .parallel(options.parallel())
            .flag("--run-program=true", options.run_program()),
        Operation::Destroy(options) => line
            .words(&["destroy", "--yes", "--skip-preview"])
            .each("--target", &options.target)
            .flag("--target-dependents", options.target_dependents())
            .parallel(options.parallel())
            .flag("--refresh", options.refresh())
            .flag("--continue-on-error", options.continue_on_error())
            .flag("--run-program=true", options.run_program()),
    };
    line.message(operation.message());
    line.context(context);
    line.words
}

/// `pulumi version`, the only command without common flags.
pub(crate) fn version() -> Vec<String> {
    vec!["version".to_owned()]
}

pub(crate) fn who_am_i(as_json: bool) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["whoami"]).flag("--json", as_json);
    line.words
}

pub(crate) fn install() -> Vec<String> {
    words(&["install"])
}

pub(crate) fn stack_select(stack: &str) -> Vec<String> {
    words(&["stack", "select", "--stack", stack])
}

/// Also selects the stack.
pub(crate) fn stack_init(stack: &str, secrets_provider: Option<&str>) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["stack", "init", stack]);
    if let Some(provider) = secrets_provider.filter(|provider| !provider.is_empty()) {
        line.words(&["--secrets-provider", provider]);
    }
    line.words
}

pub(crate) fn stack_list() -> Vec<String> {
    words(&["stack", "ls", "--json"])
}

pub(crate) fn stack_remove(stack: &str) -> Vec<String> {
    words(&["stack", "rm", "--yes", stack])
}

/// Removes all locks of a stack.
pub(crate) fn cancel(stack: &str) -> Vec<String> {
    words(&["cancel", "--yes", "--stack", stack])
}

pub(crate) fn stack_output(stack: &str, show_secrets: bool) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["stack", "output", "--json"])
        .flag("--show-secrets", show_secrets)
        .words(&["--stack", stack]);
    line.words
}

/// The last update in the stack's history, without its configuration in clear text.
pub(crate) fn stack_last_update(stack: &str) -> Vec<String> {
    let page = ["--page-size", "1", "--page", "1"];
    let mut line = CommandLine::new();
    line.words(&["stack", "history", "--json"])
        .words(&page)
        .words(&["--stack", stack]);
    line.words
}

/// Sets values by path. Each pair is `KEY=VALUE`; secrets must not be among them.
pub(crate) fn config_set_all_paths(stack: &str, pairs: &[String]) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["config", "set-all", "--stack", stack, "--path"]);
    for pair in pairs {
        line.words(&["--plaintext", pair]);
    }
    line.words
}

/// Sets the values of a JSON document, which must not contain secrets.
pub(crate) fn config_set_all_json(stack: &str, document: &str) -> Vec<String> {
    words(&["config", "set-all", "--stack", stack, "--json", document])
}

/// Sets one value, which is passed on standard input.
pub(crate) fn config_set(stack: &str, key: &str, path: bool, secret: bool) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["config", "set"])
        .words(&[if secret { "--secret" } else { "--plaintext" }])
        .flag("--path", path)
        .words(&[key, "--stack", stack]);
    line.words
}

pub(crate) fn config_add_environments(stack: &str, environments: &[String]) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(&["config", "env", "add"]);
    line.words.extend_from_slice(environments);
    line.words(&["--yes", "--stack", stack]);
    line.words
}

fn words(words: &[&str]) -> Vec<String> {
    let mut line = CommandLine::new();
    line.words(words);
    line.words
}

struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    fn new() -> Self {
        Self {
            words: vec!["--non-interactive".to_owned()],
        }
    }

    fn words(&mut self, words: &[&str]) -> &mut Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn flag(&mut self, flag: &str, enabled: bool) -> &mut Self {
        if enabled {
            self.words.push(flag.to_owned());
        }
        self
    }

    fn each(&mut self, flag: &str, values: &[String]) -> &mut Self {
        let flags = values.iter().map(|value| format!("{flag}={value}"));
        self.words.extend(flags);
        self
    }

    fn parallel(&mut self, parallel: i32) -> &mut Self {
        if parallel > 0 {
            self.words.push(format!("--parallel={parallel}"));
        }
        self
    }

    fn policy_packs(&mut self, packs: &[PolicyPack]) -> &mut Self {
        let flags = packs
            .iter()
            .map(|pack| format!("--policy-pack={}", pack.name));
        self.words.extend(flags);
        self
    }

    fn message(&mut self, message: &str) {
        if !message.is_empty() {
            self.words.push(format!("--message={message}"));
        }
    }

    fn context(&mut self, context: OperationContext<'_>) {
        if context.log_level > 0 {
            self.words.extend([
                "--logtostderr".to_owned(),
                format!("-v={}", context.log_level),
            ]);
        }
        self.words.push("--exec-kind=auto.local".to_owned());
        self.words.push(format!(
            "--exec-agent=pulumi-kubernetes-operator/v{}",
            env!("CARGO_PKG_VERSION")
        ));
        self.words(&["--event-log", context.event_log, "--stack", context.stack]);
    }
}

#[cfg(test)]
mod tests {
    use pko_proto::agent::{DestroyRequest, PreviewRequest, RefreshRequest, UpRequest};

    use super::*;

    fn text(operation: &Operation, log_level: u32) -> String {
        let context = OperationContext {
            stack: "org/proj/dev",
            event_log: "/runs/1/events.jsonl",
            log_level,
        };
        let line = super::operation(operation, context).join(" ");
        line.replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }

    const END: &str = "--exec-kind=auto.local --exec-agent=pulumi-kubernetes-operator/vVERSION \
                       --event-log /runs/1/events.jsonl --stack org/proj/dev";

    #[test]
    fn operation_arguments_without_options() {
        let table = [
            (
                Operation::Preview(PreviewRequest::default()),
                "preview --diff",
            ),
            (
                Operation::Up(UpRequest::default()),
                "up --yes --skip-preview --diff --suppress-progress",
            ),
            (
                Operation::Refresh(RefreshRequest::default()),
                "refresh --yes --skip-preview",
            ),
            (
                Operation::Destroy(DestroyRequest::default()),
                "destroy --yes --skip-preview",
            ),
        ];
        for (operation, expected) in table {
            assert_eq!(
                text(&operation, 0),
                format!("--non-interactive {expected} {END}")
            );
        }
    }

    #[test]
    fn operation_arguments_with_all_options() {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let pack = PolicyPack {
            name: "pack".into(),
        };
        let up = UpRequest {
            parallel: Some(4),
            message: Some("two words".into()),
            expect_no_changes: Some(true),
            replace: strings(&["urn:a", "urn:b"]),
            target: strings(&["urn:c"]),
            target_dependents: Some(true),
            policy_pack: vec![pack.clone()],
            refresh: Some(true),
            continue_on_error: Some(true),
        };
        let preview = PreviewRequest {
            replace: strings(&["urn:a"]),
            policy_pack: vec![pack],
            refresh: Some(true),
            ..Default::default()
        };
        let refresh = RefreshRequest {
            run_program: Some(true),
            target: strings(&["urn:c"]),
            ..Default::default()
        };
        let destroy = DestroyRequest {
            remove: Some(true),
            run_program: Some(true),
            continue_on_error: Some(true),
            refresh: Some(true),
            target: strings(&["urn:c"]),
            ..Default::default()
        };
        let table = [
            (
                Operation::Up(up),
                "up --yes --skip-preview --diff --suppress-progress --expect-no-changes --replace=urn:a --replace=urn:b \
                 --target=urn:c --target-dependents --parallel=4 --policy-pack=pack --refresh --continue-on-error \
                 --message=two words",
            ),
            (
                Operation::Preview(preview),
                "preview --diff --replace=urn:a --policy-pack=pack --refresh",
            ),
            (
                Operation::Refresh(refresh),
                "refresh --yes --skip-preview --target=urn:c --run-program=true",
            ),
            (
                Operation::Destroy(destroy),
                "destroy --yes --skip-preview --target=urn:c --refresh --continue-on-error --run-program=true",
            ),
        ];
        for (operation, expected) in table {
            assert_eq!(
                text(&operation, 9),
                format!("--non-interactive {expected} --logtostderr -v=9 {END}")
            );
        }
    }

    #[test]
    fn operation_arguments_omit_false_and_empty() {
        let up = UpRequest {
            parallel: Some(0),
            message: Some(String::new()),
            refresh: Some(false),
            ..Default::default()
        };
        assert_eq!(
            text(&Operation::Up(up), 0),
            text(&Operation::Up(UpRequest::default()), 0)
        );
    }

    #[test]
    fn other_commands_have_expected_arguments() {
        let pairs = ["demo:[\"a\"]=b c".to_owned(), "demo:x.y=1".to_owned()];
        let environments = ["org/one".to_owned(), "org/two".to_owned()];
        let table = [
            (version(), "version"),
            (who_am_i(true), "--non-interactive whoami --json"),
            (who_am_i(false), "--non-interactive whoami"),
            (install(), "--non-interactive install"),
            (
                stack_select("dev"),
                "--non-interactive stack select --stack dev",
            ),
            (stack_init("dev", None), "--non-interactive stack init dev"),
            (
                stack_init("dev", Some("")),
                "--non-interactive stack init dev",
            ),
            (
                stack_init("dev", Some("awskms://k")),
                "--non-interactive stack init dev --secrets-provider awskms://k",
            ),
            (stack_list(), "--non-interactive stack ls --json"),
            (stack_remove("dev"), "--non-interactive stack rm --yes dev"),
            (
                stack_output("dev", true),
                "--non-interactive stack output --json --show-secrets --stack dev",
            ),
            (
                config_set_all_paths("dev", &pairs),
                "--non-interactive config set-all --stack dev --path --plaintext demo:[\"a\"]=b c --plaintext demo:x.y=1",
            ),
            (
                config_set_all_json("dev", "{}"),
                "--non-interactive config set-all --stack dev --json {}",
            ),
            (
                config_set("dev", "demo:k", true, true),
                "--non-interactive config set --secret --path demo:k --stack dev",
            ),
            (
                config_set("dev", "demo:k", false, false),
                "--non-interactive config set --plaintext demo:k --stack dev",
            ),
            (
                config_add_environments("dev", &environments),
                "--non-interactive config env add org/one org/two --yes --stack dev",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(line.join(" "), expected);
        }
    }
}
