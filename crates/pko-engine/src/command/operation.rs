//! `preview`, `up`, `refresh` and `destroy`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};

use super::{
    Exit, code,
    context::Context,
    record,
    session::{Outside, Session},
};
use crate::{
    args::OperationArgs,
    display,
    event_log::EventLog,
    execute::{Cancellation, Ending, Execution, Outcome},
    plan::{Failure, Plan, Selection, deletion, refresh, registration},
    program::{Diagnostic, evaluate::Surroundings, files::Folder, parse},
    state::{history, lock::Lock},
    syntax::Node,
    urn::Urn,
};

/// Which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Preview,
    Up,
    Refresh,
    Destroy,
}

impl Kind {
    /// The word in history.
    fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Up => "update",
            Self::Refresh => "refresh",
            Self::Destroy => "destroy",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Preview => "Previewing update",
            Self::Up => "Updating",
            Self::Refresh => "Refreshing",
            Self::Destroy => "Destroying",
        }
    }
}

/// For tests of those that start this engine: how long each resource step takes at least, as
/// `10s` or `500ms`.
const STEP_DELAY: &str = "PKO_ENGINE_STEP_DELAY";

pub(super) fn run(kind: Kind, arguments: &OperationArgs) -> anyhow::Result<()> {
    if kind != Kind::Preview && !arguments.yes {
        bail!(
            "--yes or --skip-preview must be passed in to proceed when running in non-interactive mode"
        );
    }
    let step_delay = step_delay()?;
    let cancellation = Cancellation::on_signals()?;
    let context = Context::load()?;
    let stack = context.stack(arguments.stack.stack.as_deref())?;
    context.require(&stack)?;
    // a preview changes nothing, so it neither takes nor minds a lock
    let lock = (kind != Kind::Preview)
        .then(|| Lock::acquire(&context.backend, &stack))
        .transpose()?;
    // a stack can be destroyed even when its config no longer fits the project
    let session = Session::open(&context, stack, kind != Kind::Destroy)?;
    let run = Run {
        kind,
        arguments,
        context: &context,
        cancellation,
        step_delay,
    };
    let ended = run.perform(session);
    drop(lock);
    ended
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

struct Run<'a> {
    kind: Kind,
    arguments: &'a OperationArgs,
    context: &'a Context,
    cancellation: Cancellation,
    step_delay: Duration,
}

/// A program file, for messages about it.
struct Source {
    file: String,
    text: String,
}

impl Run<'_> {
    fn perform(&self, mut session: Session<'_>) -> anyhow::Result<()> {
        let preview = self.kind == Kind::Preview;
        let started = (Instant::now(), Timestamp::now());
        let mut events = EventLog::open(self.arguments.event_log.as_deref(), preview)
            .context("failed to open the event log")?;
        display::line(&format!(
            "{} ({}):\n",
            self.kind.title(),
            session.stack.name
        ))?;
        events.prelude(&session.shown_config())?;
        let (plan, source) = self.plan(&session)?;
        warn(&plan, &source, &mut events)?;
        let old = session.resources.clone();
        let outcome = Execution {
            stack: session.stack.stack_urn(),
            keeper: (!preview).then_some(&mut session),
            events: &mut events,
            cancellation: &self.cancellation,
            step_delay: self.step_delay,
            continue_on_error: self.arguments.continue_on_error,
            explain: &|failure: &Failure| explain(&failure.diagnostic, &source),
        }
        .run(&plan, old)?;
        let seconds = started.0.elapsed().as_secs() + 1;
        display::summary(&outcome.changes, seconds, preview)?;
        events.summary(seconds, &outcome.changes, outcome.ending.name())?;
        if !preview {
            self.remember(&session, &outcome, started.1)?;
        }
        self.conclude(&session, &outcome)
    }

    fn plan(&self, session: &Session<'_>) -> anyhow::Result<(Plan, Source)> {
        let selection = self.selection(session)?;
        let (path, root) = match self.kind {
            Kind::Preview | Kind::Up => self.context.project.program()?,
            Kind::Refresh | Kind::Destroy => (
                self.context.project.path.clone(),
                self.context.project.root.clone(),
            ),
        };
        let source = Source {
            file: path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            text: std::fs::read_to_string(&path)?,
        };
        let plan = match self.kind {
            Kind::Refresh => refresh::plan(&session.resources, &selection),
            Kind::Destroy => deletion::plan(&session.resources, &selection),
            Kind::Preview | Kind::Up => self.plan_program(session, &selection, &root),
        };
        Ok((plan, source))
    }

    fn plan_program(&self, session: &Session<'_>, selection: &Selection, root: &Node) -> Plan {
        let program = match parse::parse(root) {
            Ok(program) => program,
            Err(errors) => return unreadable(errors),
        };
        let files = Folder::new(self.context.project.program_directory());
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let request = registration::Request {
            program: &program,
            surroundings: Surroundings {
                stack: &session.stack,
                config: &session.program_config(),
                working_directory: &text(&self.context.project.program_directory()),
                root_directory: &text(&self.context.project.directory),
                files: &files,
            },
            old: &session.resources,
            selection,
            preview: self.kind == Kind::Preview,
            now: Timestamp::now().to_string(),
        };
        let world = Outside {
            context: self.context,
        };
        registration::plan(&request, &world, &mut || uuid::Uuid::new_v4().to_string())
    }

    fn selection(&self, session: &Session<'_>) -> anyhow::Result<Selection> {
        let given = self.arguments.target.iter().chain(&self.arguments.replace);
        let known = |urn: &str| {
            session
                .resources
                .iter()
                .any(|resource| resource.urn.as_str() == urn)
        };
        if matches!(self.kind, Kind::Refresh | Kind::Destroy)
            && let Some(unknown) = given.clone().find(|urn| !urn.contains('*') && !known(urn))
        {
            bail!("no resource named '{unknown}' found");
        }
        Ok(Selection {
            targets: self.arguments.target.iter().map(Urn::new).collect(),
            dependents: self.arguments.target_dependents,
            replace: self.arguments.replace.iter().map(Urn::new).collect(),
        })
    }

    fn remember(
        &self,
        session: &Session<'_>,
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

    fn conclude(&self, session: &Session<'_>, outcome: &Outcome) -> anyhow::Result<()> {
        let name = self.kind.name();
        match outcome.ending {
            Ending::Failed => return Err(Exit::error(code::ERROR, format!("{name} failed"))),
            Ending::Canceled => {
                return Err(Exit::error(code::CANCELED, format!("{name} canceled")));
            }
            Ending::Succeeded => {}
        }
        if self.arguments.expect_no_changes
            && outcome.changes.keys().any(|change| *change != "same")
        {
            let message = format!("no changes were expected for {name} but changes were proposed");
            return Err(Exit::error(code::CHANGES_NOT_EXPECTED, message));
        }
        if self.kind == Kind::Destroy && self.arguments.target.is_empty() {
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

fn warn(plan: &Plan, source: &Source, events: &mut EventLog) -> anyhow::Result<()> {
    for warning in &plan.warnings {
        let message = explain(warning, source);
        display::note(&format!("warning: {message}"));
        events.diagnostic(None, "warning", &message)?;
    }
    Ok(())
}

/// A text that is no program: nothing of it runs.
fn unreadable(errors: Vec<Diagnostic>) -> Plan {
    let failure = |diagnostic| {
        crate::plan::Action::Failure(Failure {
            urn: None,
            diagnostic,
        })
    };
    Plan {
        actions: errors.into_iter().map(failure).collect(),
        warnings: Vec::new(),
    }
}

fn explain(diagnostic: &Diagnostic, source: &Source) -> String {
    display::diagnostic(diagnostic, &source.file, &source.text)
}
