//! Failures that the CLI is known to report: what kind they are, and what can be done about them.
//! Pure.

use pko_proto::run::ErrorClass;

/// A failure that is recognised by what is printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Any of these is enough.
    texts: &'static [&'static str],
    pub(super) class: ErrorClass,
    /// What somebody who has never seen it should do, if the CLI does not say so itself.
    pub(super) advice: Option<&'static str>,
}

/// Looked for in everything that is printed, as upstream does it.
const ANYWHERE: [Known; 2] = [
    Known {
        texts: &[
            "Conflict: Another update is currently in progress",
            "the stack is currently locked by",
        ],
        class: ErrorClass::Conflict,
        advice: None,
    },
    Known {
        texts: &[
            "invalid access token",
            "Unauthorized: No credentials provided or are invalid",
        ],
        class: ErrorClass::Authentication,
        advice: Some(
            "the backend does not accept the token in PULUMI_ACCESS_TOKEN: is it whole, of this backend, and neither expired nor revoked?",
        ),
    },
];

/// Looked for in the lines with which the CLI itself complains: a program may print anything.
const COMPLAINTS: [Known; 9] = [
    Known {
        texts: &["PULUMI_ACCESS_TOKEN must be set"],
        class: ErrorClass::Authentication,
        advice: Some(
            "no state backend is set, so Pulumi Cloud is meant, and that needs a token: set `accessTokenSecret` (or PULUMI_ACCESS_TOKEN), or set `backend` (or PULUMI_BACKEND_URL) to one that needs none",
        ),
    },
    Known {
        texts: &["organization name must be 'organization'"],
        class: ErrorClass::Configuration,
        advice: Some(
            "this state backend has no organizations: write the stack's name without one (`dev`), or as `organization/<project>/dev`",
        ),
    },
    Known {
        texts: &["doesn't match Pulumi.yaml"],
        class: ErrorClass::Configuration,
        advice: Some("the project in the stack's name must be the `name` in Pulumi.yaml"),
    },
    Known {
        texts: &["passphrase must be set with"],
        class: ErrorClass::Configuration,
        advice: Some(
            "the stack's secrets need a passphrase: set PULUMI_CONFIG_PASSPHRASE (it may be empty) or PULUMI_CONFIG_PASSPHRASE_FILE in the stack's environment, or name a `secretsProvider`",
        ),
    },
    Known {
        texts: &["incorrect passphrase"],
        class: ErrorClass::Configuration,
        advice: Some("the passphrase is not the one with which this stack was made"),
    },
    Known {
        texts: &["unknown secrets provider type"],
        class: ErrorClass::Configuration,
        advice: Some(
            "`secretsProvider` is `default`, `passphrase`, or a URL that begins with awskms://, azurekeyvault://, gcpkms:// or hashivault://",
        ),
    },
    Known {
        texts: &["does not support environments"],
        class: ErrorClass::Configuration,
        advice: Some("ESC environments need Pulumi Cloud as the state backend"),
    },
    Known {
        texts: &[
            "unable to open state directory",
            "unable to open bucket file://",
            "unable to access state directory",
            "write \".pulumi/meta.yaml\"",
        ],
        class: ErrorClass::Configuration,
        advice: None,
    },
    Known {
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
        advice: Some("the state backend could not be reached; this may pass by itself"),
    },
];

/// What can be done about a folder for states that is not there, or that can't be written to. The
/// embedded engine says it itself.
pub(super) fn state_folder_advice(stderr: &str) -> Option<String> {
    let mut complaints = stderr.lines().filter(|line| line.starts_with("error:"));
    let folder =
        complaints.find_map(|line| missing_folder(line).or_else(|| denied_folder(line)))?;
    Some(format!(
        "the state needs a volume at {folder} that the pod's group can write to: add `volumes`, \
         `volumeMounts` and `securityContext.fsGroup` to `workspaceTemplate.spec.podTemplate.spec`, \
         as examples/hello/stack.yaml does"
    ))
}

/// `unable to open state directory "file:///state": stat /state: no such file or directory`; older
/// CLIs call it a bucket.
fn missing_folder(line: &str) -> Option<&str> {
    let (_, cause) = line
        .split_once("unable to open state directory")
        .or_else(|| line.split_once("unable to open bucket file://"))?;
    let (_, path) = cause.split_once(": stat ")?;
    let (path, _) = path.split_once(": no such file or directory")?;
    Some(path)
}

/// `mkdir /state/.pulumi: permission denied`, or another call of the system.
fn denied_folder(line: &str) -> Option<&str> {
    let (before, _) = line
        .split_once(": permission denied")
        .or_else(|| line.split_once(": read-only file system"))?;
    let path = before.rsplit(' ').next()?;
    let (folder, _) = path.split_once("/.pulumi")?;
    folder.starts_with('/').then_some(folder)
}

/// The first that fits.
pub(super) fn recognise(stdout: &str, stderr: &str) -> Option<&'static Known> {
    let printed = |text: &str| stdout.contains(text) || stderr.contains(text);
    let complained = |text: &str| {
        let mut complaints = stderr.lines().filter(|line| line.starts_with("error:"));
        complaints.any(|line| line.contains(text))
    };
    let anywhere = ANYWHERE
        .iter()
        .find(|known| known.texts.iter().any(|text| printed(text)));
    anywhere.or_else(|| {
        COMPLAINTS
            .iter()
            .find(|known| known.texts.iter().any(|text| complained(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(stdout: &str, stderr: &str) -> Option<ErrorClass> {
        recognise(stdout, stderr).map(|known| known.class)
    }

    #[test]
    fn what_the_cli_really_prints() {
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
    fn what_a_program_prints_is_no_complaint_of_the_cli() {
        let program = "  error: dial tcp: connection refused\n passphrase must be set with";
        assert_eq!(class(program, ""), None);
        assert_eq!(class("", "warning: connection refused"), None);
        // As upstream: these two are looked for everywhere.
        assert_eq!(
            class("invalid access token", ""),
            Some(ErrorClass::Authentication)
        );
    }

    #[test]
    fn state_folder_advice_names_the_volume_to_mount() {
        for (complaint, folder) in [
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
            let advice = state_folder_advice(&format!("Logging in\nerror: {complaint}\n"));
            match folder {
                Some(folder) => {
                    let start = format!("the state needs a volume at {folder} that");
                    assert!(advice.unwrap().starts_with(&start), "{complaint}");
                }
                None => assert_eq!(advice, None, "{complaint}"),
            }
            let of_program = format!("  error: {complaint}");
            assert_eq!(state_folder_advice(&of_program), None, "{complaint}");
        }
    }

    #[test]
    fn the_conflict_wins() {
        let both = "invalid access token; Conflict: Another update is currently in progress";
        assert_eq!(class(both, ""), Some(ErrorClass::Conflict));
    }
}
