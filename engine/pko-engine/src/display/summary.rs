//! The summary of a run.

use std::fmt::Write as _;

use pulumi_engine_deploy::plan::{Changes, Operation};

use super::{
    Options,
    palette::{Color, color},
    words::{done, sign},
};

/// Operations in the order in which they are counted.
const COUNTED: [Operation; 7] = [
    Operation::Create,
    Operation::Update,
    Operation::Delete,
    Operation::Replace,
    Operation::Refresh,
    Operation::Discard,
    Operation::Import,
];

/// Formats the summary. A preview shows no duration.
pub(super) fn summary(
    options: &Options,
    changes: &Changes,
    errored: usize,
    seconds: Option<u64>,
) -> String {
    let colors = options.colors;
    let mut out = colors.paint(Color::Headline, "Resources:");
    out.push('\n');
    let counts = COUNTED.iter().filter_map(|operation| {
        let count = changes.get(operation.name())?;
        Some((*operation, *count))
    });
    let counts: Vec<_> = counts.collect();
    for (operation, count) in &counts {
        let word = match seconds {
            Some(_) => done(*operation).to_owned(),
            None => format!("to {}", operation.name()),
        };
        let text = format!("{}{count} {word}", sign(*operation));
        _ = writeln!(out, "    {}", colors.paint(color(*operation), &text));
    }
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let mut pieces = Vec::new();
    if counts.len() > 1 {
        pieces.push(colors.paint(Color::Strong, &format!("{total} changes")));
    }
    if let Some(same) = changes.get("same").filter(|same| **same > 0) {
        pieces.push(format!("{same} unchanged"));
    }
    if !pieces.is_empty() {
        _ = writeln!(out, "    {}", pieces.join(". "));
    }
    if errored > 0 {
        let text = colors.paint(Color::Red, &format!("{errored} errored"));
        _ = writeln!(out, "    {text}");
    }
    if let Some(seconds) = seconds {
        let title = colors.paint(Color::Headline, "Duration:");
        _ = writeln!(out, "\n{title} {}", duration(seconds));
    }
    out
}

/// Formats as `1h2m3s`, without leading zero units.
#[must_use]
pub(crate) fn duration(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_totals_several_changes() {
        let changes = Changes::from([("create", 2), ("delete", 1), ("same", 3)]);
        let shown = summary(&Options::default(), &changes, 1, Some(65));
        assert_eq!(
            shown,
            "Resources:\n    + 2 created\n    - 1 deleted\n    3 changes. 3 unchanged\n    1 errored\n\nDuration: 1m5s\n"
        );
        let planned = summary(
            &Options::default(),
            &Changes::from([("create", 1)]),
            0,
            None,
        );
        assert_eq!(planned, "Resources:\n    + 1 to create\n");
    }

    #[test]
    fn summary_duration_uses_hours() {
        assert_eq!(duration(3_600), "1h0m0s");
    }
}
