//! `stack history`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pulumi_engine_model::urn::StackIdentity;
use pulumi_engine_state::history::{self, Record};
use serde::Serialize;
use serde_json::Value;

use super::{context::ProjectContext, pretty};
use crate::display;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryRow {
    version: u64,
    kind: String,
    start_time: Value,
    message: String,
    environment: BTreeMap<String, String>,
    config: BTreeMap<String, super::config::ConfigEntry>,
    result: String,
    end_time: Value,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resource_changes: BTreeMap<String, usize>,
}

/// Prints a page of runs, latest first.
pub(super) fn show(
    context: &ProjectContext,
    stack: &StackIdentity,
    as_json: bool,
    show_secrets: bool,
    skip: usize,
    count: usize,
) -> anyhow::Result<()> {
    context.require(stack)?;
    let records = history::read(&context.backend, stack, skip, count)?;
    if !as_json {
        return tell(&records);
    }
    let file = context.stack_file(stack)?;
    let crypter = || context.crypter(file.salt().unwrap_or_default());
    let mut runs = Vec::new();
    for run in records {
        let mut config = BTreeMap::new();
        for (key, stored) in &run.config {
            let entry = super::config::entry(stored, show_secrets, &crypter)?;
            config.insert(key.clone(), entry);
        }
        runs.push(HistoryRow {
            version: run.version,
            kind: run.kind,
            start_time: history::printed_time(run.start_time),
            message: run.message,
            environment: run.environment,
            config,
            result: run.result,
            end_time: history::printed_time(run.end_time),
            resource_changes: run.resource_changes,
        });
    }
    Ok(display::line(&pretty(&runs)?)?)
}

fn tell(records: &[Record]) -> anyhow::Result<()> {
    if records.is_empty() {
        return Ok(display::line("Stack has never been updated")?);
    }
    let now = Timestamp::now();
    for record in records {
        display::line(&format_run(record, now))?;
    }
    Ok(())
}

/// Formats a run as Pulumi's CLI does.
fn format_run(record: &Record, now: Timestamp) -> String {
    let count = |change: &str| record.resource_changes.get(change).copied().unwrap_or(0);
    let end = Timestamp::from_second(record.end_time).unwrap_or(now);
    // a clock may have been set back
    let seconds = u64::try_from(record.end_time - record.start_time).unwrap_or_default();
    let mut text = format!(
        "Version: {}\nUpdateKind: {}\nStatus: {}\nMessage: {}\n+{}-{}~{} {} Updated {} took {}\n",
        record.version,
        record.kind,
        record.result,
        record.message,
        count("create"),
        count("delete"),
        count("update"),
        count("same"),
        display::ago(end, now),
        display::duration(seconds),
    );
    for (key, value) in &record.environment {
        text.extend(["    ", key, ": ", value, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_run_is_formatted_as_in_cli() {
        let record = Record {
            kind: "update".to_owned(),
            message: "first one".to_owned(),
            result: "succeeded".to_owned(),
            start_time: 1_000,
            end_time: 1_065,
            resource_changes: BTreeMap::from([("create".to_owned(), 2), ("same".to_owned(), 1)]),
            environment: BTreeMap::from([("exec.kind".to_owned(), "cli".to_owned())]),
            ..Record::default()
        };
        let now = Timestamp::from_second(1_066).unwrap();
        assert_eq!(
            format_run(&record, now),
            "Version: 0\nUpdateKind: update\nStatus: succeeded\nMessage: first one\n\
             +2-0~0 1 Updated 1 second ago took 1m5s\n    exec.kind: cli\n"
        );
        assert_eq!(display::duration(7_205), "2h0m5s");
    }
}
