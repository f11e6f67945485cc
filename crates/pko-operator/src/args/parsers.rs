//! Parsers of values in Go's syntax.

use pko_telemetry::{LogEncoding, TimeEncoding};

use super::settings::LogLevel;

/// Like Go's `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write `true` or `false`".to_owned()),
    }
}

pub(super) fn log_encoding(text: &str) -> Result<LogEncoding, String> {
    match text.to_ascii_lowercase().as_str() {
        "json" => Ok(LogEncoding::Json),
        "console" => Ok(LogEncoding::Console),
        _ => Err("write `json` or `console`".to_owned()),
    }
}

pub(super) fn log_level(text: &str) -> Result<LogLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" => Ok(LogLevel::Debug),
        "info" => Ok(LogLevel::Info),
        "error" => Ok(LogLevel::Error),
        "panic" => Ok(LogLevel::Panic),
        number => match number.parse::<u32>() {
            Ok(1) => Ok(LogLevel::Debug),
            Ok(2..) => Ok(LogLevel::Trace),
            _ => Err("write `debug`, `info`, `error`, `panic` or a number above 0".to_owned()),
        },
    }
}

pub(super) fn time_encoding(text: &str) -> Result<TimeEncoding, String> {
    match text.to_ascii_lowercase().as_str() {
        "epoch" => Ok(TimeEncoding::Epoch),
        "millis" => Ok(TimeEncoding::Millis),
        // Upstream's help says `nano`, its code `nanos`.
        "nano" | "nanos" => Ok(TimeEncoding::Nanos),
        "iso8601" => Ok(TimeEncoding::Iso8601),
        "rfc3339" => Ok(TimeEncoding::Rfc3339),
        "rfc3339nano" => Ok(TimeEncoding::Rfc3339Nano),
        _ => Err(
            "write `epoch`, `millis`, `nanos`, `iso8601`, `rfc3339` or `rfc3339nano`".to_owned(),
        ),
    }
}
