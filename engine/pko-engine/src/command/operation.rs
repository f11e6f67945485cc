//! `preview`, `up`, `refresh` and `destroy`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use pulumi_engine_deploy::{
    deployment::{
        self, Ending, Outcome, Task, Work,
        cancellation::Cancellation,
        ledger::StateSink,
        reporter::{MessageSeverity, Reporter as _},
    },
    plan::{Failure, Selection},
    program::{evaluate::EvaluationContext, files::Folder},
};
use pulumi_engine_model::{
    property::Properties,
    urn::{StackIdentity, Urn},
};
use pulumi_engine_providers::registry::Registry;
use pulumi_engine_state::{history, lock::Lock};
use pulumi_yaml::{
    Diagnostic, Program, parse,
    syntax::{self, Node},
};

use super::{
    Exit, code, config,
    context::ProjectContext,
    flags, interruption, pending, record, selection,
    session::{OperationContext, StackSession},
    stack, unsaved_state,
};
use crate::{
    args::OperationArgs,
    display::{self, Display, palette::Colors},
    event_log::{self, EventLog},
    output_reporter::OutputReporter,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    Preview,
    Up,
    Refresh,
    Destroy,
}

impl OperationKind {
    /// The name in the history.
    fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Up => "update",
            Self::Refresh => "refresh",
            Self::Destroy => "destroy",
        }
    }

    fn title(self, preview: bool) -> &'static str {
        match (self, preview) {
            (Self::Refresh, true) => "Previewing refresh",
            (Self::Destroy, true) => "Previewing destroy",
            (Self::Preview, _) | (Self::Up, true) => "Previewing update",
            (Self::Up, false) => "Updating",
            (Self::Refresh, false) => "Refreshing",
            (Self::Destroy, false) => "Destroying",
        }
    }
}

/// For tests of programs that start this engine: the shortest time of a resource step, such as
/// `10s` or `500ms`.
const STEP_DELAY: &str = "PKO_ENGINE_STEP_DELAY";

pub(super) fn run(
    kind: OperationKind,
    arguments: &OperationArgs,
    colors: Colors,
) -> anyhow::Result<()> {
    flags::check(kind, arguments)?;
    let only_preview = kind == OperationKind::Preview || arguments.preview_only;
    let step_delay = step_delay()?;
    let quiet = arguments.json;
    let cancellation = Cancellation::on_signals(move |signal, before| {
        if !quiet {
            interruption::tell(signal, before, only_preview, colors);
        }
    })?;
    let mut context = ProjectContext::load()?;
    context.config_file = arguments.config_file.as_ref().map(PathBuf::from);
    let stack = context.stack(arguments.stack.stack.as_deref())?;
    context.require(&stack)?;
    config::set_for_run(&context, &stack, &arguments.config, arguments.config_path)?;
    // a preview changes nothing, so it needs no lock
    let lock = (!only_preview)
        .then(|| Lock::acquire(&context.backend, &stack, display::note))
        .transpose()?;
    if lock.is_some() {
        unsaved_state::recover(&context, &stack)?;
    }
    let registry = Registry::default();
    let run = |preview| OperationRun {
        kind,
        preview,
        arguments,
        context: &context,
        registry: &registry,
        lock: lock.as_ref(),
        cancellation: &cancellation,
        step_delay,
        colors,
    };
    if only_preview || !arguments.skip_preview {
        run(true).perform(&stack)?;
    }
    if only_preview {
        return Ok(());
    }
    run(false).perform(&stack)?;
    drop(lock);
    if arguments.remove {
        stack::remove(&context, &stack, false, false)?;
        if !arguments.json {
            display::line(
                "The resources in the stack have been deleted, and the history and configuration removed.",
            )?;
        }
    }
    Ok(())
}

fn step_delay() -> anyhow::Result<Duration> {
    let Ok(text) = std::env::var(STEP_DELAY) else {
        return Ok(Duration::ZERO);
    };
    let delay: SignedDuration = text
        .parse()
        .with_context(|| format!("{STEP_DELAY} must be a duration such as `10s`"))?;
    Ok(delay.unsigned_abs())
}

struct OperationRun<'a> {
    kind: OperationKind,
    preview: bool,
    arguments: &'a OperationArgs,
    context: &'a ProjectContext,
    registry: &'a Registry,
    lock: Option<&'a Lock<'a>>,
    cancellation: &'a Cancellation,
    step_delay: Duration,
    colors: Colors,
}

/// A program file, for messages about it.
struct ProgramSource {
    file: String,
    text: String,
}

impl OperationRun<'_> {
    fn perform(&self, stack: &StackIdentity) -> anyhow::Result<()> {
        let started = (Instant::now(), Timestamp::now());
        let mut session = self.open(stack)?;
        if self.kind == OperationKind::Refresh {
            pending::resolve_pending_creates(&mut session, self.arguments, self.preview)?;
        }
        let mut reporter = self.reporter(&session)?;
        reporter.title(
            self.kind.title(self.preview),
            &session.stack.name,
            &session.shown_config(),
        )?;
        let selection = selection::selection(self.kind, self.arguments, &session.resources)?;
        let outcome = if let Some(failed) = self.run_program(&mut session, &mut reporter)? {
            failed
        } else {
            if self.runs_program_first() && !self.preview {
                session = self.open(stack)?;
            }
            self.work(&mut session, &selection, self.kind, &mut reporter)?
        };
        if outcome.ending != Ending::Succeeded {
            let run = if self.preview { "preview" } else { "update" };
            let message = format!("{run} {}", outcome.ending.name());
            reporter.message(None, MessageSeverity::Error, &message)?;
        }
        let seconds = started.0.elapsed().as_secs() + 1;
        reporter.summary(seconds, &outcome.changes, outcome.ending.name())?;
        if !self.preview {
            self.remember(&session, &outcome, started.1)?;
        }
        self.conclude(&session, &selection, &outcome)
    }

    fn open(&self, stack: &StackIdentity) -> anyhow::Result<StackSession<'_>> {
        // a stack can be destroyed even if its config no longer matches the project
        let runs_program = self.kind != OperationKind::Destroy || self.arguments.run_program;
        let config_must_fit = runs_program && !self.arguments.skip_config_validation;
        StackSession::open(self.context, stack.clone(), self.registry, config_must_fit)
    }

    fn reporter(&self, session: &StackSession<'_>) -> anyhow::Result<OutputReporter> {
        let place = match &self.arguments.event_log {
            None if self.arguments.json => Some(event_log::SCREEN),
            place => place.as_deref(),
        };
        let whole = self.kind == OperationKind::Refresh;
        let options = self.arguments.display.options(self.colors, whole);
        let display = if self.arguments.json {
            Display::silent()
        } else {
            Display::new(options, session.stack.stack_urn(), self.preview)
        };
        Ok(OutputReporter {
            events: EventLog::open(place, self.preview).context("failed to open the event log")?,
            display,
            muted: false,
        })
    }

    fn runs_program_first(&self) -> bool {
        self.arguments.run_program
            && matches!(self.kind, OperationKind::Refresh | OperationKind::Destroy)
    }

    /// Runs the program for its providers only, before a refresh or destroy (`--run-program`).
    /// Returns the outcome if it failed.
    fn run_program(
        &self,
        session: &mut StackSession<'_>,
        reporter: &mut OutputReporter,
    ) -> anyhow::Result<Option<Outcome>> {
        if !self.runs_program_first() {
            return Ok(None);
        }
        let selection = Selection {
            targets: vec![Urn::new("urn:pulumi:**::pulumi:providers:**")],
            keeps_gone: true,
            ..Selection::default()
        };
        reporter.muted = true;
        let outcome = self.work(session, &selection, OperationKind::Up, reporter)?;
        reporter.muted = false;
        Ok(Some(outcome).filter(|outcome| outcome.ending != Ending::Succeeded))
    }

    /// The program file. A refresh or destroy only needs the project file.
    fn source(&self, kind: OperationKind) -> anyhow::Result<(ProgramSource, Node)> {
        let project = &self.context.project;
        let (path, root) = match kind {
            OperationKind::Preview | OperationKind::Up => project.program()?,
            OperationKind::Refresh | OperationKind::Destroy => {
                (project.path.clone(), project.root.clone())
            }
        };
        let name = path.file_name().map(|name| name.to_string_lossy());
        let source = ProgramSource {
            file: name.unwrap_or_default().into_owned(),
            text: std::fs::read_to_string(&path)?,
        };
        Ok((source, root))
    }

    fn work(
        &self,
        session: &mut StackSession<'_>,
        selection: &Selection,
        kind: OperationKind,
        reporter: &mut OutputReporter,
    ) -> anyhow::Result<Outcome> {
        let (source, root) = self.source(kind)?;
        let preview = self.preview;
        let (stack, start) = (session.stack.clone(), session.start());
        let (config, text) = (session.program_config(), |path: &Path| {
            path.to_string_lossy().into_owned()
        });
        let packages = package_configs(session);
        let task = Task {
            stack: &stack,
            selection,
            preview,
            parallel: self.arguments.parallel(),
            continue_on_error: self.arguments.continue_on_error,
            step_delay: self.step_delay,
            cancellation: self.cancellation,
            registry: self.registry,
            host: &OperationContext {
                context: self.context,
            },
            package_config: &|package| packages.get(package).cloned().unwrap_or_default(),
            explain: &|failure: &Failure| explain(&failure.diagnostic, &source),
            abandon: &|| self.abandon(),
        };
        let context = EvaluationContext {
            stack: &stack,
            config: &config,
            working_directory: &text(&self.context.project.program_directory()),
            root_directory: &text(&self.context.project.directory),
            files: &Folder::new(self.context.project.program_directory()),
        };
        let parsed = match kind {
            OperationKind::Preview | OperationKind::Up => {
                Some(read_program(&root, &source, &self.registry.names()).map_err(syntax_failures))
            }
            OperationKind::Refresh | OperationKind::Destroy => None,
        };
        let refresh = self.arguments.refresh && kind == self.kind;
        let work = match (&parsed, kind) {
            (Some(Err(failures)), _) => Work::Nothing(failures),
            (Some(Ok(program)), _) => Work::Program {
                program,
                context: &context,
                refresh,
            },
            (None, OperationKind::Destroy) => Work::Destroy { refresh },
            (None, _) => Work::Refresh,
        };
        let sink = (!preview).then_some(session as &mut dyn StateSink);
        deployment::run(&task, work, start, sink, reporter)
    }

    /// Ends the process after an urgent cancellation. The state has the pending operations.
    fn abandon(&self) {
        if let Some(lock) = self.lock {
            lock.release();
        }
        display::note(&format!("error: {} canceled", self.kind.name()));
        std::process::exit(code::CANCELED.into());
    }

    fn remember(
        &self,
        session: &StackSession<'_>,
        outcome: &Outcome,
        start: Timestamp,
    ) -> anyhow::Result<()> {
        let (start, end) = (start.as_second(), Timestamp::now().as_second());
        let record = record::record(
            self.kind.name(),
            self.arguments,
            session,
            outcome,
            start,
            end,
        );
        let backend = &self.context.backend;
        let content = backend.latest(&session.stack);
        history::add(backend, &session.stack, &record, &content)
            .context("failed to write the history")?;
        backend
            .back_up(&session.stack, &content)
            .context("failed to write the backup")
    }

    fn conclude(
        &self,
        session: &StackSession<'_>,
        selection: &Selection,
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        let name = self.kind.name();
        match outcome.ending {
            Ending::Failed => return Err(Exit::already_reported(code::ERROR)),
            Ending::Canceled => return Err(Exit::already_reported(code::CANCELED)),
            Ending::Succeeded => {}
        }
        // if a run follows a preview, the run decides
        let decides =
            !self.preview || self.kind == OperationKind::Preview || self.arguments.preview_only;
        if self.arguments.expect_no_changes
            && decides
            && outcome.changes.keys().any(|change| *change != "same")
        {
            let message = format!("no changes were expected for {name} but changes were proposed");
            return Err(Exit::error(code::CHANGES_NOT_EXPECTED, message));
        }
        if self.kind == OperationKind::Destroy && !self.preview && !self.arguments.json {
            self.print_remaining_resources(session, selection)?;
        }
        Ok(())
    }

    fn print_remaining_resources(
        &self,
        session: &StackSession<'_>,
        selection: &Selection,
    ) -> anyhow::Result<()> {
        let left = selection::left_over(selection, &session.resources);
        if self.arguments.exclude_protected && left > 0 {
            return Ok(display::line(&format!(
                "All unprotected resources were destroyed. There are still {left} protected resources associated with this stack."
            ))?);
        }
        if self.arguments.target.is_empty() && !self.arguments.remove {
            display::line(&format!(
                "The resources in the stack have been deleted, but the history and configuration \
                 associated with the stack are still maintained. \n\
                 If you want to remove the stack completely, run `pulumi stack rm {}`.",
                session.stack.name
            ))?;
        }
        Ok(())
    }
}

/// Config by package.
fn package_configs(session: &StackSession<'_>) -> BTreeMap<String, Properties> {
    let packages = session.config.keys().map(|key| key.namespace.clone());
    packages
        .map(|package| (package.clone(), session.package_config(&package)))
        .collect()
}

fn read_program(
    root: &Node,
    source: &ProgramSource,
    packages: &[&str],
) -> Result<Program, Vec<Diagnostic>> {
    if let Some(place) = syntax::first_alias(&source.text) {
        let message = "alias nodes are not supported: write the value once more, or name it under `variables`";
        return Err(vec![Diagnostic::error(place, message)]);
    }
    parse::parse(root, packages)
}

/// Converts syntax errors to failures of the run.
fn syntax_failures(errors: Vec<Diagnostic>) -> Vec<Failure> {
    let failure = |diagnostic| Failure {
        urn: None,
        diagnostic,
    };
    errors.into_iter().map(failure).collect()
}

fn explain(diagnostic: &Diagnostic, source: &ProgramSource) -> String {
    display::diagnostic(diagnostic, &source.file, &source.text)
}
