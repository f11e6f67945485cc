//! What `pulumi` prints without what only a terminal understands: colors and other escape
//! sequences. The CLI's hosts for languages color their complaints wherever these go.

/// The text without escape sequences and control characters; line breaks and tabs stay. A sequence
/// that does not end costs no more than its line.
pub(super) fn plain(text: &str) -> String {
    let lines = text.split('\n');
    let lines = lines.map(|line| anstream::adapter::strip_str(line).to_string());
    lines.collect::<Vec<_>>().join("\n")
}
