//! Decides which request or event meets which fault, by counting. Nothing is random.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::request::ApiRequest;
use super::{ApiWrite, KillPoint, WriteFailure};

/// The action at a kill point.
pub(super) type KillAction = Arc<dyn Fn() + Send + Sync>;

/// The active faults, and the counts.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) writes: Vec<ApiWrite>,
    pub(super) count_events: bool,
    kill: Option<PendingKill>,
    failures: Option<PendingFailures>,
    delays: BTreeMap<String, Duration>,
    drops: BTreeMap<String, EveryNth>,
    /// Coalescing windows by resource.
    windows: BTreeMap<String, Duration>,
    /// How many writes and events a fault has hit.
    pub(super) fault_count: usize,
    /// Connections that were made before this many kills are dead.
    pub(super) kills: usize,
}

struct PendingKill {
    /// How many writes are still to come, this one included.
    left: usize,
    when: KillPoint,
    action: KillAction,
}

struct PendingFailures {
    every: EveryNth,
    how: WriteFailure,
}

impl PendingFailures {
    fn next(&mut self) -> RequestAction {
        if self.every.advance() {
            RequestAction::Fail(self.how)
        } else {
            RequestAction::Pass
        }
    }
}

#[derive(Default)]
struct EveryNth {
    nth: usize,
    seen: usize,
}

impl EveryNth {
    fn new(nth: usize, seen: usize) -> Self {
        Self { nth, seen }
    }

    fn advance(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(self.nth.max(1))
    }
}

pub(super) enum RequestAction {
    Pass,
    PendingKill(KillPoint, KillAction),
    Fail(WriteFailure),
}

impl Rules {
    pub(super) fn kill_at(&mut self, left: usize, when: KillPoint, action: KillAction) {
        self.kill = Some(PendingKill { left, when, action });
    }

    pub(super) fn fail(&mut self, nth: usize, seen: usize, how: WriteFailure) {
        let every = EveryNth::new(nth, seen);
        self.failures = Some(PendingFailures { every, how });
    }

    pub(super) fn delay(&mut self, resource: &str, delay: Duration) {
        self.delays.insert(resource.to_owned(), delay);
    }

    pub(super) fn drop_every(&mut self, resource: &str, nth: usize) {
        self.drops
            .insert(resource.to_owned(), EveryNth::new(nth, 0));
    }

    pub(super) fn coalesce(&mut self, resource: &str, window: Duration) {
        self.windows.insert(resource.to_owned(), window);
    }

    pub(super) fn clear_faults(&mut self) {
        self.kill = None;
        self.failures = None;
        self.delays.clear();
        self.drops.clear();
        self.windows.clear();
    }

    /// Counts a request and judges it. If the action is to kill, all current connections are
    /// dead: no later write comes between that and the action.
    pub(super) fn decide(&mut self, request_info: &ApiRequest) -> RequestAction {
        if !request_info.is_write(self.count_events) {
            return RequestAction::Pass;
        }
        self.writes.push(ApiWrite {
            method: request_info.method.to_string(),
            path: request_info.path.clone(),
        });
        if let Some(kill) = &mut self.kill {
            kill.left = kill.left.saturating_sub(1);
        }
        if let Some(kill) = self.kill.take_if(|kill| kill.left == 0) {
            self.kills += 1;
            self.fault_count += 1;
            return RequestAction::PendingKill(kill.when, kill.action);
        }
        let failures = self.failures.as_mut();
        let action_taken = failures.map_or(RequestAction::Pass, PendingFailures::next);
        self.fault_count += usize::from(matches!(action_taken, RequestAction::Fail(_)));
        action_taken
    }

    pub(super) fn event_action(&mut self, resource: &str, line: &[u8]) -> EventAction {
        let event_action = self.next_event_action(resource, line);
        self.fault_count += usize::from(event_action != EventAction::Deliver(Duration::ZERO));
        event_action
    }

    fn next_event_action(&mut self, resource: &str, line: &[u8]) -> EventAction {
        let drops = self.drops.get_mut(resource);
        if is_modification(line) && drops.is_some_and(EveryNth::advance) {
            return EventAction::Drop;
        }
        let delay = self.delays.get(resource).copied().unwrap_or_default();
        match self.windows.get(resource) {
            Some(window) => EventAction::Coalesce(delay + *window),
            None => EventAction::Deliver(delay),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventAction {
    Drop,
    /// It comes so much later.
    Deliver(Duration),
    /// It comes so much later, unless there is a newer one of its object by then.
    Coalesce(Duration),
}

/// Events begin with their type.
pub(super) fn is_modification(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"MODIFIED""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(rules: &mut Rules) -> &'static str {
        let path = "/api/v1/namespaces/a/pods/b".parse().unwrap();
        match rules.decide(&ApiRequest::of(&http::Method::PATCH, &path)) {
            RequestAction::Pass => "pass",
            RequestAction::PendingKill(..) => "kill",
            RequestAction::Fail(_) => "fail",
        }
    }

    #[test]
    fn kill_rule_fires_once_at_nth_write() {
        let mut rules = Rules::default();
        assert_eq!(write(&mut rules), "pass");
        rules.kill_at(3, KillPoint::Before, Arc::new(|| ()));
        let verdicts: Vec<&str> = (0..5).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["pass", "pass", "kill", "pass", "pass"]);
        assert_eq!((rules.writes.len(), rules.kills), (6, 1));
        assert_eq!(rules.writes[0].method, "PATCH");
    }

    #[test]
    fn failure_rule_fails_every_nth_write_until_cleared() {
        let mut rules = Rules::default();
        rules.fail(2, 0, WriteFailure::TooManyRequests);
        let verdicts: Vec<&str> = (0..4).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["pass", "fail", "pass", "fail"]);
        rules.fail(3, 2, WriteFailure::TooManyRequests);
        let verdicts: Vec<&str> = (0..4).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["fail", "pass", "pass", "fail"]);
        rules.clear_faults();
        assert_eq!([write(&mut rules), write(&mut rules)], ["pass", "pass"]);
    }

    #[test]
    fn failure_rule_ignores_reads() {
        let mut rules = Rules::default();
        rules.fail(1, 0, WriteFailure::ServerError);
        let path = "/api/v1/pods".parse().unwrap();
        let action_taken = rules.decide(&ApiRequest::of(&http::Method::GET, &path));
        assert!(matches!(action_taken, RequestAction::Pass) && rules.writes.is_empty());
    }

    #[test]
    fn watch_events_are_dropped_delayed_or_coalesced() {
        let mut rules = Rules::default();
        let (modified, added) = (
            br#"{"type":"MODIFIED","object":{}}"#,
            br#"{"type":"ADDED"}"#,
        );
        rules.drop_every("updates", 2);
        rules.delay("updates", Duration::from_secs(1));
        let second = EventAction::Deliver(Duration::from_secs(1));
        let lines: [&[u8]; 4] = [modified, added, modified, modified];
        let fates = lines.map(|line| rules.event_action("updates", line));
        assert_eq!(fates, [second, second, EventAction::Drop, second]);
        let now = EventAction::Deliver(Duration::ZERO);
        assert_eq!(rules.event_action("stacks", modified), now);
        assert_eq!(rules.fault_count, 4, "all but the last one");
        rules.coalesce("stacks", Duration::from_secs(2));
        let gathered = EventAction::Coalesce(Duration::from_secs(2));
        assert_eq!(rules.event_action("stacks", modified), gathered);
        rules.clear_faults();
        assert_eq!(rules.event_action("stacks", modified), now);
    }
}
