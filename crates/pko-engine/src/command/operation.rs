//! `preview`, `up`, `refresh` and `destroy`.

use std::{
    collections::BTreeMap,
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
    audience::Audience,
    display::{self, Display, Severity, palette::Colors},
    engine::{self, Ending, Outcome, Task, Work, cancellation::Cancellation, ledger::Keeper},
    event_log::EventLog,
    plan::{Failure, Selection},
    program::{Diagnostic, evaluate::Surroundings, files::Folder, parse},
    property::Properties,
    provider::registry::Registry,
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

pub(super) fn run(kind: Kind, arguments: &OperationArgs, colors: Colors) -> anyhow::Result<()> {
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
    let registry = Registry::default();
    // a stack can be destroyed even when its config no longer fits the project
    let session = Session::open(&context, stack, &registry, kind != Kind::Destroy)?;
    let run = Run {
        kind,
        arguments,
        context: &context,
        registry: &registry,
        lock: lock.as_ref(),
        cancellation,
        step_delay,
        colors,
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
    registry: &'a Registry,
    lock: Option<&'a Lock<'a>>,
    cancellation: Cancellation,
    step_delay: Duration,
    colors: Colors,
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
        let events = EventLog::open(self.arguments.event_log.as_deref(), preview)
            .context("failed to open the event log")?;
        let mut audience = Audience {
            events,
            display: self.display(&session),
        };
        audience.title(
            self.kind.title(),
            &session.stack.name,
            &session.shown_config(),
        )?;
        let (source, root) = self.source()?;
        let outcome = self.work(&mut session, &source, &root, &mut audience)?;
        if outcome.ending != Ending::Succeeded {
            let run = if preview { "preview" } else { "update" };
            let message = format!("{run} {}", outcome.ending.name());
            audience.said(None, Severity::Error, &message)?;
        }
        let seconds = started.0.elapsed().as_secs() + 1;
        audience.summary(seconds, &outcome.changes, outcome.ending.name())?;
        if !preview {
            self.remember(&session, &outcome, started.1)?;
        }
        self.conclude(&session, &outcome)
    }

    fn display(&self, session: &Session<'_>) -> Display {
        let whole = self.kind == Kind::Refresh;
        let options = self.arguments.display.options(self.colors, whole);
        let planning = self.kind == Kind::Preview;
        Display::new(options, session.stack.stack_urn(), planning)
    }

    /// The program, and what it says; a refresh or destroy does without.
    fn source(&self) -> anyhow::Result<(Source, Node)> {
        let project = &self.context.project;
        let (path, root) = match self.kind {
            Kind::Preview | Kind::Up => project.program()?,
            Kind::Refresh | Kind::Destroy => (project.path.clone(), project.root.clone()),
        };
        let name = path.file_name().map(|name| name.to_string_lossy());
        let source = Source {
            file: name.unwrap_or_default().into_owned(),
            text: std::fs::read_to_string(&path)?,
        };
        Ok((source, root))
    }

    fn work(
        &self,
        session: &mut Session<'_>,
        source: &Source,
        root: &Node,
        audience: &mut Audience,
    ) -> anyhow::Result<Outcome> {
        let preview = self.kind == Kind::Preview;
        let selection = self.selection(session)?;
        let (stack, start) = (session.stack.clone(), session.start());
        let (config, text) = (session.program_config(), |path: &Path| {
            path.to_string_lossy().into_owned()
        });
        let packages = package_configs(session);
        let task = Task {
            stack: &stack,
            selection: &selection,
            preview,
            parallel: self.arguments.parallel(),
            continue_on_error: self.arguments.continue_on_error,
            step_delay: self.step_delay,
            cancellation: &self.cancellation,
            registry: self.registry,
            world: &Outside {
                context: self.context,
            },
            package_config: &|package| packages.get(package).cloned().unwrap_or_default(),
            explain: &|failure: &Failure| explain(&failure.diagnostic, source),
            abandon: &|| self.abandon(),
        };
        let surroundings = Surroundings {
            stack: &stack,
            config: &config,
            working_directory: &text(&self.context.project.program_directory()),
            root_directory: &text(&self.context.project.directory),
            files: &Folder::new(self.context.project.program_directory()),
        };
        let parsed = match self.kind {
            Kind::Preview | Kind::Up => Some(parse::parse(root).map_err(unreadable)),
            Kind::Refresh | Kind::Destroy => None,
        };
        let refresh = self.arguments.refresh;
        let work = match (&parsed, self.kind) {
            (Some(Err(failures)), _) => Work::Nothing(failures),
            (Some(Ok(program)), _) => Work::Program {
                program,
                surroundings: &surroundings,
                refresh,
            },
            (None, Kind::Destroy) => Work::Destroy { refresh },
            (None, _) => Work::Refresh,
        };
        let keeper = (!preview).then_some(session as &mut dyn Keeper);
        engine::run(&task, work, start, keeper, audience)
    }

    /// The user does not wait for what still runs: the state says that it is under way.
    fn abandon(&self) {
        if let Some(lock) = self.lock {
            lock.release();
        }
        display::note(&format!("error: {} canceled", self.kind.name()));
        std::process::exit(code::CANCELED.into());
    }

    fn selection(&self, session: &Session<'_>) -> anyhow::Result<Selection> {
        let given = self.arguments.target.iter().chain(&self.arguments.replace);
        let known = |urn: &str| {
            session
                .resources
                .iter()
                .any(|record| record.resource.urn.as_str() == urn)
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
            Ending::Failed => return Err(Exit::told(code::ERROR)),
            Ending::Canceled => return Err(Exit::told(code::CANCELED)),
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

/// What config says of packages, by package.
fn package_configs(session: &Session<'_>) -> BTreeMap<String, Properties> {
    let packages = session.config.keys().map(|key| key.namespace.clone());
    packages
        .map(|package| (package.clone(), session.package_config(&package)))
        .collect()
}

/// A text that is no program: nothing of it runs.
fn unreadable(errors: Vec<Diagnostic>) -> Vec<Failure> {
    let failure = |diagnostic| Failure {
        urn: None,
        diagnostic,
    };
    errors.into_iter().map(failure).collect()
}

fn explain(diagnostic: &Diagnostic, source: &Source) -> String {
    display::diagnostic(diagnostic, &source.file, &source.text)
}
