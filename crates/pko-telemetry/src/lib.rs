//! The log format of the manager and the agent, which is that of upstream's logging library (zap):
//! time, level, logger and message, then the fields of the enclosing spans and of the event.
#![expect(
    missing_docs,
    reason = "only crates of this workspace link it, and most names speak for themselves"
)]

mod fields;
mod log_layer;

pub use log_layer::{LogEncoding, LogFormat, LogLayer, TimeEncoding};
