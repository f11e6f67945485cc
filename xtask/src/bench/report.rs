//! Figures as people and programs read them.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// What it is measured against, where that is known.
    pub(super) upstream: Option<Upstream>,
}

/// What upstream's program has, and what we want.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Upstream {
    pub(super) value: f64,
    /// The part of it that we want to have at most.
    pub(super) goal: f64,
}

impl Figure {
    /// A figure that stands for itself.
    pub(super) fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self {
            name,
            value,
            unit,
            upstream: None,
        }
    }

    /// Measures it against upstream's.
    pub(super) fn against(mut self, value: f64, goal: f64) -> Self {
        self.upstream = Some(Upstream { value, goal });
        self
    }
}

/// A line for each.
pub(super) fn print(figures: &[Figure]) {
    for figure in figures {
        println!("{}", line(figure));
    }
}

fn line(figure: &Figure) -> String {
    let Figure {
        name, value, unit, ..
    } = figure;
    let own = format!("{name:<52} {:>10} {unit}", short(*value));
    let Some(upstream) = figure.upstream else {
        return own;
    };
    format!(
        "{own:<72} upstream {:>4}, ratio {:.2}, goal {:.2}",
        short(upstream.value),
        value / upstream.value,
        upstream.goal
    )
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// An object with a field for each.
pub(super) fn write(figures: &[Figure], file: &Path) -> anyhow::Result<()> {
    let fields: Map<String, Value> = figures
        .iter()
        .map(|figure| (figure.name.to_owned(), object(figure)))
        .collect();
    let text = serde_json::to_string_pretty(&fields)?;
    std::fs::write(file, text + "\n").with_context(|| format!("failed to write {}", file.display()))
}

fn object(figure: &Figure) -> Value {
    let Figure { value, unit, .. } = figure;
    match figure.upstream {
        None => json!({ "value": value, "unit": unit }),
        Some(upstream) => json!({
            "value": value,
            "unit": unit,
            "upstream": upstream.value,
            "ratio": value / upstream.value,
            "goal": upstream.goal,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_name_value_and_unit() {
        let figure = |value| Figure::new("size", value, "MB");
        assert!(line(&figure(12.0)).ends_with("        12 MB"));
        assert!(line(&figure(1.234)).starts_with("size "));
        assert!(line(&figure(1.234)).ends_with(" 1.23 MB"));
    }
    #[test]
    fn a_figure_is_measured_against_upstreams() {
        let figure = Figure::new("size", 15.0, "MB").against(60.0, 0.3);
        assert!(line(&figure).contains(" 15 MB "));
        assert!(line(&figure).ends_with(" upstream   60, ratio 0.25, goal 0.30"));
        assert_eq!(
            object(&figure),
            json!({ "value": 15.0, "unit": "MB", "upstream": 60.0, "ratio": 0.25, "goal": 0.3 })
        );
    }
}
