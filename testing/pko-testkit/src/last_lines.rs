//! The last lines of a program's output, for an error message.

const LINES: usize = 25;

pub(crate) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    lines
        .into_iter()
        .skip(skipped)
        .flat_map(|line| ["  ", line, "\n"])
        .collect()
}
