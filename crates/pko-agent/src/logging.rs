//! Logs go to standard error, so that standard output stays free.

use tracing::level_filters::LevelFilter;

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
        .init();
}
