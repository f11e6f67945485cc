//! Tables and times, as Pulumi's CLI prints them.

use std::io;

use jiff::Timestamp;

/// Prints aligned columns, with `indent` before each line.
pub(crate) fn table<const N: usize>(indent: &str, rows: &[[String; N]]) -> io::Result<()> {
    for line in lines(rows) {
        super::line(&format!("{indent}{line}"))?;
    }
    Ok(())
}

fn lines<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Formats a past time, such as `2 hours ago`.
#[must_use]
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    const UNITS: [(i64, &str); 7] = [
        (31_536_000, "year"),
        (2_592_000, "month"),
        (604_800, "week"),
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let seconds = now.as_second() - then.as_second();
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    match unit {
        None => "now".to_owned(),
        Some((length, name)) => match seconds / length {
            1 => format!("1 {name} ago"),
            count => format!("{count} {name}s ago"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_columns_fit_widest_cell() {
        let rows = [["NAME", "VALUE"], ["a", "b"], ["longer", ""]];
        let rows = rows.map(|row| row.map(ToOwned::to_owned));
        assert_eq!(lines(&rows), ["NAME    VALUE", "a       b", "longer"]);
    }

    #[test]
    fn ago_uses_largest_unit() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, text) in [
            (0, "now"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7_200, "2 hours ago"),
            (700_000, "1 week ago"),
            (40_000_000, "1 year ago"),
        ] {
            assert_eq!(ago(at(1_000), at(1_000 + seconds)), text);
        }
    }
}
