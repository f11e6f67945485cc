//! Logs go to standard error, so that standard output stays free. A line looks as upstream's does, for
//! those who read it by machine: time, level, logger, message and fields, with tabs between them.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// Begins to log: what happens, or with `verbose` also how.
pub(crate) fn begin(verbose: bool) {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Whoever reads the log may go away, which is no reason to end.
        .log_internal_errors(false)
        .event_format(Line)
        .init();
}

/// The form of a line.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let (time, level) = (Timestamp::now(), metadata.level());
        let (logger, message) = (logger(metadata), &fields.message);
        write!(writer, "{time:.3}\t{level}\t{logger}\t{message}")?;
        if !fields.rest.is_empty() {
            write!(writer, "\t{{{}}}", fields.rest.join(", "))?;
        }
        writeln!(writer)
    }
}

/// Who says it, in upstream's words.
fn logger(metadata: &Metadata<'_>) -> &'static str {
    const LOGGERS: [(&str, &str); 6] = [
        ("pulumi", "pulumi"),
        ("grpc", "cmd.serve.grpc"),
        ("pko_agent::command::init", "cmd.init"),
        ("pko_agent::command::bootstrap", "cmd.bootstrap"),
        ("pko_agent::command::version", "cmd.version"),
        ("pko_agent::command", "cmd.serve"),
    ];
    let target = metadata.target();
    let named = LOGGERS.iter().find(|(start, _)| target.starts_with(start));
    named.map_or("server", |(_, logger)| logger)
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    /// Each as `"name": value`.
    rest: Vec<String>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &Value) {
        self.rest
            .push(format!("{}: {value}", Value::from(field.name())));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            // A message is one line.
            self.message = text.replace('\n', "\\n");
        } else {
            self.add(field, &text.into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.replace('\n', "\\n");
        } else {
            self.add(field, &value.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged, without the time.
    fn logged(log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(Line)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let (time, rest) = text.split_once('\t').unwrap();
        let time: Timestamp = time.parse().unwrap();
        assert!(time <= Timestamp::now());
        rest.to_owned()
    }

    #[test]
    fn a_line_is_upstreams() {
        let line = logged(|| {
            tracing::info!(target: "pko_agent::command::serve", version = "v2.9.0", "Pulumi Kubernetes Agent");
        });
        assert_eq!(
            line,
            "INFO\tcmd.serve\tPulumi Kubernetes Agent\t{\"version\": \"v2.9.0\"}\n"
        );
    }

    #[test]
    fn fields_are_json_and_a_message_is_one_line() {
        let line = logged(|| {
            tracing::warn!(target: "pulumi", count = 2, good = true, why = ?"a\tb", share = 0.5, "a\nb");
        });
        let expected = r#"{"count": 2, "good": true, "why": "\"a\\tb\"", "share": 0.5}"#;
        assert_eq!(line, format!("WARN\tpulumi\ta\\nb\t{expected}\n"));
    }

    #[test]
    fn loggers_have_upstreams_names() {
        let name = |line: String| line.split('\t').nth(1).unwrap().to_owned();
        assert_eq!(
            name(logged(|| tracing::error!(target: "grpc", "x"))),
            "cmd.serve.grpc"
        );
        assert_eq!(
            name(logged(
                || tracing::error!(target: "pko_agent::command::init", "x")
            )),
            "cmd.init"
        );
        assert_eq!(
            name(logged(|| tracing::error!(target: "pko_agent::run", "x"))),
            "server"
        );
        assert_eq!(logged(|| tracing::info!("alone")), "INFO\tserver\talone\n");
    }
}
