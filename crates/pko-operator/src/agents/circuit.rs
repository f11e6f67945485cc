//! Agents that keep their callers waiting: one caller finds out whether they answer again, all others are told at once that
//! they don't. Without that each Update of such an agent would hold a place of its own, and Updates elsewhere would wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A caller who was kept so long was kept waiting; whoever is refused at once may come back at once.
const LONG: Duration = Duration::from_secs(3);
/// How long nobody else asks an agent that is silent, or that somebody asks.
const QUIET: Duration = Duration::from_secs(10);

/// The agents that were silent when somebody last asked, by the uid of their Workspace.
#[derive(Clone, Default)]
pub(super) struct Silence {
    known: Arc<Mutex<HashMap<String, Silent>>>,
}

struct Silent {
    instance: String,
    since: Instant,
    message: String,
}

impl Silence {
    /// Whether this agent may be asked now. Of one that was silent the answer is what was said of it, until it is time for
    /// somebody to ask: whoever hears that has to.
    pub(super) fn may_ask(
        &self,
        workspace: &str,
        instance: &str,
        now: Instant,
    ) -> Result<(), String> {
        let mut known = self.known();
        let Some(silent) = known.get_mut(workspace) else {
            return Ok(());
        };
        if silent.instance != instance {
            known.remove(workspace);
            return Ok(());
        }
        if now.duration_since(silent.since) < QUIET {
            return Err(silent.message.clone());
        }
        silent.since = now;
        Ok(())
    }

    /// What came of a question that was asked at `asked`.
    pub(super) fn learn(
        &self,
        (workspace, instance): (&str, &str),
        answer: Result<(), &str>,
        asked: Instant,
        now: Instant,
    ) {
        match answer {
            Err(message) if now.duration_since(asked) >= LONG => {
                let silent = Silent {
                    instance: instance.to_owned(),
                    since: now,
                    message: message.to_owned(),
                };
                self.known().insert(workspace.to_owned(), silent);
            }
            _ => self.forget(workspace),
        }
    }

    /// The workspace is gone, or its agent speaks.
    pub(super) fn forget(&self, workspace: &str) {
        self.known().remove(workspace);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Silent>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LATE: &str = "the agent did not answer in time";

    /// An agent that kept its caller waiting until now.
    fn silent() -> (Silence, Instant) {
        let (silence, asked) = (Silence::default(), Instant::now());
        let now = asked + 10 * SECOND;
        silence.learn(("ws", "pod-1"), Err(LATE), asked, now);
        (silence, now)
    }

    #[test]
    fn one_caller_asks_an_agent_that_is_silent() {
        let (silence, now) = silent();
        let ask = |seconds: u32| silence.may_ask("ws", "pod-1", now + seconds * SECOND);
        assert_eq!([ask(0), ask(9)], [Err(LATE.into()), Err(LATE.into())]);
        assert_eq!(ask(10), Ok(()), "one finds out");
        assert_eq!(ask(11), Err(LATE.into()), "the others don't wait with it");
        assert_eq!(ask(20), Ok(()), "if that one was lost, the next one does");
    }

    #[test]
    fn an_agent_that_speaks_again_is_asked_by_all() {
        let (silence, now) = silent();
        assert_eq!(silence.may_ask("ws", "pod-1", now + 10 * SECOND), Ok(()));
        let heard = now + 11 * SECOND;
        silence.learn(("ws", "pod-1"), Ok(()), now, heard);
        for _ in 0..3 {
            assert_eq!(silence.may_ask("ws", "pod-1", heard), Ok(()));
        }
    }

    #[test]
    fn nobody_else_is_silent() {
        let (silence, now) = silent();
        assert_eq!(silence.may_ask("other", "pod-1", now), Ok(()));
        assert_eq!(silence.may_ask("ws", "pod-2", now), Ok(()), "another pod");
        assert_eq!(
            silence.may_ask("ws", "pod-1", now),
            Ok(()),
            "it is forgotten"
        );
    }

    #[test]
    fn an_agent_that_refuses_at_once_is_not_silent() {
        let (silence, asked) = (Silence::default(), Instant::now());
        silence.learn(("ws", "pod-1"), Err("refused"), asked, asked + SECOND);
        assert_eq!(silence.may_ask("ws", "pod-1", asked + SECOND), Ok(()));
        let (silence, now) = silent();
        silence.forget("ws");
        assert_eq!(silence.may_ask("ws", "pod-1", now), Ok(()));
    }
}
