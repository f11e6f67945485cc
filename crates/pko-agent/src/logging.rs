//! Logs to standard error; standard output stays free for the commands.

use pko_telemetry::{LogEncoding, LogFormat, LogLayer, TimeEncoding};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

const FORMAT: LogFormat = LogFormat {
    encoding: LogEncoding::Console,
    time: TimeEncoding::Iso8601,
    logger: logger_name,
};

pub(crate) fn start(verbose: bool) {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    let lines = LogLayer::new(FORMAT, std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .init();
    // The message of a panic may quote secrets. The run that it ends reports it masked.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "A thread panicked");
    }));
}

/// The names of upstream's loggers.
fn logger_name(target: &str) -> String {
    const LOGGERS: [(&str, &str); 6] = [
        ("pulumi", "pulumi"),
        ("grpc", "cmd.serve.grpc"),
        ("pko_agent::command::init", "cmd.init"),
        ("pko_agent::command::bootstrap", "cmd.bootstrap"),
        ("pko_agent::command::version", "cmd.version"),
        ("pko_agent::command", "cmd.serve"),
    ];
    let logger = LOGGERS.iter().find(|(start, _)| target.starts_with(start));
    logger.map_or("server", |(_, logger)| logger).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use parking_lot::Mutex;

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

    /// What is logged, without the time.
    fn log_output(log: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let layer = LogLayer::new(FORMAT, move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let text = String::from_utf8(buffer.0.lock().clone()).unwrap();
        let (time, rest) = text.split_once('\t').unwrap();
        let time: Timestamp = time.parse().unwrap();
        assert!(time <= Timestamp::now());
        rest.to_owned()
    }

    #[test]
    fn log_line_has_upstream_columns() {
        let line = log_output(|| {
            tracing::info!(target: "pko_agent::command::serve", version = "v2.9.0", "Pulumi Kubernetes Agent");
        });
        assert_eq!(
            line,
            "INFO\tcmd.serve\tPulumi Kubernetes Agent\t{\"version\": \"v2.9.0\"}\n"
        );
    }

    #[test]
    fn log_fields_are_json_and_message_is_one_line() {
        let line = log_output(|| {
            tracing::warn!(target: "pulumi", count = 2, good = true, why = ?"a\tb", share = 0.5, "a\nb");
        });
        let expected = r#"{"count": 2, "good": true, "why": "\"a\\tb\"", "share": 0.5}"#;
        assert_eq!(line, format!("WARN\tpulumi\ta\\nb\t{expected}\n"));
    }

    #[test]
    fn loggers_have_upstream_names() {
        let name = |line: String| line.split('\t').nth(1).unwrap().to_owned();
        assert_eq!(
            name(log_output(|| tracing::error!(target: "grpc", "x"))),
            "cmd.serve.grpc"
        );
        assert_eq!(
            name(log_output(
                || tracing::error!(target: "pko_agent::command::init", "x")
            )),
            "cmd.init"
        );
        assert_eq!(
            name(log_output(
                || tracing::error!(target: "pko_agent::run", "x")
            )),
            "server"
        );
        assert_eq!(
            log_output(|| tracing::info!("alone")),
            "INFO\tserver\talone\n"
        );
    }
}
