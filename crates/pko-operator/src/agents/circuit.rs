//! A circuit breaker for agents that don't respond, or slowly: one caller tries again after a while, all
//! others fail at once. Without it, each Update of such an agent would occupy a worker, and Updates
//! elsewhere would wait.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

/// A call that takes this long opens the circuit; a fast failure does not.
const SLOW: Duration = Duration::from_secs(3);
/// How long others fail at once, after a failure and during a retry.
const COOL_DOWN: Duration = Duration::from_secs(10);

/// By the uid of the Workspace.
#[derive(Clone, Default)]
pub(super) struct UnresponsiveAgents {
    agents: Arc<Mutex<HashMap<String, UnresponsiveAgent>>>,
}

struct UnresponsiveAgent {
    instance: String,
    since: Instant,
    message: String,
}

impl UnresponsiveAgents {
    /// Fails with the last error while the circuit is open. The first caller after the cool-down
    /// gets through, and has to [`Self::record`] its result.
    pub(super) fn check(
        &self,
        workspace: &str,
        instance: &str,
        now: Instant,
    ) -> Result<(), String> {
        let mut agents = self.agents();
        let Some(agent) = agents.get_mut(workspace) else {
            return Ok(());
        };
        if agent.instance != instance {
            agents.remove(workspace);
            return Ok(());
        }
        if now.duration_since(agent.since) < COOL_DOWN {
            return Err(agent.message.clone());
        }
        agent.since = now;
        Ok(())
    }

    /// Records the result of a call that started at `asked`. A slow success opens the circuit, too:
    /// otherwise an agent that answers just in time would occupy a worker with each of its Updates.
    pub(super) fn record(
        &self,
        (workspace, instance): (&str, &str),
        answer: Result<(), &str>,
        asked: Instant,
        now: Instant,
    ) {
        if now.duration_since(asked) < SLOW {
            return self.forget(workspace);
        }
        let slow = "the workspace's agent responds slowly; one run at a time is looked after";
        let agent = UnresponsiveAgent {
            instance: instance.to_owned(),
            since: now,
            message: answer.err().unwrap_or(slow).to_owned(),
        };
        self.agents().insert(workspace.to_owned(), agent);
    }

    /// Closes the circuit.
    pub(super) fn forget(&self, workspace: &str) {
        self.agents().remove(workspace);
    }

    fn agents(&self) -> MutexGuard<'_, HashMap<String, UnresponsiveAgent>> {
        self.agents.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LATE: &str = "the agent did not answer in time";

    fn agent() -> (UnresponsiveAgents, Instant) {
        let (silence, asked) = (UnresponsiveAgents::default(), Instant::now());
        let now = asked + 10 * SECOND;
        silence.record(("ws", "pod-1"), Err(LATE), asked, now);
        (silence, now)
    }

    #[test]
    fn circuit_lets_one_caller_retry() {
        let (silence, now) = agent();
        let ask = |seconds: u32| silence.check("ws", "pod-1", now + seconds * SECOND);
        assert_eq!([ask(0), ask(9)], [Err(LATE.into()), Err(LATE.into())]);
        assert_eq!(ask(10), Ok(()), "one finds out");
        assert_eq!(ask(11), Err(LATE.into()), "the others don't wait with it");
        assert_eq!(ask(20), Ok(()), "if that one was lost, the next one does");
    }

    #[test]
    fn circuit_closes_when_the_agent_responds() {
        let (silence, now) = agent();
        assert_eq!(silence.check("ws", "pod-1", now + 10 * SECOND), Ok(()));
        let heard = now + 11 * SECOND;
        silence.record(("ws", "pod-1"), Ok(()), heard, heard);
        for _ in 0..3 {
            assert_eq!(silence.check("ws", "pod-1", heard), Ok(()));
        }
    }

    #[test]
    fn circuit_opens_for_a_slow_answer() {
        let (silence, asked) = (UnresponsiveAgents::default(), Instant::now());
        let now = asked + 9 * SECOND;
        silence.record(("ws", "pod-1"), Ok(()), asked, now);
        let message = silence.check("ws", "pod-1", now).unwrap_err();
        assert!(message.contains("slowly"));
        assert_eq!(silence.check("ws", "pod-1", now + 10 * SECOND), Ok(()));
    }

    #[test]
    fn circuit_is_per_agent() {
        let (silence, now) = agent();
        assert_eq!(silence.check("other", "pod-1", now), Ok(()));
        assert_eq!(silence.check("ws", "pod-2", now), Ok(()), "another pod");
        assert_eq!(silence.check("ws", "pod-1", now), Ok(()), "it is forgotten");
    }

    #[test]
    fn circuit_stays_closed_after_a_fast_failure() {
        let (silence, asked) = (UnresponsiveAgents::default(), Instant::now());
        silence.record(("ws", "pod-1"), Err("refused"), asked, asked + SECOND);
        assert_eq!(silence.check("ws", "pod-1", asked + SECOND), Ok(()));
        let (silence, now) = agent();
        silence.forget("ws");
        assert_eq!(silence.check("ws", "pod-1", now), Ok(()));
    }
}
