//! The history record of a run.

use std::collections::BTreeMap;

use pulumi_engine_deploy::deployment::{Ending, Outcome};
use pulumi_engine_model::VERSION;
use pulumi_engine_state::history::Record;
use serde_json::{Map, Value};

use super::session::StackSession;
use crate::args::OperationArgs;

pub(super) fn record(
    kind: &str,
    arguments: &OperationArgs,
    session: &StackSession<'_>,
    outcome: &Outcome,
    start_time: i64,
    end_time: i64,
) -> Record {
    let config: Map<String, Value> = session
        .config
        .iter()
        .map(|(key, resolved)| (key.to_string(), resolved.stored.clone()))
        .collect();
    let changes = outcome
        .changes
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    Record {
        kind: kind.to_owned(),
        start_time,
        message: arguments.message.clone(),
        environment: environment(arguments),
        config,
        version: 0,
        result: if outcome.ending == Ending::Succeeded {
            "succeeded"
        } else {
            "failed"
        }
        .to_owned(),
        end_time,
        resource_changes: changes.collect(),
    }
}

fn environment(arguments: &OperationArgs) -> BTreeMap<String, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fixed = [
        ("pulumi.arch", architecture),
        ("pulumi.os", std::env::consts::OS),
        ("pulumi.version", VERSION),
        ("runtime.name", "yaml"),
        ("stack.environments", "[]"),
        ("updatePlan", "false"),
    ];
    let given = [
        ("exec.kind", &arguments.exec_kind),
        ("exec.agent", &arguments.exec_agent),
    ];
    fixed
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .chain(
            given
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))),
        )
        .collect()
}
