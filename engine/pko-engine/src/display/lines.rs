//! Line diffs of multi-line strings.

/// A line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Beyond this many comparisons, everything between the first and the last difference is replaced.
const LIMIT: usize = 4_000_000;

/// The lines of both strings, in order, without empty ones.
pub(super) fn compare<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let lines = |text: &'a str| -> Vec<&'a str> { text.split('\n').collect() };
    let (old, new) = (lines(old), lines(new));
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let own = old.iter().rev().zip(new.iter().rev()).take(rest);
    let end = own.take_while(|(a, b)| a == b).count();
    let part = |lines: &[&'a str]| -> Vec<&'a str> {
        let middle = lines.get(start..lines.len() - end);
        middle.map(<[_]>::to_vec).unwrap_or_default()
    };
    let before = old.iter().take(start).map(|line| Line::Same(line));
    let after = old.iter().skip(old.len() - end);
    let all = before
        .chain(middle(&part(&old), &part(&new)))
        .chain(after.map(|line| Line::Same(line)));
    all.filter(|line| !is_blank(*line)).collect()
}

fn is_blank(line: Line<'_>) -> bool {
    let (Line::Same(text) | Line::Old(text) | Line::New(text)) = line;
    text.trim().is_empty()
}

/// Diffs by the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > LIMIT {
        let gone = old.iter().map(|line| Line::Old(line));
        return gone.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let common = common_lengths(old, new);
    let length = |row: usize, column: usize| -> usize {
        let row = common.get(row);
        row.and_then(|row| row.get(column)).copied().unwrap_or(0)
    };
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    loop {
        match (old.get(row), new.get(column)) {
            (Some(before), Some(after)) if before == after => {
                lines.push(Line::Same(before));
                (row, column) = (row + 1, column + 1);
            }
            (Some(before), after)
                if after.is_none() || length(row + 1, column) >= length(row, column + 1) =>
            {
                lines.push(Line::Old(before));
                row += 1;
            }
            (_, Some(after)) => {
                lines.push(Line::New(after));
                column += 1;
            }
            _ => return lines,
        }
    }
}

/// The length of the longest common subsequence from each pair of lines.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; new.len() + 1]];
    for before in old.iter().rev() {
        let below = table.last().cloned().unwrap_or_default();
        let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(0);
        let mut row = vec![0; new.len() + 1];
        for (column, after) in new.iter().enumerate().rev() {
            let length = if before == after {
                at(&below, column + 1) + 1
            } else {
                at(&below, column).max(at(&row, column + 1))
            };
            if let Some(place) = row.get_mut(column) {
                *place = length;
            }
        }
        table.push(row);
    }
    table.reverse();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_diff_marks_changed_lines() {
        assert_eq!(
            compare("a\nb\n\nc\nd\n", "a\nc\nx\nd\n"),
            [
                Line::Same("a"),
                Line::Old("b"),
                Line::Same("c"),
                Line::New("x"),
                Line::Same("d")
            ]
        );
        assert_eq!(compare("", "a"), [Line::New("a")]);
        assert_eq!(compare("a", ""), [Line::Old("a")]);
    }

    #[test]
    fn line_diff_of_long_strings_is_bounded() {
        let text = |word: &str| {
            let lines: Vec<_> = (0..3000).map(|number| format!("{word}{number}")).collect();
            lines.join("\n")
        };
        let (old, new) = (text("a"), text("b"));
        assert_eq!(compare(&old, &new).len(), 6000);
    }
}
