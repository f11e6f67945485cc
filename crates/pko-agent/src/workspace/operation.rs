//! Runs an operation, and reads its events meanwhile.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{CliSession, WorkspaceError, WorkspaceResult, parse_json};
use crate::pulumi::{
    CliOutput, Invocation, Operation, argv,
    event_log::EventDigest,
    event_sink::EventSink,
    outputs::{self, Outputs},
};

/// Receives the progress of an operation.
pub(crate) trait Observer: Sync {
    fn on_process(&self, id: u32);
    fn on_events(&self, count: u64);
}

#[derive(Debug)]
pub(crate) struct OperationOutcome {
    pub(crate) finished: CliOutput,
    pub(crate) digest: EventDigest,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
}

impl CliSession {
    /// Runs an operation to its end. Its events go to the journal.
    pub(crate) async fn run_operation(
        &self,
        operation: &Operation,
        stack: &str,
        journal: &Path,
        observer: &impl Observer,
    ) -> WorkspaceResult<OperationOutcome> {
        let mut sink = self.event_sink(journal).await?;
        let context = argv::OperationContext {
            stack,
            event_log: &sink.argument(),
            log_level: self.workspace.log_level,
        };
        let invocation = Invocation {
            debug_commands: true,
            logged: true,
            ..Invocation::new(argv::operation(operation, context))
        };
        // An operation may write a salt into the stack's configuration file.
        let change = self.begin_config_change(stack)?;
        let started = Timestamp::now();
        let (finished, digest) = self.run_with_events(invocation, &mut sink, observer).await;
        let ended = Timestamp::now();
        change.finish().map_err(WorkspaceError::ConfigFile)?;
        Ok(OperationOutcome {
            finished,
            digest,
            started,
            ended,
        })
    }

    async fn event_sink(&self, journal: &Path) -> WorkspaceResult<EventSink> {
        if !self.workspace.version().await?.has_event_listener() {
            return Ok(EventSink::file(journal));
        }
        let listener = EventSink::listener(journal, Arc::clone(&self.workspace.cli.mask)).await;
        listener.map_err(WorkspaceError::EventSink)
    }

    async fn run_with_events(
        &self,
        invocation: Invocation,
        sink: &mut EventSink,
        observer: &impl Observer,
    ) -> (CliOutput, EventDigest) {
        let mut digest = EventDigest::default();
        let running = self
            .workspace
            .cli
            .run_with_pid(invocation, self.stop.clone(), |id| {
                observer.on_process(id);
            });
        tokio::pin!(running);
        let mut add = |event: &[u8]| {
            digest.add(event);
            observer.on_events(digest.lines);
        };
        let finished = loop {
            tokio::select! {
                finished = &mut running => break finished,
                event = sink.next() => match event {
                    Ok(event) => add(&event),
                    Err(error) => {
                        tracing::warn!(%error, "Failed to read the events of pulumi; the remaining ones are lost");
                        break running.await;
                    }
                }
            }
        };
        while let Ok(Some(event)) = sink.next_after_exit().await {
            add(&event);
        }
        (finished, digest)
    }

    /// The stack's outputs after an update. Calls the CLI only if the events hide some of them.
    pub(crate) async fn outputs(
        &self,
        stack: &str,
        digest: &EventDigest,
    ) -> WorkspaceResult<Outputs> {
        let from_event = digest.outputs.as_ref().and_then(outputs::from_event);
        if let Some(outputs) = from_event {
            return Ok(outputs);
        }
        let printed = self
            .read_outputs("could not get secret outputs", stack, true)
            .await?;
        let outputs = if let Some(event) = &digest.outputs {
            outputs::with_event(&printed, event)
        } else {
            let what = "could not get outputs";
            let blinded = self.read_outputs(what, stack, false).await?;
            outputs::with_blinded(&printed, &blinded)
        };
        for text in outputs::secret_strings(&outputs) {
            self.workspace.cli.mask.add(&text);
        }
        Ok(outputs)
    }

    /// The message of the last update, which the CLI takes from the commit. Outside of a repository
    /// it is empty, and the CLI is not called.
    pub(crate) async fn read_update_message(&self, stack: &str) -> WorkspaceResult<String> {
        #[derive(Deserialize)]
        struct HistoryEntry {
            #[serde(default)]
            message: String,
        }
        let folder = &self.workspace.cli.folder;
        if !folder
            .ancestors()
            .any(|folder| folder.join(".git").exists())
        {
            return Ok(String::new());
        }
        let what = "failed to get stack history";
        let invocation = Invocation {
            exact: true,
            ..Invocation::new(argv::stack_last_update(stack))
        };
        let printed = self.call(what, invocation).await?;
        let updates: Vec<HistoryEntry> = parse_json(what, &printed)?;
        let last = updates.into_iter().next();
        Ok(last.map(|update| update.message).unwrap_or_default())
    }

    async fn read_outputs(
        &self,
        what: &'static str,
        stack: &str,
        show_secrets: bool,
    ) -> WorkspaceResult<Map<String, Value>> {
        let invocation = Invocation {
            exact: true,
            ..Invocation::new(argv::stack_output(stack, show_secrets))
        };
        let printed = self.call(what, invocation).await?;
        parse_json(what, &printed)
    }
}
