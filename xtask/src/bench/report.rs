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
}

/// A line for each.
pub(super) fn print(figures: &[Figure]) {
    for figure in figures {
        println!("{}", line(figure));
    }
}

fn line(figure: &Figure) -> String {
    let Figure { name, value, unit } = figure;
    let value = if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    };
    format!("{name:<52} {value:>10} {unit}")
}

/// An object with a field for each.
pub(super) fn write(figures: &[Figure], file: &Path) -> anyhow::Result<()> {
    let fields: Map<String, Value> = figures
        .iter()
        .map(|figure| {
            (
                figure.name.to_owned(),
                json!({"value": figure.value, "unit": figure.unit}),
            )
        })
        .collect();
    let text = serde_json::to_string_pretty(&fields)?;
    std::fs::write(file, text + "\n").with_context(|| format!("failed to write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_name_value_and_unit() {
        let figure = |value| Figure {
            name: "size",
            value,
            unit: "MB",
        };
        assert!(line(&figure(12.0)).ends_with("        12 MB"));
        assert!(line(&figure(1.234)).starts_with("size "));
        assert!(line(&figure(1.234)).ends_with(" 1.23 MB"));
    }
}
