//! The log of a run: one line for each change of a resource, diagnostics and outputs at the end.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use pulumi_engine_deploy::{
    deployment::reporter::MessageSeverity,
    plan::{Operation, Step},
};
use pulumi_engine_model::{resource::Resource, urn::Urn};

use super::{
    Options, details,
    palette::{Color, color},
    words::{self, is_stack, outcome, retained, sign},
};

/// All resources of a run.
#[derive(Debug)]
pub(super) struct Rows {
    stack: Urn,
    planning: bool,
    /// In the order of their first step.
    all: Vec<Row>,
    places: HashMap<Urn, usize>,
    done: bool,
}

#[derive(Debug)]
struct Row {
    urn: Urn,
    step: Step,
    operation: Operation,
    /// The logical replacement step, which has the reasons.
    replacement: Option<Step>,
    begun: Option<Duration>,
    ended: Option<Duration>,
    finished: bool,
    failed: bool,
    hidden: bool,
    diagnostics: Vec<(MessageSeverity, String)>,
}

impl Row {
    fn count(&self, severity: MessageSeverity) -> usize {
        let own = self.diagnostics.iter();
        own.filter(|(other, _)| *other == severity).count()
    }

    fn is_custom(&self) -> bool {
        self.step.resource().is_some_and(|resource| resource.custom)
    }
}

impl Rows {
    pub(super) fn new(stack: Urn, planning: bool) -> Self {
        Self {
            stack,
            planning,
            all: Vec::new(),
            places: HashMap::new(),
            done: false,
        }
    }

    fn place(&mut self, urn: &Urn) -> usize {
        if let Some(place) = self.places.get(urn) {
            return *place;
        }
        let row = Row {
            urn: urn.clone(),
            step: Step::new(Operation::Same, None, None),
            operation: Operation::Same,
            replacement: None,
            begun: None,
            ended: None,
            finished: false,
            failed: false,
            hidden: true,
            diagnostics: Vec::new(),
        };
        self.all.push(row);
        let place = self.all.len() - 1;
        self.places.insert(urn.clone(), place);
        place
    }

    fn change(&mut self, urn: &Urn, change: impl FnOnce(&mut Row)) -> usize {
        let place = self.place(urn);
        if let Some(row) = self.all.get_mut(place) {
            change(row);
        }
        place
    }

    /// A step begins.
    pub(super) fn before(&mut self, options: &Options, step: &Step, now: Duration) -> String {
        if is_unseen(step) {
            return String::new();
        }
        if let Some(line) = self.read(options, step, now) {
            return line;
        }
        let shown = self.shows(options, step, step.operation);
        let place = self.change(&step.urn, |row| {
            row.step = step.clone();
            row.operation = step.operation;
            row.begun = Some(now);
            row.ended = None;
            row.finished = false;
            row.hidden &= !shown;
        });
        self.line(options, place, now)
    }

    /// A step is done.
    pub(super) fn after(&mut self, options: &Options, step: &Step, now: Duration) -> String {
        if is_unseen(step) {
            return String::new();
        }
        if let Some(line) = self.read(options, step, now) {
            return line;
        }
        let operation = outcome(step);
        let shown = self.shows(options, step, operation);
        let refresh = step.operation == Operation::Refresh;
        let custom = step.resource().is_some_and(|resource| resource.custom);
        let stack_goes = step.urn == self.stack && operation == Operation::Delete;
        let place = self.change(&step.urn, |row| {
            row.step = step.clone();
            row.operation = operation;
            row.ended = Some(now);
            row.finished = true;
            row.hidden &= !shown;
            if operation == Operation::Replace {
                row.replacement = Some(step.clone());
            }
        });
        let happened = !self.planning && (custom || stack_goes) && operation != Operation::Same;
        if refresh || happened {
            self.line(options, place, now)
        } else {
            String::new()
        }
    }

    /// Reads are shown as a status of the stack, unless `--show-reads` is set.
    fn read(&mut self, options: &Options, step: &Step, now: Duration) -> Option<String> {
        if options.show_reads {
            return None;
        }
        match step.operation {
            Operation::Discard | Operation::ReadReplacement => Some(String::new()),
            Operation::Read => {
                let kind = words::type_name(step.urn.kind());
                let text = format!("read {kind} {}", step.urn.name());
                let stack = self.stack.clone();
                Some(self.say(options, &stack, MessageSeverity::Status, &text, now))
            }
            _ => None,
        }
    }

    pub(super) fn failed(&mut self, options: &Options, step: &Step, now: Duration) -> String {
        let place = self.change(&step.urn, |row| {
            row.failed = true;
            row.hidden = false;
        });
        self.line(options, place, now)
    }

    /// Adds a message about a resource, or about the stack.
    pub(super) fn message(
        &mut self,
        options: &Options,
        urn: Option<&Urn>,
        severity: MessageSeverity,
        text: &str,
        now: Duration,
    ) -> String {
        let urn = urn.unwrap_or(&self.stack).clone();
        self.say(options, &urn, severity, text, now)
    }

    fn say(
        &mut self,
        options: &Options,
        urn: &Urn,
        severity: MessageSeverity,
        text: &str,
        now: Duration,
    ) -> String {
        let place = self.change(urn, |row| {
            row.hidden = false;
            row.diagnostics.push((severity, text.to_owned()));
        });
        self.line(options, place, now)
    }

    /// The end of the log: unfinished resources, diagnostics and outputs.
    pub(super) fn end(&mut self, options: &Options, now: Duration) -> String {
        let open = self.all.iter().map(|row| !self.is_done(row));
        let open: Vec<_> = open.collect();
        self.done = true;
        let mut out = String::new();
        for (place, _) in open.iter().enumerate().filter(|(_, open)| **open) {
            out.push_str(&self.line(options, place, now));
        }
        out.push_str(&self.diagnostics(options));
        if !options.suppress_outputs {
            out.push_str(&self.outputs(options));
        }
        out
    }

    /// How many resources had errors.
    pub(super) fn errored(&self) -> usize {
        let own = self.all.iter();
        own.filter(|row| row.count(MessageSeverity::Error) > 0)
            .count()
    }

    fn diagnostics(&self, options: &Options) -> String {
        let colors = options.colors;
        let mut out = String::new();
        for row in &self.all {
            let lasting =
                |(severity, _): &&(MessageSeverity, String)| *severity != MessageSeverity::Status;
            let own: Vec<_> = row.diagnostics.iter().filter(lasting).collect();
            if own.is_empty() {
                continue;
            }
            if out.is_empty() {
                out.push_str(&colors.paint(Color::Headline, "Diagnostics:"));
                out.push('\n');
            }
            let name = if options.show_urns {
                format!("{}:", row.urn)
            } else {
                format!("{} ({}):", words::type_name(row.urn.kind()), row.urn.name())
            };
            _ = writeln!(out, "  {}", colors.paint(Color::Resource, &name));
            for (severity, text) in own {
                let text = format!("{}{}", super::prefix(options, *severity), text.trim_end());
                for line in text.lines() {
                    out.push_str(format!("    {line}").trim_end());
                    out.push('\n');
                }
            }
            out.push('\n');
        }
        out
    }

    fn outputs(&self, options: &Options) -> String {
        let row = self
            .places
            .get(&self.stack)
            .and_then(|place| self.all.get(*place));
        let Some(row) = row.filter(|row| row.operation != Operation::Delete) else {
            return String::new();
        };
        let outputs = details::results(options, &row.step, row.operation, 1, self.planning, false);
        if outputs.is_empty() {
            return String::new();
        }
        format!(
            "{}\n{outputs}\n",
            options.colors.paint(Color::Headline, "Outputs:")
        )
    }

    fn shows(&self, options: &Options, step: &Step, operation: Operation) -> bool {
        // an unchanged stack is shown at the end
        let known = step.urn == self.stack && self.places.contains_key(&self.stack);
        known || operation != Operation::Same || options.shows_same(step)
    }

    fn is_done(&self, row: &Row) -> bool {
        // an unchanged stack runs until the end
        let stays = row.urn == self.stack && row.operation != Operation::Delete;
        row.failed || self.done || (row.finished && !stays)
    }

    /// The line of a row, if it is shown.
    fn line(&self, options: &Options, place: usize, now: Duration) -> String {
        let Some(row) = self.all.get(place).filter(|row| !row.hidden) else {
            return String::new();
        };
        let colors = options.colors;
        let name = if options.show_urns {
            row.urn.to_string()
        } else {
            format!("{} {}", words::type_name(row.urn.kind()), row.urn.name())
        };
        let mut start = colors.start(color(row.operation)).to_owned();
        if !self.is_done(row) {
            start.insert_str(0, colors.start(Color::Strong));
        }
        format!(
            " {start}{}{} {name} {} {}\n",
            sign(row.operation),
            colors.start(Color::Plain),
            self.status(options, row, now),
            self.information(options, row)
        )
    }

    fn status(&self, options: &Options, row: &Row, now: Duration) -> String {
        let colors = options.colors;
        let failed = row.failed || row.count(MessageSeverity::Error) > 0;
        let retained = retained(&row.step, row.operation);
        let idle = matches!(
            row.operation,
            Operation::Same | Operation::RemovePendingReplace
        );
        if !self.is_done(row) {
            let text = colors.paint(color(row.operation), &self.doing(row, now));
            return format!("{}{text}{retained}", colors.start(Color::Strong));
        }
        let (paint, text) = if self.done && !failed && row.is_custom() && !idle && !row.finished {
            let text = format!("{} (interrupted)", words::doing(row.operation));
            (Color::Yellow, text)
        } else if self.planning {
            (color(row.operation), planned(row.operation).to_owned())
        } else if failed {
            let text = timed(&words::failed(row.operation), row);
            (Color::Red, format!("**{text}**"))
        } else {
            (color(row.operation), timed(words::done(row.operation), row))
        };
        format!("{}{retained}", colors.paint(paint, &text))
    }

    fn doing(&self, row: &Row, now: Duration) -> String {
        if row.urn == self.stack && row.operation == Operation::Same && row.begun.is_some() {
            return "running".to_owned();
        }
        if self.planning {
            return words::planned(row.operation).to_owned();
        }
        match row.begun.filter(|_| row.operation != Operation::Same) {
            Some(begun) => {
                let seconds = now.saturating_sub(begun).as_secs();
                format!("{} ({seconds}s)", words::doing(row.operation))
            }
            None => words::doing(row.operation).to_owned(),
        }
    }

    /// Differences and the last message; at the end, the number of messages.
    fn information(&self, options: &Options, row: &Row) -> String {
        let (step, operation) = match (&row.replacement, row.operation) {
            (Some(step), Operation::CreateReplacement | Operation::DeleteReplaced) => {
                (step, Operation::Replace)
            }
            (_, operation) => (&row.step, operation),
        };
        let mut pieces = Vec::new();
        if let Some(short) = details::in_short(options, step, operation) {
            pieces.push(format!("[{short}]"));
        }
        if self.done {
            let words = [
                (MessageSeverity::Error, "error", Color::Red),
                (MessageSeverity::Warning, "warning", Color::Yellow),
            ];
            for (severity, word, color) in words {
                let count = row.count(severity);
                let word = if count == 1 {
                    word.to_owned()
                } else {
                    format!("{word}s")
                };
                if count > 0 {
                    pieces.push(format!("{count} {}", options.colors.paint(color, &word)));
                }
            }
        } else if let Some((severity, text)) = row.diagnostics.last() {
            pieces.push(format!("{}{text}", super::prefix(options, *severity)));
        }
        let all = pieces.join("; ");
        all.lines().next().unwrap_or_default().to_owned()
    }
}

/// Whether it is a default provider.
fn is_unseen(step: &Step) -> bool {
    step.resource().is_some_and(Resource::is_default_provider)
        || (step.operation == Operation::RemovePendingReplace && !is_stack(&step.urn))
}

/// The final operation of a preview: a replacement is one operation.
fn planned(operation: Operation) -> &'static str {
    match operation {
        Operation::CreateReplacement
        | Operation::DeleteReplaced
        | Operation::ReadReplacement
        | Operation::DiscardReplaced => "replace",
        Operation::ImportReplacement => "import",
        Operation::Refresh => "refresh",
        other => words::planned(other),
    }
}

fn timed(text: &str, row: &Row) -> String {
    match (row.begun, row.ended) {
        (Some(begun), Some(ended)) if row.operation != Operation::Same => {
            let time = ended.saturating_sub(begun);
            if time.as_secs() == 0 {
                format!("{text} ({:.2}s)", time.as_secs_f64())
            } else {
                format!("{text} ({}s)", time.as_secs())
            }
        }
        _ => text.to_owned(),
    }
}
