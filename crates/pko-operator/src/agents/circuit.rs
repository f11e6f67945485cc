//! A circuit breaker for agents that don't respond, or slowly: one caller tries again after a
//! while, all others fail at once. Without it, each Update of such an agent would occupy a worker,
//! and Updates elsewhere would wait. The agents of one namespace together occupy a few workers at
//! most.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use crate::workspace_runtime::AgentTarget;

/// A call that takes this long opens the circuit; a fast failure does not.
const SLOW: Duration = Duration::from_secs(3);
/// How long others fail at once, after a failure and during a retry.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// How many agents of a namespace that were slow are tried at a time.
const MAX_RETRIES: usize = 2;

/// By the uid of the Workspace.
#[derive(Clone, Default)]
pub(super) struct UnresponsiveAgents {
    agents: Arc<Mutex<HashMap<String, UnresponsiveAgent>>>,
    /// How many are being tried again, by namespace.
    retries: Arc<Mutex<HashMap<String, usize>>>,
}

struct UnresponsiveAgent {
    instance: String,
    since: Instant,
    message: String,
}

/// Permission to try an agent again, until it is dropped.
pub(crate) struct RetryPermit {
    retries: Arc<Mutex<HashMap<String, usize>>>,
    namespace: String,
}

impl Drop for RetryPermit {
    fn drop(&mut self) {
        let mut retries = self.retries.lock();
        if let Some(count) = retries.get_mut(&self.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                retries.remove(&self.namespace);
            }
        }
    }
}

impl UnresponsiveAgents {
    /// Fails with the last error while the circuit is open. The first caller after the cool-down
    /// gets a permit, and has to [`Self::record`] its result.
    pub(super) fn check(
        &self,
        workspace: &str,
        agent: &AgentTarget,
        now: Instant,
    ) -> Result<Option<RetryPermit>, String> {
        let mut agents = self.agents();
        let Some(known) = agents.get_mut(workspace) else {
            return Ok(None);
        };
        if known.instance != agent.instance {
            agents.remove(workspace);
            return Ok(None);
        }
        if now.saturating_duration_since(known.since) < COOL_DOWN {
            return Err(known.message.clone());
        }
        let permit = self.retry_permit(&agent.namespace);
        let permit = permit.ok_or_else(|| known.message.clone())?;
        known.since = now;
        Ok(Some(permit))
    }

    fn retry_permit(&self, namespace: &str) -> Option<RetryPermit> {
        let mut retries = self.retries.lock();
        let count = retries.entry(namespace.to_owned()).or_default();
        if *count >= MAX_RETRIES {
            return None;
        }
        *count += 1;
        Some(RetryPermit {
            retries: Arc::clone(&self.retries),
            namespace: namespace.to_owned(),
        })
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
        if now.saturating_duration_since(asked) < SLOW {
            return self.forget(workspace);
        }
        let slow = "the workspace's agent responds slowly; one call at a time is made";
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
    use crate::agents::Credentials;

    const SECOND: Duration = Duration::from_secs(1);
    const LATE: &str = "the agent did not answer in time";

    fn target(instance: &str) -> AgentTarget {
        AgentTarget {
            address: "unix:/run/ws".to_owned(),
            credentials: Credentials::None,
            instance: instance.to_owned(),
            namespace: "ns".to_owned(),
            owns_runs: true,
        }
    }

    fn agent() -> (UnresponsiveAgents, Instant) {
        let (circuit, asked) = (UnresponsiveAgents::default(), Instant::now());
        let now = asked + 10 * SECOND;
        circuit.record(("ws", "pod-1"), Err(LATE), asked, now);
        (circuit, now)
    }

    /// The result of a check whose caller is done at once.
    fn check(
        circuit: &UnresponsiveAgents,
        workspace: &str,
        instance: &str,
        now: Instant,
    ) -> Result<(), String> {
        circuit.check(workspace, &target(instance), now).map(drop)
    }

    #[test]
    fn circuit_lets_one_caller_retry() {
        let (circuit, now) = agent();
        let ask = |seconds: u32| check(&circuit, "ws", "pod-1", now + seconds * SECOND);
        assert_eq!([ask(0), ask(9)], [Err(LATE.into()), Err(LATE.into())]);
        assert_eq!(ask(10), Ok(()), "one finds out");
        assert_eq!(ask(11), Err(LATE.into()), "the others don't wait with it");
        assert_eq!(ask(20), Ok(()), "if that one was lost, the next one does");
    }

    #[test]
    fn circuit_closes_when_the_agent_responds() {
        let (circuit, now) = agent();
        assert_eq!(check(&circuit, "ws", "pod-1", now + 10 * SECOND), Ok(()));
        let heard = now + 11 * SECOND;
        circuit.record(("ws", "pod-1"), Ok(()), heard, heard);
        for _ in 0..3 {
            assert_eq!(check(&circuit, "ws", "pod-1", heard), Ok(()));
        }
    }

    #[test]
    fn circuit_opens_for_a_slow_answer() {
        let (circuit, asked) = (UnresponsiveAgents::default(), Instant::now());
        let now = asked + 9 * SECOND;
        circuit.record(("ws", "pod-1"), Ok(()), asked, now);
        let message = check(&circuit, "ws", "pod-1", now).unwrap_err();
        assert!(message.contains("slowly"));
        assert_eq!(check(&circuit, "ws", "pod-1", now + 10 * SECOND), Ok(()));
    }

    /// 25 silent agents of one team would occupy all workers of a controller.
    #[test]
    fn circuit_tries_few_agents_of_a_namespace_at_a_time() {
        let (circuit, asked) = (UnresponsiveAgents::default(), Instant::now());
        let now = asked + 10 * SECOND;
        for number in 0..100 {
            let workspace = format!("ws-{number}");
            circuit.record((&workspace, "pod-1"), Err(LATE), asked, now);
        }
        let later = now + 10 * SECOND;
        let try_all = || {
            let all = (0..100).map(|number| {
                let permit = circuit.check(&format!("ws-{number}"), &target("pod-1"), later);
                permit.ok().flatten()
            });
            all.flatten().collect::<Vec<_>>()
        };
        let held = try_all();
        assert_eq!(held.len(), MAX_RETRIES);
        let mut other = target("pod-1");
        other.namespace = "other".to_owned();
        assert!(circuit.check("ws-99", &other, later).is_ok());
        assert_eq!(try_all().len(), 0);
        drop(held);
        assert_eq!(try_all().len(), MAX_RETRIES, "the next ones");
        assert!(circuit.retries.lock().is_empty());
    }

    #[test]
    fn circuit_is_per_agent() {
        let (circuit, now) = agent();
        assert_eq!(check(&circuit, "other", "pod-1", now), Ok(()));
        assert_eq!(check(&circuit, "ws", "pod-2", now), Ok(()), "another pod");
        assert_eq!(
            check(&circuit, "ws", "pod-1", now),
            Ok(()),
            "it is forgotten"
        );
    }

    #[test]
    fn circuit_stays_closed_after_a_fast_failure() {
        let (circuit, asked) = (UnresponsiveAgents::default(), Instant::now());
        circuit.record(("ws", "pod-1"), Err("refused"), asked, asked + SECOND);
        assert_eq!(check(&circuit, "ws", "pod-1", asked + SECOND), Ok(()));
        let (circuit, now) = agent();
        circuit.forget("ws");
        assert_eq!(check(&circuit, "ws", "pod-1", now), Ok(()));
    }
}
