//! A Program as the source of a Stack.

use pko_api::{Decoded, Program, Stack, auto::v1alpha1::FluxArtifact, pulumi::v1::Artifact};

use super::{Location, ProgramSource, SourceError};
use crate::program::is_published;

/// The source for a Program.
///
/// # Errors
/// The Program does not exist, does not decode, or has no archive yet.
pub fn program_source(
    stack: &Stack,
    name: &str,
    program: Option<&Decoded<Program>>,
) -> Result<ProgramSource, SourceError> {
    let unavailable = SourceError::Unavailable;
    // Upstream's users match on its beginning.
    let missing =
        || format!("unable to retrieve program for stack: Program \"{name}\" does not exist");
    let program = program.ok_or_else(|| unavailable(missing()))?;
    let program = program
        .as_result()
        .map_err(|bad| unavailable(format!("Program \"{name}\": {}", bad.error)))?;
    let status = program.status.as_ref();
    let published = is_published(program);
    let artifact = match status.and_then(|status| status.artifact.clone()) {
        Some(artifact) if published || is_last_artifact(stack, program, &artifact) => artifact,
        None if published => {
            let message = format!("Program \"{name}\" has no artifact");
            return Err(unavailable(message));
        }
        // Its controller is about to publish it, which is not a failure.
        _ => {
            let message = format!("waiting for Program \"{name}\" to be published");
            return Err(SourceError::Pending(message));
        }
    };
    Ok(ProgramSource {
        revision: artifact.revision,
        location: Location::Artifact(FluxArtifact {
            url: Some(artifact.url),
            digest: artifact.digest,
            dir: None,
        }),
    })
}

/// Whether the artifact is of an older generation, which the last update ran. Then an edited
/// Program changes nothing until its new archive exists.
fn is_last_artifact(stack: &Stack, program: &Program, artifact: &Artifact) -> bool {
    let last = stack
        .status
        .as_ref()
        .and_then(|status| status.last_update.as_ref());
    let generation = program.metadata.generation.unwrap_or_default();
    artifact.revision != generation.to_string()
        && last.is_some_and(|last| last.last_attempted_commit.as_ref() == Some(&artifact.revision))
}

/// Whether a Stack has run a later generation than that of this Program. Then the Program is stale,
/// or it was deleted and created again: only a live read tells. An old program would undo what the
/// new one has done.
#[must_use]
pub fn is_behind(program: &Decoded<Program>, stack: &Stack) -> bool {
    let status = stack.status.as_ref();
    let last = status.and_then(|status| status.last_update.as_ref());
    let current = status.and_then(|status| status.current_update.as_ref());
    let reached = [
        last.and_then(|last| last.last_attempted_commit.as_deref()),
        current.and_then(|current| current.commit.as_deref()),
    ];
    let reached = reached
        .into_iter()
        .flatten()
        .filter_map(|revision| revision.parse::<i64>().ok());
    let program = program.as_result().ok();
    let generation = program.and_then(|program| program.metadata.generation);
    generation.is_some_and(|generation| reached.max() > Some(generation))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stack(last_revision: Option<&str>) -> Stack {
        let mut stack = json!({ "metadata": { "name": "s" }, "spec": { "stack": "dev" } });
        if let Some(revision) = last_revision {
            stack["status"] = json!({ "lastUpdate": { "lastAttemptedCommit": revision } });
        }
        serde_json::from_value(stack).unwrap()
    }

    /// A Program of generation 2 with this status.
    fn program(status: &Value) -> Decoded<Program> {
        let program = json!({ "metadata": { "name": "p", "generation": 2 }, "status": status });
        Decoded::from_value(program).unwrap()
    }

    fn status(generation: i64) -> Value {
        let time = "2026-01-01T00:00:00Z";
        let artifact = json!({
            "path": "p", "url": "http://p", "revision": generation.to_string(),
            "digest": "sha256:a", "lastUpdateTime": time,
        });
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Published", "message": "",
            "observedGeneration": generation, "lastTransitionTime": time,
        });
        json!({ "observedGeneration": generation, "artifact": artifact, "conditions": [ready] })
    }

    #[test]
    fn published_program_revision_is_its_generation() {
        let source = program_source(&stack(None), "p", Some(&program(&status(2)))).unwrap();
        assert_eq!(source.revision, "2");
        let Location::Artifact(artifact) = source.location else {
            panic!("an artifact")
        };
        assert_eq!(artifact.url.as_deref(), Some("http://p"));
        assert_eq!(artifact.digest.as_deref(), Some("sha256:a"));
    }

    #[test]
    fn edited_program_keeps_revision_until_published() {
        let edited = program(&status(1));
        let source = program_source(&stack(Some("1")), "p", Some(&edited)).unwrap();
        assert_eq!(source.revision, "1");
        // The old archive is no longer served, so no new run may start with it.
        for last in [None, Some("0")] {
            let problem = program_source(&stack(last), "p", Some(&edited)).unwrap_err();
            assert!(matches!(problem, SourceError::Pending(_)), "{problem:?}");
        }
    }

    #[test]
    fn program_that_upstream_published_is_waited_for() {
        let mut of_upstream = status(2);
        of_upstream["conditions"] = json!([]);
        let of_upstream = program(&of_upstream);
        for last in [None, Some("2")] {
            let problem = program_source(&stack(last), "p", Some(&of_upstream)).unwrap_err();
            assert!(matches!(problem, SourceError::Pending(_)), "{problem:?}");
        }
    }

    #[test]
    fn older_program_generation_than_last_run_is_stale() {
        let at = |last: Value, current: Value| -> Stack {
            let stack = json!({
                "metadata": { "name": "s" }, "spec": { "stack": "dev" },
                "status": { "lastUpdate": last, "currentUpdate": current },
            });
            serde_json::from_value(stack).unwrap()
        };
        let last = |revision: &str| json!({ "lastAttemptedCommit": revision });
        let current = |revision: &str| json!({ "name": "u", "commit": revision });
        let none = Value::Null;
        let commit = "3af1c0de5b6a4f8e9d2c7b1a0f3e5d4c6b8a9e7f";
        let table = [
            ("it never ran", none.clone(), none.clone(), false),
            ("it ran with the one before", last("1"), none.clone(), false),
            ("it ran with this one", last("2"), none.clone(), false),
            ("it ran with a later one", last("3"), none.clone(), true),
            ("it runs with a later one", last("1"), current("3"), true),
            ("it runs with this one", last("1"), current("2"), false),
            ("it ran from git", last(commit), none, false),
        ];
        for (what, last, current, expected) in table {
            let stack = at(last, current);
            assert_eq!(is_behind(&program(&status(2)), &stack), expected, "{what}");
        }
        assert!(!is_behind(&program(&status(2)), &stack(None)));
    }

    #[test]
    fn unpublished_program_is_awaited() {
        let problem = program_source(&stack(None), "p", Some(&program(&json!({})))).unwrap_err();
        let message = "waiting for Program \"p\" to be published".to_owned();
        assert_eq!(problem, SourceError::Pending(message));
    }

    #[test]
    fn missing_program_is_reported() {
        let message = |program: Option<Decoded<Program>>| match program_source(
            &stack(None),
            "p",
            program.as_ref(),
        ) {
            Err(SourceError::Unavailable(message)) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            message(None),
            "unable to retrieve program for stack: Program \"p\" does not exist"
        );
        let mut empty = status(2);
        empty["artifact"] = Value::Null;
        let empty = program(&empty);
        assert_eq!(message(Some(empty)), "Program \"p\" has no artifact");
        let bad = json!({ "metadata": { "name": "p" }, "program": { "resources": [] } });
        let message = message(Some(Decoded::from_value(bad).unwrap()));
        assert!(
            message.starts_with("Program \"p\": program.resources"),
            "{message}"
        );
    }
}
