//! Which request meets which fault: counted, never random; pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::request::Asked;
use super::{Failure, When, Write};

/// What is called when the moment has come.
pub(super) type Deed = Arc<dyn Fn() + Send + Sync>;

/// The faults that are set, and what was counted.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) writes: Vec<Write>,
    pub(super) count_events: bool,
    kill: Option<Kill>,
    failures: Option<Failures>,
    delays: BTreeMap<String, Duration>,
    drops: BTreeMap<String, Every>,
    /// For how long changes gather, of which the last is told.
    windows: BTreeMap<String, Duration>,
    /// How many writes and events a fault has met.
    pub(super) met: usize,
    /// Connections that were made before this many kills are dead.
    pub(super) kills: usize,
}

struct Kill {
    /// How many writes are still to come, this one included.
    left: usize,
    when: When,
    deed: Deed,
}

struct Failures {
    every: Every,
    how: Failure,
}

impl Failures {
    fn next(&mut self) -> Verdict {
        if self.every.is_due() {
            Verdict::Fail(self.how)
        } else {
            Verdict::Pass
        }
    }
}

/// Every n-th of something.
#[derive(Default)]
struct Every {
    nth: usize,
    seen: usize,
}

impl Every {
    /// After so many that were not seen.
    fn new(nth: usize, seen: usize) -> Self {
        Self { nth, seen }
    }

    fn is_due(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(self.nth.max(1))
    }
}

/// What happens to a request.
pub(super) enum Verdict {
    Pass,
    Kill(When, Deed),
    Fail(Failure),
}

impl Rules {
    pub(super) fn kill_at(&mut self, left: usize, when: When, deed: Deed) {
        self.kill = Some(Kill { left, when, deed });
    }

    pub(super) fn fail(&mut self, nth: usize, seen: usize, how: Failure) {
        let every = Every::new(nth, seen);
        self.failures = Some(Failures { every, how });
    }

    pub(super) fn delay(&mut self, resource: &str, delay: Duration) {
        self.delays.insert(resource.to_owned(), delay);
    }

    pub(super) fn drop_every(&mut self, resource: &str, nth: usize) {
        self.drops.insert(resource.to_owned(), Every::new(nth, 0));
    }

    pub(super) fn coalesce(&mut self, resource: &str, window: Duration) {
        self.windows.insert(resource.to_owned(), window);
    }

    pub(super) fn heal(&mut self) {
        self.kill = None;
        self.failures = None;
        self.delays.clear();
        self.drops.clear();
        self.windows.clear();
    }

    /// Counts a request and judges it. With the verdict to kill, all connections of now are dead: no
    /// later write comes between that and the deed.
    pub(super) fn judge(&mut self, asked: &Asked) -> Verdict {
        if !asked.is_write(self.count_events) {
            return Verdict::Pass;
        }
        self.writes.push(Write {
            method: asked.method.to_string(),
            path: asked.path.clone(),
        });
        if let Some(kill) = &mut self.kill {
            kill.left = kill.left.saturating_sub(1);
        }
        if let Some(kill) = self.kill.take_if(|kill| kill.left == 0) {
            self.kills += 1;
            self.met += 1;
            return Verdict::Kill(kill.when, kill.deed);
        }
        let failures = self.failures.as_mut();
        let verdict = failures.map_or(Verdict::Pass, Failures::next);
        self.met += usize::from(matches!(verdict, Verdict::Fail(_)));
        verdict
    }

    /// What becomes of an event of a watch.
    pub(super) fn fate_of(&mut self, resource: &str, line: &[u8]) -> Fate {
        let fate = self.next_fate(resource, line);
        self.met += usize::from(fate != Fate::Told(Duration::ZERO));
        fate
    }

    fn next_fate(&mut self, resource: &str, line: &[u8]) -> Fate {
        let drops = self.drops.get_mut(resource);
        if is_modification(line) && drops.is_some_and(Every::is_due) {
            return Fate::Dropped;
        }
        let delay = self.delays.get(resource).copied().unwrap_or_default();
        match self.windows.get(resource) {
            Some(window) => Fate::Gathered(delay + *window),
            None => Fate::Told(delay),
        }
    }
}

/// What becomes of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It never comes.
    Dropped,
    /// It comes so much later.
    Told(Duration),
    /// It comes so much later, unless there is a newer one of its object by then.
    Gathered(Duration),
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
        match rules.judge(&Asked::of(&http::Method::PATCH, &path)) {
            Verdict::Pass => "pass",
            Verdict::Kill(..) => "kill",
            Verdict::Fail(_) => "fail",
        }
    }

    #[test]
    fn the_third_write_from_now_kills_once() {
        let mut rules = Rules::default();
        assert_eq!(write(&mut rules), "pass");
        rules.kill_at(3, When::Before, Arc::new(|| ()));
        let verdicts: Vec<&str> = (0..5).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["pass", "pass", "kill", "pass", "pass"]);
        assert_eq!((rules.writes.len(), rules.kills), (6, 1));
        assert_eq!(rules.writes[0].method, "PATCH");
    }

    #[test]
    fn every_second_write_fails_until_all_is_well() {
        let mut rules = Rules::default();
        rules.fail(2, 0, Failure::TooManyRequests);
        let verdicts: Vec<&str> = (0..4).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["pass", "fail", "pass", "fail"]);
        rules.fail(3, 2, Failure::TooManyRequests);
        let verdicts: Vec<&str> = (0..4).map(|_| write(&mut rules)).collect();
        assert_eq!(verdicts, ["fail", "pass", "pass", "fail"]);
        rules.heal();
        assert_eq!([write(&mut rules), write(&mut rules)], ["pass", "pass"]);
    }

    #[test]
    fn reads_are_not_counted() {
        let mut rules = Rules::default();
        rules.fail(1, 0, Failure::ServerError);
        let path = "/api/v1/pods".parse().unwrap();
        let verdict = rules.judge(&Asked::of(&http::Method::GET, &path));
        assert!(matches!(verdict, Verdict::Pass) && rules.writes.is_empty());
    }

    #[test]
    fn events_of_a_watch_are_dropped_gathered_or_late() {
        let mut rules = Rules::default();
        let (modified, added) = (
            br#"{"type":"MODIFIED","object":{}}"#,
            br#"{"type":"ADDED"}"#,
        );
        rules.drop_every("updates", 2);
        rules.delay("updates", Duration::from_secs(1));
        let second = Fate::Told(Duration::from_secs(1));
        let lines: [&[u8]; 4] = [modified, added, modified, modified];
        let fates = lines.map(|line| rules.fate_of("updates", line));
        assert_eq!(fates, [second, second, Fate::Dropped, second]);
        let now = Fate::Told(Duration::ZERO);
        assert_eq!(rules.fate_of("stacks", modified), now);
        assert_eq!(rules.met, 4, "all but the last one");
        rules.coalesce("stacks", Duration::from_secs(2));
        let gathered = Fate::Gathered(Duration::from_secs(2));
        assert_eq!(rules.fate_of("stacks", modified), gathered);
        rules.heal();
        assert_eq!(rules.fate_of("stacks", modified), now);
    }
}
