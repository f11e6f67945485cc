use std::cell::Cell;

use super::*;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// The search for the next repository calls this: its work is counted, not timed.
pub(super) fn count_visit() {
    VISITS.set(VISITS.get() + 1);
}

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

/// A schedule with a manual clock.
struct ScheduleFixture {
    schedule: Schedule<&'static str>,
    now: Instant,
    begin: Instant,
}

impl ScheduleFixture {
    fn new() -> Self {
        Self::with(PollerSettings::default())
    }

    fn with(settings: PollerSettings) -> Self {
        let begin = Instant::now();
        Self {
            schedule: Schedule::new(settings, 7),
            now: begin,
            begin,
        }
    }

    fn join(&mut self, key: &'static str, interval: Duration) {
        self.join_as("tenant", key, interval);
    }

    /// Each repository has a host of its own.
    fn join_as(&mut self, tenant: &str, key: &'static str, interval: Duration) {
        let terms = SubscriberTerms::new(tenant, interval);
        self.schedule
            .add_subscriber(&key, key, &terms, true, self.now);
    }

    fn leave(&mut self, key: &'static str, interval: Duration) {
        let terms = SubscriberTerms::new("tenant", interval);
        self.schedule.remove_subscriber(&key, &terms);
    }

    /// Advances to the next due time and starts what is due.
    fn run(&mut self) -> Vec<&'static str> {
        let next = self.schedule.next().expect("something is due some time");
        self.now = self.now.max(next);
        self.schedule.start(self.now)
    }

    fn answered(&mut self, key: &'static str) {
        self.schedule.finish(&key, ListOutcome::Answered, self.now);
    }

    fn failed(&mut self, key: &'static str, retry_after: Option<Duration>) {
        let outcome = ListOutcome::Failed { retry_after };
        self.schedule.finish(&key, outcome, self.now);
    }

    /// The time since the last call.
    fn pass(&mut self) -> Duration {
        let passed = self.now - self.begin;
        self.begin = self.now;
        passed
    }
}

/// Within the jitter.
fn is_about(time: Duration, expected: Duration) -> bool {
    (expected * 9 / 10..=expected * 11 / 10).contains(&time)
}

#[test]
fn schedule_subscribers_share_one_request() {
    let mut fixture = ScheduleFixture::new();
    for _ in 0..100 {
        fixture.join("a", MINUTE);
    }
    assert_eq!(fixture.run(), ["a"]);
    assert_eq!(
        fixture.pass(),
        fixture.schedule.settings.debounce,
        "those who come at once gather"
    );
    for _ in 0..10 {
        assert_eq!(
            fixture.schedule.start(fixture.now + 10 * MINUTE),
            [""; 0],
            "one at a time"
        );
        fixture.answered("a");
        assert_eq!(fixture.run(), ["a"]);
        let passed = fixture.pass();
        assert!(is_about(passed, MINUTE), "{passed:?}");
    }
}

#[test]
fn schedule_uses_shortest_interval_with_minimum() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", 10 * MINUTE);
    fixture.join("a", 2 * MINUTE);
    fixture.run();
    fixture.answered("a");
    fixture.pass();
    fixture.run();
    let passed = fixture.pass();
    assert!(is_about(passed, 2 * MINUTE), "{passed:?}");
    fixture.leave("a", 2 * MINUTE);
    fixture.answered("a");
    fixture.run();
    let passed = fixture.pass();
    assert!(is_about(passed, 10 * MINUTE), "{passed:?}");
    fixture.join("a", Duration::ZERO);
    fixture.answered("a");
    fixture.pass();
    fixture.run();
    let passed = fixture.pass();
    assert!(passed < SECOND, "the one who came meanwhile: {passed:?}");
    fixture.answered("a");
    fixture.run();
    let passed = fixture.pass();
    assert!(
        is_about(passed, fixture.schedule.settings.min_interval),
        "{passed:?}"
    );
}

#[test]
fn schedule_shorter_interval_moves_due_time() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", 10 * MINUTE);
    fixture.run();
    fixture.answered("a");
    fixture.pass();
    let terms = SubscriberTerms::new("tenant", MINUTE);
    fixture
        .schedule
        .add_subscriber(&"a", "a", &terms, false, fixture.now);
    fixture.run();
    assert_eq!(fixture.pass(), MINUTE);
}

#[test]
fn schedule_jitter_spreads_repositories() {
    let mut times = Vec::new();
    let mut fixture = ScheduleFixture::new();
    for key in ["a", "b", "c", "d"] {
        fixture.join(key, MINUTE);
    }
    assert_eq!(fixture.run().len(), 4);
    for key in ["a", "b", "c", "d"] {
        fixture.answered(key);
    }
    for _ in 0..4 {
        times.push((fixture.run(), fixture.now));
    }
    assert!(times.iter().all(|(keys, _)| keys.len() == 1), "{times:?}");
}

#[test]
fn schedule_backoff_doubles_and_resets_on_success() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", MINUTE);
    fixture.run();
    fixture.pass();
    for seconds in [30, 60, 120, 240, 480, 600, 600, 600] {
        fixture.failed("a", None);
        fixture.run();
        let passed = fixture.pass();
        assert!(
            is_about(passed, seconds * SECOND),
            "{passed:?} for {seconds}"
        );
    }
    fixture.answered("a");
    fixture.run();
    let passed = fixture.pass();
    assert!(is_about(passed, MINUTE), "{passed:?}");
}

#[test]
fn schedule_backoff_reaches_a_longer_interval() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", 60 * MINUTE);
    fixture.run();
    for _ in 0..30 {
        fixture.pass();
        fixture.failed("a", None);
        fixture.run();
    }
    let passed = fixture.pass();
    assert!(is_about(passed, 60 * MINUTE), "{passed:?}");
}

#[test]
fn retry_after_is_respected() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", MINUTE);
    fixture.run();
    fixture.pass();
    fixture.failed("a", Some(5 * MINUTE));
    fixture.schedule.request_poll(&"a", fixture.now + SECOND);
    fixture.join("a", MINUTE);
    fixture.run();
    assert_eq!(
        fixture.pass(),
        5 * MINUTE,
        "a requested poll does not shorten it"
    );
    fixture.failed("a", Some(SECOND));
    fixture.run();
    let passed = fixture.pass();
    assert!(
        is_about(passed, MINUTE),
        "our own wait is longer: {passed:?}"
    );
    fixture.failed("a", Some(10_000 * MINUTE));
    fixture.run();
    assert_eq!(fixture.pass(), 60 * MINUTE, "there is an end to that");
}

#[test]
fn schedule_requested_poll_is_debounced() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", MINUTE);
    fixture.run();
    fixture.answered("a");
    fixture.now += 10 * SECOND;
    fixture.pass();
    fixture.schedule.request_poll(&"a", fixture.now);
    assert_eq!(fixture.run(), ["a"]);
    assert_eq!(fixture.pass(), Duration::ZERO);
    // While a request is in flight, and just after.
    fixture.schedule.request_poll(&"a", fixture.now);
    fixture.schedule.request_poll(&"a", fixture.now);
    fixture.answered("a");
    fixture.schedule.request_poll(&"a", fixture.now);
    assert_eq!(fixture.run(), ["a"]);
    assert_eq!(fixture.pass(), fixture.schedule.settings.debounce);
    fixture.answered("a");
    fixture.run();
    let passed = fixture.pass();
    assert!(is_about(passed, MINUTE), "{passed:?}");
    fixture.schedule.request_poll(&"unknown", fixture.now);
}

#[test]
fn schedule_requested_poll_ends_backoff() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", MINUTE);
    fixture.run();
    fixture.failed("a", None);
    fixture.pass();
    fixture.join("a", MINUTE);
    fixture.now += SECOND;
    assert_eq!(fixture.schedule.start(fixture.now), [""; 0]);
    fixture.schedule.request_poll(&"a", fixture.now);
    assert_eq!(fixture.schedule.start(fixture.now), ["a"]);
}

#[test]
fn schedule_last_subscriber_removes_repository() {
    let mut fixture = ScheduleFixture::new();
    fixture.join("a", MINUTE);
    fixture.join("a", MINUTE);
    fixture.join("b", MINUTE);
    fixture.run();
    fixture.answered("a");
    fixture.leave("a", MINUTE);
    assert_eq!(fixture.schedule.counts(), (2, 1));
    fixture.leave("a", MINUTE);
    fixture.leave("a", MINUTE);
    assert_eq!(fixture.schedule.counts(), (1, 1));
    // A request without subscribers keeps its slot until it ends.
    fixture.leave("b", MINUTE);
    assert_eq!(fixture.schedule.counts(), (0, 1));
    assert_eq!(fixture.schedule.next(), None);
    fixture.join("b", MINUTE);
    assert_eq!(
        fixture.schedule.start(fixture.now + MINUTE),
        [""; 0],
        "one at a time"
    );
    fixture.answered("b");
    assert_eq!(
        fixture.run(),
        ["b"],
        "the one who came back has not had its answer"
    );
    fixture.answered("b");
    fixture.leave("b", MINUTE);
    assert_eq!(fixture.schedule.counts(), (0, 0));
    assert!(fixture.schedule.slots.is_unused() && fixture.schedule.rounds.is_empty());
}

const MANY: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[test]
fn schedule_requests_per_host_are_limited() {
    let mut fixture = ScheduleFixture::with(PollerSettings {
        max_in_flight_per_host: 4,
        ..PollerSettings::default()
    });
    let terms = SubscriberTerms::new("tenant", MINUTE);
    for key in MANY {
        fixture
            .schedule
            .add_subscriber(&key, "slow.example.com", &terms, true, fixture.now);
    }
    fixture.join("other", MINUTE);
    let started = fixture.run();
    assert_eq!(started.len(), 3);
    assert!(started.contains(&"other"));
    assert_eq!(fixture.schedule.start(fixture.now + MINUTE), [""; 0]);
    assert_eq!(
        fixture.schedule.next(),
        None,
        "there is nothing to wake up for"
    );
    let first = started.iter().find(|key| **key != "other").unwrap();
    fixture.answered(first);
    assert_eq!(fixture.schedule.start(fixture.now).len(), 1);
}

#[test]
fn schedule_hanging_servers_use_half_of_the_slots() {
    let mut fixture = ScheduleFixture::with(PollerSettings {
        max_in_flight: 4,
        ..PollerSettings::default()
    });
    fixture.join("good", MINUTE);
    assert_eq!(fixture.run(), ["good"]);
    fixture.answered("good");
    for (tenant, key) in ["one", "two"].into_iter().cycle().zip(MANY) {
        fixture.join_as(tenant, key, MINUTE);
    }
    fixture.now += 30 * SECOND;
    assert_eq!(
        fixture.schedule.start(fixture.now).len(),
        2,
        "of those that never answered"
    );
    fixture.now += MINUTE;
    assert_eq!(fixture.schedule.start(fixture.now), ["good"]);
    fixture.answered("good");
    // Longest waiting first.
    let hanging: Vec<_> = fixture.schedule.in_flight.keys().copied().collect();
    for key in &hanging {
        fixture.failed(key, None);
    }
    fixture.now += MINUTE;
    let next = fixture.schedule.start(fixture.now);
    let next: Vec<_> = next.into_iter().filter(|key| *key != "good").collect();
    assert_eq!(next.len(), 2);
    assert!(
        next.iter().all(|key| !hanging.contains(key)),
        "{next:?} after {hanging:?}"
    );
}

/// Names of repositories.
fn names(prefix: &str, count: usize) -> Vec<&'static str> {
    let name = |number| &*format!("{prefix}-{number}").leak();
    (0..count).map(name).collect()
}

#[test]
fn schedule_hanging_hosts_of_a_tenant_delay_no_other_tenant() {
    let mut fixture = ScheduleFixture::new();
    for key in names("hanging", 10_000) {
        fixture.join_as("hostile", key, MINUTE);
    }
    assert_eq!(fixture.run().len(), 8, "a quarter of the slots");
    fixture.join_as("victim", "good", MINUTE);
    assert_eq!(fixture.run(), ["good"]);
    assert!(fixture.pass() <= 2 * fixture.schedule.settings.debounce);
}

/// Servers that answer once, so that they count as proven, and hang from then on.
#[test]
fn schedule_hosts_that_hang_later_delay_no_other_tenant() {
    let mut fixture = ScheduleFixture::new();
    for key in names("hanging", 1000) {
        fixture.join_as("hostile", key, MINUTE);
    }
    loop {
        let started = fixture.run();
        if fixture.now > fixture.begin + 5 * MINUTE {
            break;
        }
        for key in &started {
            fixture.answered(key);
        }
    }
    fixture.now += 10 * MINUTE;
    fixture.schedule.start(fixture.now);
    assert_eq!(fixture.schedule.counts().1, 16, "half of the slots");
    fixture.join_as("victim", "good", MINUTE);
    fixture.now += SECOND;
    assert_eq!(fixture.schedule.start(fixture.now), ["good"]);
}

/// Several tenants together take all slots; the next one that is free is the victim's.
#[test]
fn schedule_free_slot_goes_to_the_tenant_with_the_fewest() {
    let mut fixture = ScheduleFixture::new();
    let tenants = names("hostile", 8);
    for tenant in &tenants {
        for key in names(tenant, 100) {
            fixture.join_as(tenant, key, MINUTE);
        }
    }
    let started = fixture.run();
    assert_eq!(started.len(), 16);
    for tenant in &tenants {
        let own = started.iter().filter(|key| key.starts_with(tenant)).count();
        assert_eq!(own, 2, "each has its share");
    }
    fixture.join_as("victim", "good", MINUTE);
    fixture.now += SECOND;
    assert_eq!(fixture.schedule.start(fixture.now), [""; 0]);
    fixture.failed(started[0], None);
    assert_eq!(fixture.schedule.start(fixture.now), ["good"]);
}

#[test]
fn schedule_shared_repository_is_in_the_round_of_each_tenant() {
    let mut fixture = ScheduleFixture::new();
    for key in names("hanging", 100) {
        fixture.join_as("hostile", key, MINUTE);
    }
    fixture.run();
    fixture.join_as("hostile", "shared", MINUTE);
    fixture.now += SECOND;
    assert_eq!(fixture.schedule.start(fixture.now), [""; 0]);
    fixture.join_as("victim", "shared", MINUTE);
    fixture.now += SECOND;
    assert_eq!(fixture.schedule.start(fixture.now), ["shared"]);
    fixture.answered("shared");
    assert_eq!(fixture.run(), ["shared"], "once for both");
    let terms = SubscriberTerms::new("victim", MINUTE);
    fixture.schedule.remove_subscriber(&"shared", &terms);
    fixture.answered("shared");
    assert!(
        fixture.schedule.next().is_some(),
        "the other follows it still"
    );
}

#[test]
fn schedule_work_does_not_grow_with_the_number_of_repositories() {
    let visits = |count| {
        let mut fixture = ScheduleFixture::new();
        for key in names("hanging", count) {
            fixture.join_as("hostile", key, MINUTE);
        }
        let before = VISITS.get();
        for _ in 0..100 {
            for key in fixture.run() {
                fixture.failed(key, None);
            }
        }
        VISITS.get() - before
    };
    let (few, many) = (visits(1_000), visits(10_000));
    println!("visits for 1,000 and 10,000 repositories: {few} and {many}");
    assert!(many <= few * 2, "{few} and {many}");
}

/// `Instant` can't hold the sum of now and what a spec may say.
#[test]
fn schedule_interval_has_a_maximum() {
    let mut fixture = ScheduleFixture::new();
    let forever = Duration::from_secs(i64::MAX.unsigned_abs());
    fixture.join("a", forever);
    fixture.run();
    fixture.answered("a");
    fixture.pass();
    fixture.run();
    let passed = fixture.pass();
    assert!(is_about(passed, Duration::from_hours(24)), "{passed:?}");
    for _ in 0..100 {
        fixture.failed("a", None);
        fixture.run();
    }
    fixture.join("a", MINUTE);
    fixture.answered("a");
    fixture.pass();
    fixture.run();
    let passed = fixture.pass();
    assert!(
        is_about(passed, MINUTE),
        "the other is not frozen: {passed:?}"
    );
    fixture.leave("a", forever);
    fixture.leave("a", MINUTE);
    assert_eq!(fixture.schedule.next(), None);
}

#[test]
fn schedule_jitter_is_deterministic() {
    let numbers = |seed| {
        let mut schedule = Schedule::<u8>::new(PollerSettings::default(), seed);
        (0..5).map(|_| schedule.next_jitter().0).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}
