//! Failures that are recognized by the CLI's output, with their class and a hint for the user.
//! Pure.

use pko_proto::run::ErrorClass;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownFailure {
    /// Any of these identifies the failure.
    texts: &'static [&'static str],
    pub(super) class: ErrorClass,
    /// What to do about it, unless the CLI's own text says so.
    pub(super) advice: Option<&'static str>,
}

/// Searched in all output, as upstream does.
const IN_ALL_OUTPUT: [KnownFailure; 2] = [
    KnownFailure {
        texts: &[
            "Conflict: Another update is currently in progress",
            "the stack is currently locked by",
        ],
        class: ErrorClass::Conflict,
        advice: None,
    },
    KnownFailure {
        texts: &[
            "invalid access token",
            "Unauthorized: No credentials provided or are invalid",
        ],
        class: ErrorClass::Authentication,
        advice: Some(
            "the backend rejected the token in PULUMI_ACCESS_TOKEN: check that it belongs to this backend and is complete, not expired and not revoked",
        ),
    },
];

/// Searched only in the CLI's own error lines, because a program may print anything.
const IN_ERROR_LINES: [KnownFailure; 9] = [
    KnownFailure {
        texts: &["PULUMI_ACCESS_TOKEN must be set"],
        class: ErrorClass::Authentication,
        advice: Some(
            "no state backend is set, so Pulumi Cloud is used, which requires a token: set `accessTokenSecret` (or PULUMI_ACCESS_TOKEN), or set `backend` (or PULUMI_BACKEND_URL) to one that requires none",
        ),
    },
    KnownFailure {
        texts: &["organization name must be 'organization'"],
        class: ErrorClass::Configuration,
        advice: Some(
            "this state backend has no organizations: write the stack's name without one (`dev`), or as `organization/<project>/dev`",
        ),
    },
    KnownFailure {
        texts: &["doesn't match Pulumi.yaml"],
        class: ErrorClass::Configuration,
        advice: Some("the project in the stack's name must be the `name` in Pulumi.yaml"),
    },
    KnownFailure {
        texts: &["passphrase must be set with"],
        class: ErrorClass::Configuration,
        advice: Some(
            "the stack's secrets need a passphrase: set PULUMI_CONFIG_PASSPHRASE (it may be empty) or PULUMI_CONFIG_PASSPHRASE_FILE in the stack's environment, or set a `secretsProvider`",
        ),
    },
    KnownFailure {
        texts: &["incorrect passphrase"],
        class: ErrorClass::Configuration,
        advice: Some("the passphrase differs from the one that the stack was created with"),
    },
    KnownFailure {
        texts: &["unknown secrets provider type"],
        class: ErrorClass::Configuration,
        advice: Some(
            "`secretsProvider` must be `default`, `passphrase`, or a URL that begins with awskms://, azurekeyvault://, gcpkms:// or hashivault://",
        ),
    },
    KnownFailure {
        texts: &["does not support environments"],
        class: ErrorClass::Configuration,
        advice: Some("ESC environments need Pulumi Cloud as the state backend"),
    },
    KnownFailure {
        texts: &[
            "unable to open state directory",
            "unable to open bucket file://",
            "unable to access state directory",
            "write \".pulumi/meta.yaml\"",
        ],
        class: ErrorClass::Configuration,
        advice: None,
    },
    KnownFailure {
        texts: &[
            "connection refused",
            "connection reset",
            "i/o timeout",
            "TLS handshake timeout",
            "no such host",
            "server misbehaving",
            "unexpected EOF",
            "context deadline exceeded",
            "request send failed",
            "[429]",
            "[500]",
            "[502]",
            "[503]",
            "[504]",
        ],
        class: ErrorClass::Transient,
        advice: Some("the state backend is unreachable; the error may be temporary"),
    },
];

/// Advice for a state folder that is missing or not writable. The embedded engine prints its own.
pub(super) fn state_volume_advice(stderr: &str) -> Option<String> {
    let mut errors = stderr.lines().filter(|line| line.starts_with("error:"));
    let folder = errors.find_map(|line| missing_folder(line).or_else(|| denied_folder(line)))?;
    Some(format!(
        "the state needs a volume at {folder} that the pod's group can write to: add `volumes`, \
         `volumeMounts` and `securityContext.fsGroup` to `workspaceTemplate.spec.podTemplate.spec`, \
         as examples/hello/stack.yaml does"
    ))
}

/// `unable to open state directory "file:///state": stat /state: no such file or directory`. Older
/// CLIs call it a bucket.
fn missing_folder(line: &str) -> Option<&str> {
    let (_, cause) = line
        .split_once("unable to open state directory")
        .or_else(|| line.split_once("unable to open bucket file://"))?;
    let (_, path) = cause.split_once(": stat ")?;
    let (path, _) = path.split_once(": no such file or directory")?;
    Some(path)
}

/// `mkdir /state/.pulumi: permission denied`, or another system call.
fn denied_folder(line: &str) -> Option<&str> {
    let (before, _) = line
        .split_once(": permission denied")
        .or_else(|| line.split_once(": read-only file system"))?;
    let path = before.rsplit(' ').next()?;
    let (folder, _) = path.split_once("/.pulumi")?;
    folder.starts_with('/').then_some(folder)
}

/// The first match.
pub(super) fn find_known_failure(stdout: &str, stderr: &str) -> Option<&'static KnownFailure> {
    let in_output = |text: &str| stdout.contains(text) || stderr.contains(text);
    let in_errors = |text: &str| {
        let mut errors = stderr.lines().filter(|line| line.starts_with("error:"));
        errors.any(|line| line.contains(text))
    };
    let failure = IN_ALL_OUTPUT
        .iter()
        .find(|failure| failure.texts.iter().any(|text| in_output(text)));
    failure.or_else(|| {
        IN_ERROR_LINES
            .iter()
            .find(|failure| failure.texts.iter().any(|text| in_errors(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(stdout: &str, stderr: &str) -> Option<ErrorClass> {
        find_known_failure(stdout, stderr).map(|failure| failure.class)
    }

    #[test]
    fn known_failures_match_real_cli_output() {
        let table = [
            (
                "error: [409] Conflict: Another update is currently in progress.",
                ErrorClass::Conflict,
            ),
            (
                "error: the stack is currently locked by 1 lock(s). Either wait",
                ErrorClass::Conflict,
            ),
            (
                "error: [401] Unauthorized: No credentials provided or are invalid.",
                ErrorClass::Authentication,
            ),
            (
                "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions",
                ErrorClass::Authentication,
            ),
            (
                "error: organization name must be 'organization'",
                ErrorClass::Configuration,
            ),
            (
                "error: could not create stack: provided project name \"other\" doesn't match Pulumi.yaml",
                ErrorClass::Configuration,
            ),
            (
                "error: could not create secrets manager for new stack: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables",
                ErrorClass::Configuration,
            ),
            (
                "error: getting stack configuration: get stack secrets manager: incorrect passphrase",
                ErrorClass::Configuration,
            ),
            (
                "error: could not create stack: unknown secrets provider type 'bad' (supported values: default)",
                ErrorClass::Configuration,
            ),
            (
                "error: backend diy does not support environments",
                ErrorClass::Configuration,
            ),
            (
                "Logging in\nerror: performing HTTP request: Get \"https://x/api/user\": dial tcp 127.0.0.1:9: connect: connection refused",
                ErrorClass::Transient,
            ),
            (
                "error: unable to open state directory \"file:///state\": stat /state: no such file or directory",
                ErrorClass::Configuration,
            ),
            (
                "error: write \".pulumi/meta.yaml\": blob (key \".pulumi/meta.yaml\") (code=Unknown): mkdir /state/.pulumi: permission denied",
                ErrorClass::Configuration,
            ),
            (
                "error: could not query stack: [503] Service Unavailable",
                ErrorClass::Transient,
            ),
        ];
        for (stderr, expected) in table {
            assert_eq!(class("", stderr), Some(expected), "{stderr}");
        }
        assert_eq!(class("", "error: update failed"), None);
    }

    #[test]
    fn program_output_is_not_a_cli_error() {
        let program = "  error: dial tcp: connection refused\n passphrase must be set with";
        assert_eq!(class(program, ""), None);
        assert_eq!(class("", "warning: connection refused"), None);
        // As upstream: these two are searched in all output.
        assert_eq!(
            class("invalid access token", ""),
            Some(ErrorClass::Authentication)
        );
    }

    #[test]
    fn state_volume_advice_names_the_mount() {
        for (error, folder) in [
            (
                "unable to open state directory \"file:///state\": stat /state: no such file or directory",
                Some("/state"),
            ),
            (
                "unable to open bucket file:///my/state?no_tmp_dir=true: stat /my/state: no such file or directory",
                Some("/my/state"),
            ),
            (
                "write \".pulumi/meta.yaml\": blob (key \".pulumi/meta.yaml\") (code=Unknown): mkdir /state/.pulumi: permission denied",
                Some("/state"),
            ),
            (
                "could not lock: mkdir /state/.pulumi: read-only file system",
                Some("/state"),
            ),
            ("open /etc/shadow: permission denied", None),
            ("unable to open bucket s3://state: no such bucket", None),
            ("update failed", None),
        ] {
            let advice = state_volume_advice(&format!("Logging in\nerror: {error}\n"));
            match folder {
                Some(folder) => {
                    let start = format!("the state needs a volume at {folder} that");
                    assert!(advice.unwrap().starts_with(&start), "{error}");
                }
                None => assert_eq!(advice, None, "{error}"),
            }
            let of_program = format!("  error: {error}");
            assert_eq!(state_volume_advice(&of_program), None, "{error}");
        }
    }

    #[test]
    fn conflict_takes_precedence() {
        let both = "invalid access token; Conflict: Another update is currently in progress";
        assert_eq!(class(both, ""), Some(ErrorClass::Conflict));
    }
}
