//! Runs an operation, and reads its events while it goes on.

use std::{path::Path, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::{Result, Turn, WorkspaceError, parsed};
use crate::pulumi::{
    Finished, Invocation, Operation, argv,
    event_log::{Digest, Lines},
    outputs::{self, Outputs},
};

/// How often the event log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Is told how an operation goes on.
pub(crate) trait Observer: Sync {
    /// The CLI's process has this number.
    fn process(&self, id: u32);
    /// There are so many events.
    fn events(&self, count: u64);
}

/// An operation that has ended.
#[derive(Debug)]
pub(crate) struct Operated {
    pub(crate) finished: Finished,
    pub(crate) digest: Digest,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
}

impl Turn {
    /// Runs an operation to its end.
    pub(crate) async fn operate(
        &self,
        operation: &Operation,
        stack: &str,
        event_log: &Path,
        observer: &impl Observer,
    ) -> Result<Operated> {
        let context = argv::OperationContext {
            stack,
            event_log,
            log_level: self.workspace.log_level,
        };
        let invocation = Invocation {
            debug_commands: true,
            logged: true,
            ..Invocation::new(argv::operation(operation, context))
        };
        // An operation may write a salt into the stack's configuration file.
        let change = self.change(stack)?;
        let started = Timestamp::now();
        let (finished, digest) = self.attend(invocation, event_log, observer).await;
        let ended = Timestamp::now();
        change.finish().map_err(WorkspaceError::ConfigFile)?;
        Ok(Operated {
            finished,
            digest,
            started,
            ended,
        })
    }

    async fn attend(
        &self,
        invocation: Invocation,
        event_log: &Path,
        observer: &impl Observer,
    ) -> (Finished, Digest) {
        let mut lines = Lines::of(event_log.to_owned());
        let mut digest = Digest::default();
        let running = self
            .workspace
            .cli
            .run_announced(invocation, self.stop.clone(), |id| {
                observer.process(id);
            });
        tokio::pin!(running);
        let finished = loop {
            read_events(&mut lines, &mut digest, observer).await;
            tokio::select! {
                finished = &mut running => break finished,
                () = sleep(LOOK_EVERY) => {}
            }
        };
        // What was written between the last look and the end.
        read_events(&mut lines, &mut digest, observer).await;
        (finished, digest)
    }

    /// The stack's outputs after an update, with one more call only if the events hide some.
    pub(crate) async fn outputs(&self, stack: &str, digest: &Digest) -> Result<Outputs> {
        let plain = digest.outputs.as_ref().and_then(outputs::from_event);
        if let Some(plain) = plain {
            return Ok(plain);
        }
        let printed = self
            .printed_outputs("could not get secret outputs", stack, true)
            .await?;
        let outputs = if let Some(event) = &digest.outputs {
            outputs::with_event(&printed, event)
        } else {
            let what = "could not get outputs";
            let blinded = self.printed_outputs(what, stack, false).await?;
            outputs::with_blinded(&printed, &blinded)
        };
        for text in outputs::secret_texts(&outputs) {
            self.workspace.cli.mask.add(&text);
        }
        Ok(outputs)
    }

    async fn printed_outputs(
        &self,
        what: &'static str,
        stack: &str,
        show_secrets: bool,
    ) -> Result<Map<String, Value>> {
        let invocation = Invocation {
            exact: true,
            ..Invocation::new(argv::stack_output(stack, show_secrets))
        };
        let printed = self.call(what, invocation).await?;
        parsed(what, &printed)
    }
}

async fn read_events(lines: &mut Lines, digest: &mut Digest, observer: &impl Observer) {
    loop {
        match lines.next().await {
            Ok(Some(line)) => {
                digest.add(&line);
                observer.events(digest.lines);
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "The event log could not be read");
                break;
            }
        }
    }
}
