//! The cause of a failure, from the end of a container's log: an agent's error as one sentence, or
//! the last lines of any other log. No I/O.

use serde_json::Value;

use crate::plain_text::plain;

/// Enough to explain a failure in a status.
const MAX_LINES: usize = 10;
/// The levels that zap and tracing write, from the least to the most severe.
const LEVELS: [&str; 8] = [
    "trace", "debug", "info", "warn", "error", "dpanic", "panic", "fatal",
];

/// The end of a log. From lines of a logger, the message of the last error, or the last message if
/// there is no error. Plain lines after them come from a program that crashed, and take precedence.
#[must_use]
pub fn end_of_log(log: &str) -> String {
    let log = plain(log);
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let entries: Vec<Option<Entry>> = lines.iter().map(|line| Entry::parse(line)).collect();
    let after_entries = entries
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |at| at + 1);
    match lines.get(after_entries..) {
        Some(rest) if !rest.is_empty() => last_lines(rest),
        _ => last_error(entries.into_iter().flatten().collect()),
    }
}

fn last_error(mut entries: Vec<Entry>) -> String {
    let error = entries.iter().rposition(|entry| entry.is_error);
    let entry = match error {
        Some(at) => Some(entries.swap_remove(at)),
        None => entries.pop(),
    };
    entry.map(Entry::into_sentence).unwrap_or_default()
}

fn last_lines(lines: &[&str]) -> String {
    let first = lines.len().saturating_sub(MAX_LINES);
    let last = lines.get(first..).unwrap_or_default();
    last.join("\n").trim().to_owned()
}

/// A line of a logger.
struct Entry {
    is_error: bool,
    message: String,
    error: Option<String>,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        Self::parse_columns(line).or_else(|| Self::parse_json(line))
    }

    /// `time<TAB>level<TAB>logger<TAB>message<TAB>{fields}`, the format of both agents.
    fn parse_columns(line: &str) -> Option<Self> {
        let mut columns = line.split('\t');
        let time = columns.next()?;
        let is_error = is_error(columns.next()?)?;
        let (_logger, message) = (columns.next()?, columns.next()?);
        let fields = columns.next().map(serde_json::from_str::<Value>);
        let fields = fields.and_then(Result::ok).unwrap_or_default();
        time.starts_with(|first: char| first.is_ascii_digit())
            .then(|| Self {
                is_error,
                // The agents escape line breaks in messages.
                message: message.replace("\\n", "\n"),
                error: text(&fields, "error"),
            })
    }

    /// A JSON object with a level and a message.
    fn parse_json(line: &str) -> Option<Self> {
        let fields = line.trim_start().starts_with('{').then_some(line)?;
        let fields: Value = serde_json::from_str(fields).ok()?;
        Some(Self {
            is_error: is_error(fields.get("level")?.as_str()?)?,
            message: text(&fields, "msg").or_else(|| text(&fields, "message"))?,
            error: text(&fields, "error"),
        })
    }

    fn into_sentence(self) -> String {
        match self.error {
            Some(error) if !self.message.contains(&error) => format!("{}: {error}", self.message),
            _ => self.message,
        }
    }
}

/// Whether a level is that of an error; `None` if the text is not a level.
fn is_error(level: &str) -> Option<bool> {
    let level = level.to_ascii_lowercase();
    let rank = LEVELS.iter().position(|name| *name == level)?;
    Some(rank >= LEVELS.iter().position(|name| *name == "error")?)
}

fn text(fields: &Value, name: &str) -> Option<String> {
    let text = fields.get(name)?.as_str()?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_log_ends_with_one_sentence() {
        let fetch = "2026-11-18T12:00:00.000Z\tINFO\tcmd.init\tfetching\t{\"url\": \"http://x\"}";
        for (what, log, expected) in [
            (
                "ours",
                format!(
                    "{fetch}\n2026-11-18T12:00:01.000Z\tERROR\tcmd.init\tfailed to fetch the artifact: 404\n"
                ),
                "failed to fetch the artifact: 404",
            ),
            (
                "upstream's, whose error is a field",
                format!(
                    "{fetch}\n2026-11-18T12:00:01.000+0000\tERROR\tcmd.init\tinit failed\t{{\"error\": \"no such host\"}}"
                ),
                "init failed: no such host",
            ),
            (
                "an error that is followed by what it leads to",
                format!(
                    "2026-11-18T12:00:01.000Z\tERROR\tserver\tno journal\n{}",
                    "2026-11-18T12:00:02.000Z\tINFO\tserver\tending"
                ),
                "no journal",
            ),
            (
                "a message of several lines",
                "2026-11-18T12:00:01.000Z\tERROR\tcmd.init\tunknown host\\nadd this line".to_owned(),
                "unknown host\nadd this line",
            ),
            (
                "no error at all",
                format!("{fetch}\n"),
                "fetching",
            ),
            (
                "JSON",
                r#"{"level":"info","msg":"begin"}
{"level":"error","ts":1.5,"logger":"setup","msg":"failed to start","error":"address in use"}
{"level":"info","msg":"end"}"#
                    .to_owned(),
                "failed to start: address in use",
            ),
            (
                "colors",
                "2026-11-18T12:00:01.000Z\t\u{1b}[31mERROR\u{1b}[0m\tcmd.init\tno \u{1b}[1mway\u{1b}[0m"
                    .to_owned(),
                "no way",
            ),
        ] {
            assert_eq!(end_of_log(&log), expected, "{what}");
        }
    }

    #[test]
    fn plain_lines_after_an_agent_log_are_the_cause() {
        let log = "2026-11-18T12:00:01.000Z\tERROR\tserver\tearlier\n\
                   thread 'main' panicked at src/main.rs:1:\nno way";
        let expected = "thread 'main' panicked at src/main.rs:1:\nno way";
        assert_eq!(end_of_log(log), expected);
        // The kubelet stores the end of a log, which may start within a line.
        let log = "NFO\tcmd.init\tcut off\n2026-11-18T12:00:01.000Z\tERROR\tcmd.init\tno way";
        assert_eq!(end_of_log(log), "no way");
    }

    #[test]
    fn other_logs_end_with_their_last_lines() {
        assert_eq!(end_of_log(""), "");
        assert_eq!(
            end_of_log("\n cloning\nfatal: no such branch\n\n"),
            "cloning\nfatal: no such branch"
        );
        let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
        let end = end_of_log(&lines.join("\n"));
        assert!(
            end.starts_with("line 40\n") && end.ends_with("line 49"),
            "{end}"
        );
        for text in [
            "a\tb\tc\td",
            "{\"level\": 3}",
            "{not json",
            "{\"level\":\"odd\",\"msg\":\"m\"}",
        ] {
            assert_eq!(end_of_log(text), text);
        }
    }
}
