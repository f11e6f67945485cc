//! Shows a run on standard output. As in Pulumi's CLI, the tree view prints errors and warnings to
//! standard error.
//!
//! There are two views: [`rows`] is a log with diagnostics and outputs at its end, [`tree`]
//! (`--diff`) shows properties.

mod changes;
mod details;
mod difference;
mod lines;
pub(crate) mod palette;
mod printer;
mod rows;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use std::{
    io::{self, Write as _},
    time::Instant,
};

use serde_json::{Map, Value};

use palette::{Color, Colors};
use pulumi_engine_deploy::{
    deployment::reporter::MessageSeverity,
    plan::{Changes, Step},
};
use pulumi_engine_model::urn::Urn;
use pulumi_yaml::{Diagnostic, syntax::Position};
use rows::Rows;
pub(crate) use summary::duration;
pub(crate) use table::{ago, table};
use tree::Tree;

/// The display options.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of Pulumi's command line"
)]
pub(crate) struct Options {
    /// A tree with properties, not a log.
    pub diff: bool,
    /// Show unchanged resources.
    pub show_sames: bool,
    /// Show reads.
    pub show_reads: bool,
    /// Show the steps of a replacement.
    pub show_replacement_steps: bool,
    /// Show secrets in clear.
    pub show_secrets: bool,
    pub show_config: bool,
    /// Show URNs instead of types and names.
    pub show_urns: bool,
    pub suppress_outputs: bool,
    /// Do not truncate long strings.
    pub full_output: bool,
    pub colors: Colors,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            diff: false,
            show_sames: false,
            show_reads: false,
            show_replacement_steps: false,
            show_secrets: false,
            show_config: false,
            show_urns: false,
            suppress_outputs: false,
            full_output: true,
            colors: Colors::Never,
        }
    }
}

impl Options {
    /// Whether an unchanged step is shown: on request, or if `protect` changes.
    fn shows_same(&self, step: &Step) -> bool {
        let protects = |resource: &Option<pulumi_engine_model::resource::Resource>| {
            resource.as_ref().is_some_and(|resource| resource.protect)
        };
        self.show_sames || protects(&step.old) != protects(&step.new)
    }
}

/// Shows the progress of a run.
#[derive(Debug)]
pub(crate) struct Display {
    options: Options,
    view: View,
    planning: bool,
    begun: Instant,
}

#[derive(Debug)]
enum View {
    Nothing,
    Rows(Rows),
    Tree(Tree),
}

impl Display {
    /// A display for a run of this stack. `planning` is true for a preview.
    #[must_use]
    pub(crate) fn new(options: Options, stack: Urn, planning: bool) -> Self {
        let view = if options.diff {
            View::Tree(Tree::default())
        } else {
            View::Rows(Rows::new(stack, planning))
        };
        Self {
            options,
            view,
            planning,
            begun: Instant::now(),
        }
    }

    /// Shows nothing.
    #[must_use]
    pub(crate) fn silent() -> Self {
        Self {
            options: Options::default(),
            view: View::Nothing,
            planning: false,
            begun: Instant::now(),
        }
    }

    /// Prints the operation, the stack and the config.
    pub(crate) fn title(
        &self,
        title: &str,
        stack: &str,
        config: &Map<String, Value>,
    ) -> io::Result<()> {
        if matches!(self.view, View::Nothing) {
            return Ok(());
        }
        let title = format!("{title} ({stack}):");
        line(&self.options.colors.paint(Color::Headline, &title))?;
        if self.options.show_config {
            print(&prelude(config))?;
        }
        match self.view {
            View::Rows(_) => line(""),
            View::Nothing | View::Tree(_) => Ok(()),
        }
    }

    /// A step begins.
    pub(crate) fn before(&mut self, step: &Step) -> io::Result<()> {
        let now = self.begun.elapsed();
        match &mut self.view {
            View::Nothing => Ok(()),
            View::Rows(rows) => print(&rows.before(&self.options, step, now)),
            View::Tree(tree) => print(&tree.before(&self.options, step)),
        }
    }

    /// A step is done.
    pub(crate) fn after(&mut self, step: &Step) -> io::Result<()> {
        let now = self.begun.elapsed();
        match &mut self.view {
            View::Nothing => Ok(()),
            View::Rows(rows) => print(&rows.after(&self.options, step, now)),
            View::Tree(tree) => print(&tree.after(&self.options, step, self.planning)),
        }
    }

    pub(crate) fn failed(&mut self, step: &Step) -> io::Result<()> {
        let now = self.begun.elapsed();
        match &mut self.view {
            _ if self.planning => Ok(()),
            View::Nothing => Ok(()),
            View::Rows(rows) => print(&rows.failed(&self.options, step, now)),
            View::Tree(tree) => {
                tree.failed += 1;
                Ok(())
            }
        }
    }

    /// Shows a message about a resource, or about the run.
    pub(crate) fn message(
        &mut self,
        urn: Option<&Urn>,
        severity: MessageSeverity,
        text: &str,
    ) -> io::Result<()> {
        let now = self.begun.elapsed();
        match (&mut self.view, severity, urn) {
            (View::Nothing, ..) => {}
            (View::Rows(rows), ..) => {
                return print(&rows.message(&self.options, urn, severity, text, now));
            }
            (View::Tree(_), MessageSeverity::Status, Some(urn)) => {
                note(&format!("{} ({}): {text}", urn.kind(), urn.name()));
            }
            (View::Tree(_), ..) => note(&format!("{}{text}", prefix(&self.options, severity))),
        }
        Ok(())
    }

    /// The run is over.
    pub(crate) fn summary(&mut self, changes: &Changes, seconds: u64) -> io::Result<()> {
        let now = self.begun.elapsed();
        let seconds = (!self.planning).then_some(seconds);
        match &mut self.view {
            View::Nothing => Ok(()),
            View::Rows(rows) => {
                let end = rows.end(&self.options, now);
                let summary = summary::summary(&self.options, changes, rows.errored(), seconds);
                print(&format!("{end}{summary}\n"))
            }
            View::Tree(tree) => print(&summary::summary(
                &self.options,
                changes,
                tree.failed,
                seconds,
            )),
        }
    }
}

/// The config of a run.
fn prelude(config: &Map<String, Value>) -> String {
    let entry = |(key, value): (&String, &Value)| {
        let text = value.as_str().unwrap_or_default();
        format!("    {key}: {text}\n")
    };
    let entries: String = config.iter().map(entry).collect();
    format!("Configuration:\n{entries}")
}

/// The prefix of a message.
fn prefix(options: &Options, severity: MessageSeverity) -> String {
    match severity {
        MessageSeverity::Status => String::new(),
        MessageSeverity::Warning => options.colors.paint(Color::Yellow, "warning: "),
        MessageSeverity::Error => options.colors.paint(Color::Red, "error: "),
    }
}

/// Prints text without adding a line break.
fn print(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    unless_nobody_reads(io::stdout().write_all(text.as_bytes()))
}

/// Prints a line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    unless_nobody_reads(writeln!(io::stdout(), "{text}"))
}

/// Ignores a closed pipe, which must not stop a run.
fn unless_nobody_reads(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a line to standard error.
pub(crate) fn note(text: &str) {
    // there is no other way to report a failure
    _ = writeln!(io::stderr(), "{text}");
}

/// Formats a diagnostic with its source line.
#[must_use]
pub(crate) fn diagnostic(diagnostic: &Diagnostic, file: &str, source: &str) -> String {
    let Some(Position {
        line: number,
        column,
    }) = diagnostic.line
    else {
        return diagnostic.message.clone();
    };
    let within = if column > 0 {
        format!(", column {column}")
    } else {
        String::new()
    };
    let text = source
        .lines()
        .nth(number.saturating_sub(1))
        .unwrap_or_default();
    format!(
        "{}\n\n  on {file} line {number}{within}:\n\n  {number:>2}: {text}\n",
        diagnostic.message
    )
}
