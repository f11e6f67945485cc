//! The subscriber layer that writes log lines.

use std::{fmt::Write as _, io::Write as _};

use jiff::Timestamp;
use serde_json::Value;
use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    fmt::MakeWriter,
    layer::Context,
    registry::{LookupSpan, Scope},
};

use crate::fields::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEncoding {
    Json,
    /// Columns, separated by tabs.
    Console,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeEncoding {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nanos,
    /// `2026-01-02T03:04:05.678Z`
    Iso8601,
    /// `2026-01-02T03:04:05Z`
    Rfc3339,
    /// `2026-01-02T03:04:05.678901234Z`
    Rfc3339Nano,
}

#[derive(Clone, Copy)]
pub struct LogFormat {
    pub encoding: LogEncoding,
    pub time: TimeEncoding,
    /// Maps the target of an event, which is a Rust module, to the name of upstream's logger.
    pub logger: fn(&str) -> String,
}

/// Writes a line for each event.
pub struct LogLayer<W> {
    format: LogFormat,
    writer: W,
}

impl<W> LogLayer<W> {
    pub fn new(format: LogFormat, writer: W) -> Self {
        Self { format, writer }
    }

    fn line(&self, metadata: &Metadata<'_>, mut fields: Fields) -> String {
        let line = LogLine {
            time: encode_time(self.format.time, Timestamp::now()),
            level: *metadata.level(),
            logger: (self.format.logger)(metadata.target()),
            message: fields.take_message(),
            fields,
        };
        match self.format.encoding {
            LogEncoding::Json => line.to_json(),
            LogEncoding::Console => line.to_console(),
        }
    }
}

impl<S, W> Layer<S> for LogLayer<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = span_fields(context.event_scope(event));
        let mut own = Fields::default();
        event.record(&mut own);
        fields.extend(own);
        let line = self.line(event.metadata(), fields);
        // A closed log must not stop the process.
        let _ = self.writer.make_writer().write_all(line.as_bytes());
    }
}

/// The fields of the spans around an event, from the outermost inwards.
fn span_fields<S>(spans: Option<Scope<'_, S>>) -> Fields
where
    S: for<'span> LookupSpan<'span>,
{
    let mut fields = Fields::default();
    for span in spans.into_iter().flat_map(Scope::from_root) {
        if let Some(others) = span.extensions().get::<Fields>() {
            fields.extend(others.clone());
        }
    }
    fields
}

struct LogLine {
    time: Value,
    level: Level,
    logger: String,
    message: String,
    fields: Fields,
}

impl LogLine {
    fn to_json(&self) -> String {
        let level = if self.level == Level::TRACE {
            "debug".to_owned()
        } else {
            self.level.as_str().to_lowercase()
        };
        let (logger, message) = (Value::from(&*self.logger), Value::from(&*self.message));
        let mut line = format!(
            r#"{{"level":"{level}","ts":{},"logger":{logger},"msg":{message}"#,
            self.time
        );
        for (name, value) in self.fields.iter() {
            let _ = write!(line, ",{}:{value}", Value::from(json_key(name)));
        }
        line.push_str("}\n");
        line
    }

    fn to_console(&self) -> String {
        let time = self
            .time
            .as_str()
            .map_or_else(|| self.time.to_string(), str::to_owned);
        // A message takes one line.
        let message = self.message.replace('\n', "\\n");
        let mut line = format!("{time}\t{}\t{}\t{message}", self.level, self.logger);
        if !self.fields.is_empty() {
            let fields = self.fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{}: {value}", Value::from(*name)))
                .collect();
            let _ = write!(line, "\t{{{}}}", fields.join(", "));
        }
        line.push('\n');
        line
    }
}

/// A field's key, which must differ from the line's own keys.
fn json_key(name: &str) -> &str {
    match name {
        "level" => "level_",
        "ts" => "ts_",
        "logger" => "logger_",
        "msg" => "msg_",
        name => name,
    }
}

fn encode_time(encoding: TimeEncoding, now: Timestamp) -> Value {
    match encoding {
        TimeEncoding::Epoch => now.as_duration().as_secs_f64().into(),
        TimeEncoding::Millis => (now.as_duration().as_secs_f64() * 1000.0).into(),
        TimeEncoding::Nanos => i64::try_from(now.as_nanosecond())
            .unwrap_or(i64::MAX)
            .into(),
        TimeEncoding::Iso8601 => format!("{now:.3}").into(),
        TimeEncoding::Rfc3339 => format!("{now:.0}").into(),
        TimeEncoding::Rfc3339Nano => now.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log_output(encoding: LogEncoding, log: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let format = LogFormat {
            encoding,
            time: TimeEncoding::Rfc3339,
            logger: |target| target.replace("::", "."),
        };
        let layer = LogLayer::new(format, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(buffer.0.lock().clone()).unwrap()
    }

    /// The line, with `T` for its time.
    fn json_output(log: impl FnOnce()) -> String {
        let line = log_output(LogEncoding::Json, log);
        let read: Value = serde_json::from_str(&line).unwrap();
        let time = read["ts"].as_str().unwrap();
        assert!(time.parse::<Timestamp>().unwrap() <= Timestamp::now());
        line.replace(time, "T")
    }

    #[test]
    fn json_line_has_upstream_keys() {
        let line = json_output(|| {
            tracing::info!(target: "a::b", version = "1", good = true, share = 0.5, "Manager started");
        });
        let expected = r#"{"level":"info","ts":"T","logger":"a.b","msg":"Manager started","version":"1","good":true,"share":0.5}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn console_line_has_upstream_columns() {
        let line = log_output(LogEncoding::Console, || {
            tracing::warn!(target: "a::b", count = 2, "a\nb");
        });
        let (_, rest) = line.split_once('\t').unwrap();
        assert_eq!(rest, "WARN\ta.b\ta\\nb\t{\"count\": 2}\n");
        let line = log_output(
            LogEncoding::Console,
            || tracing::info!(target: "kube", "alone"),
        );
        assert!(line.ends_with("\tINFO\tkube\talone\n"), "{line}");
    }

    #[test]
    fn console_fields_are_json() {
        let line = log_output(LogEncoding::Console, || {
            tracing::warn!(target: "x", count = 2, good = true, why = ?"a\tb", share = 0.5, "a");
        });
        let fields = line.rsplit('\t').next().unwrap();
        let expected = r#"{"count": 2, "good": true, "why": "\"a\\tb\"", "share": 0.5}"#;
        assert_eq!(fields, format!("{expected}\n"));
    }

    #[test]
    fn span_fields_are_on_each_line_once() {
        let line = json_output(|| {
            let span = tracing::info_span!(
                "reconcile",
                namespace = "team",
                name = "a",
                rule = tracing::field::Empty
            );
            let _inside = span.enter();
            span.record("rule", "launch");
            tracing::info!(target: "x", name = "b", "Decided");
        });
        let expected = r#"{"level":"info","ts":"T","logger":"x","msg":"Decided","namespace":"team","name":"b","rule":"launch"}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn json_line_is_one_object_for_any_content() {
        let line = json_output(|| {
            tracing::error!(target: "x", level = "mine", msg = "\"\n", why = ?"a\tb", "say \"\n\"");
        });
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(read["level"], "error");
        assert_eq!(read["level_"], "mine");
        assert_eq!(read["msg"], "say \"\n\"");
        assert_eq!(read["msg_"], "\"\n");
        let line = json_output(|| tracing::trace!(target: "x", "deep"));
        assert!(line.starts_with(r#"{"level":"debug""#), "{line}");
    }

    #[test]
    fn time_encodings_are_zaps() {
        let now: Timestamp = "2026-01-02T03:04:05.25Z".parse().unwrap();
        for (encoding, expected) in [
            (TimeEncoding::Epoch, "1767323045.25"),
            (TimeEncoding::Millis, "1767323045250.0"),
            (TimeEncoding::Nanos, "1767323045250000000"),
            (TimeEncoding::Iso8601, "\"2026-01-02T03:04:05.250Z\""),
            (TimeEncoding::Rfc3339, "\"2026-01-02T03:04:05Z\""),
            (TimeEncoding::Rfc3339Nano, "\"2026-01-02T03:04:05.25Z\""),
        ] {
            assert_eq!(
                encode_time(encoding, now).to_string(),
                expected,
                "{encoding:?}"
            );
        }
    }
}
