//! Prints figures and writes them as JSON.

use std::{fs, path::Path, thread};

use anyhow::Context;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// The id of a performance goal, such as `P5`.
    id: Option<&'static str>,
    name: String,
    value: f64,
    unit: &'static str,
    /// Upstream's figure, if known.
    upstream: Option<f64>,
    goal: Option<Goal>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            id: None,
            name: name.into(),
            value,
            unit,
            upstream: None,
            goal: None,
        }
    }

    pub(super) fn of(mut self, id: &'static str) -> Self {
        self.id = Some(id);
        self
    }

    /// The goal is at most this part of upstream's figure.
    pub(super) fn against(self, upstream: f64, part: f64) -> Self {
        self.upstream(upstream).at_most(upstream * part)
    }

    pub(super) fn upstream(mut self, value: f64) -> Self {
        self.upstream = Some(value);
        self
    }

    pub(super) fn at_most(mut self, value: f64) -> Self {
        self.goal = Some(Goal::AtMost(value));
        self
    }

    pub(super) fn at_least(mut self, value: f64) -> Self {
        self.goal = Some(Goal::AtLeast(value));
        self
    }

    fn key(&self) -> String {
        self.id.map_or_else(|| self.name.clone(), str::to_owned)
    }
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}", short(most)),
            Self::AtLeast(least) => format!("at least {}", short(least)),
        }
    }
}

pub(super) fn print(figures: &[Figure]) {
    for figure in figures {
        println!("{}", line(figure));
    }
}

fn line(figure: &Figure) -> String {
    let Figure {
        id,
        name,
        value,
        unit,
        ..
    } = figure;
    let id = id.unwrap_or_default();
    let own = format!("{id:<10} {name:<60} {:>8} {unit:<5}", short(*value));
    let upstream = figure.upstream.map(|upstream| {
        let (ratio, upstream) = (value / upstream, short(upstream));
        format!("upstream {upstream}, ratio {ratio:.2};")
    });
    let goal = figure.goal.map(|goal| {
        let is_met = goal.is_met(*value);
        let verdict = if is_met { "met" } else { "not met" };
        format!("goal {}: {verdict}", goal.text())
    });
    let parts = [Some(own), upstream, goal].into_iter().flatten();
    let line = parts.collect::<Vec<_>>().join(" ");
    line.trim_end().trim_end_matches(';').to_owned()
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Writes `{"machine": …, "figures": {"P5": {"ours": 19, …}, …}}`.
pub(super) fn write(figures: &[Figure], file: &Path) -> anyhow::Result<()> {
    let figures: Map<String, Value> = figures
        .iter()
        .map(|figure| (figure.key(), object(figure)))
        .collect();
    let report = json!({ "machine": machine(), "figures": figures });
    let text = serde_json::to_string_pretty(&report)?;
    fs::write(file, text + "\n").with_context(|| format!("failed to write {}", file.display()))
}

/// Figures of different machines, or of a busy machine, do not compare.
fn machine() -> Value {
    let word = |file: &str| fs::read_to_string(file).unwrap_or_default();
    json!({
        "processors": thread::available_parallelism().map_or(0, usize::from),
        "kernel": word("/proc/sys/kernel/osrelease").trim_end(),
        "load": word("/proc/loadavg").split(' ').next(),
    })
}

fn object(figure: &Figure) -> Value {
    let Figure {
        name, value, unit, ..
    } = figure;
    let mut fields = vec![
        ("name", json!(name)),
        ("ours", json!(value)),
        ("unit", json!(unit)),
    ];
    if let Some(upstream) = figure.upstream {
        fields.push(("upstream", json!(upstream)));
        fields.push(("ratio", json!(value / upstream)));
    }
    if let Some(goal) = figure.goal {
        let goal_object = match goal {
            Goal::AtMost(most) => json!({ "atMost": most }),
            Goal::AtLeast(least) => json!({ "atLeast": least }),
        };
        fields.push(("goal", goal_object));
        fields.push(("met", json!(goal.is_met(*value))));
    }
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_line_has_name_value_and_unit() {
        let figure = |value| Figure::new("size", value, "MB");
        assert!(line(&figure(12.0)).ends_with("      12 MB"));
        assert!(line(&figure(1.234)).trim_start().starts_with("size "));
        assert!(line(&figure(1.234)).ends_with(" 1.23 MB"));
    }

    #[test]
    fn figure_is_compared_with_upstream() {
        let figure = Figure::new("size", 15.0, "MB").of("P15").against(60.0, 0.3);
        assert!(line(&figure).starts_with("P15 "));
        assert!(
            line(&figure).ends_with(" upstream 60, ratio 0.25; goal at most 18: met"),
            "{}",
            line(&figure)
        );
        assert_eq!(
            object(&figure),
            json!({
                "name": "size", "ours": 15.0, "unit": "MB", "upstream": 60.0, "ratio": 0.25,
                "goal": { "atMost": 18.0 }, "met": true,
            })
        );
    }

    #[test]
    fn figure_goal_can_be_a_minimum() {
        let figure = Figure::new("rate", 15.0, "a minute").at_least(20.0);
        assert!(line(&figure).ends_with("goal at least 20: not met"));
        assert_eq!(object(&figure)["met"], json!(false));
        assert_eq!(figure.key(), "rate");
        assert_eq!(figure.of("P10").key(), "P10");
    }
}
