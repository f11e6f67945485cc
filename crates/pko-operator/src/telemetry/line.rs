//! A log line in the format of upstream's: time, level, logger and message, then the fields of the
//! enclosing spans and of the event.

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

use super::fields::Fields;
use crate::args::{LogEncoding, TimeEncoding};

pub(super) struct LogLayer<W> {
    encoding: LogEncoding,
    time: TimeEncoding,
    writer: W,
}

impl<W> LogLayer<W> {
    pub(super) fn new(encoding: LogEncoding, time: TimeEncoding, writer: W) -> Self {
        Self {
            encoding,
            time,
            writer,
        }
    }

    fn line(&self, metadata: &Metadata<'_>, mut fields: Fields) -> String {
        let line = LogLine {
            time: encode_time(self.time, Timestamp::now()),
            level: *metadata.level(),
            logger: logger(metadata.target()),
            message: fields.take_message(),
            fields,
        };
        match self.encoding {
            LogEncoding::Json => line.json(),
            LogEncoding::Console => line.console(),
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
        // A closed standard output must not end the manager.
        let _ = self.writer.make_writer().write_all(line.as_bytes());
    }
}

/// The fields of the enclosing spans, outermost first.
fn span_fields<S>(spans: Option<Scope<'_, S>>) -> Fields
where
    S: for<'span> LookupSpan<'span>,
{
    let mut fields = Fields::default();
    for span in spans.into_iter().flat_map(Scope::from_root) {
        if let Some(known) = span.extensions().get::<Fields>() {
            fields.extend(known.clone());
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
    fn json(&self) -> String {
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
            let _ = write!(line, ",{}:{value}", Value::from(key(name)));
        }
        line.push_str("}\n");
        line
    }

    fn console(&self) -> String {
        let time = self
            .time
            .as_str()
            .map_or_else(|| self.time.to_string(), str::to_owned);
        // Keeps a message on one line.
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

/// Avoids the names of the line's own fields.
fn key(name: &str) -> &str {
    match name {
        "level" => "level_",
        "ts" => "ts_",
        "logger" => "logger_",
        "msg" => "msg_",
        name => name,
    }
}

/// The module, or the crate of a library.
fn logger(target: &str) -> String {
    let target = target.strip_prefix("manager::").unwrap_or(target);
    match target {
        "start" | "manager" => "setup".to_owned(),
        target => target.replace("::", "."),
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

    fn logged(encoding: LogEncoding, log: impl FnOnce()) -> String {
        let kept = LogBuffer::default();
        let writer = kept.clone();
        let lines = LogLayer::new(encoding, TimeEncoding::Rfc3339, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(kept.0.lock().clone()).unwrap()
    }

    fn json(log: impl FnOnce()) -> String {
        let line = logged(LogEncoding::Json, log);
        let read: Value = serde_json::from_str(&line).unwrap();
        let time = read["ts"].as_str().unwrap();
        assert!(time.parse::<Timestamp>().unwrap() <= Timestamp::now());
        line.replace(time, "T")
    }

    #[test]
    fn log_line_in_json_is_upstreams() {
        let line = json(|| {
            tracing::info!(target: "manager::start", version = "1", good = true, share = 0.5, "Manager started");
        });
        let expected = r#"{"level":"info","ts":"T","logger":"setup","msg":"Manager started","version":"1","good":true,"share":0.5}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn log_line_in_columns_is_upstreams() {
        let line = logged(LogEncoding::Console, || {
            tracing::warn!(target: "manager::controllers::stack", count = 2, "a\nb");
        });
        let (_, rest) = line.split_once('\t').unwrap();
        assert_eq!(rest, "WARN\tcontrollers.stack\ta\\nb\t{\"count\": 2}\n");
        let line = logged(
            LogEncoding::Console,
            || tracing::info!(target: "kube", "alone"),
        );
        assert!(line.ends_with("\tINFO\tkube\talone\n"), "{line}");
    }

    #[test]
    fn log_line_has_span_fields_once() {
        let line = json(|| {
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
    fn log_line_is_one_json_object() {
        let line = json(|| {
            tracing::error!(target: "x", level = "mine", msg = "\"\n", why = ?"a\tb", "say \"\n\"");
        });
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(read["level"], "error");
        assert_eq!(read["level_"], "mine");
        assert_eq!(read["msg"], "say \"\n\"");
        assert_eq!(read["msg_"], "\"\n");
        let line = json(|| tracing::trace!(target: "x", "deep"));
        assert!(line.starts_with(r#"{"level":"debug""#), "{line}");
    }

    #[test]
    fn log_time_has_the_configured_encoding() {
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
