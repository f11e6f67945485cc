use super::*;

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
        self.schedule
            .add_subscriber(&key, key, interval, true, self.now);
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
    fixture.schedule.remove_subscriber(&"a", 2 * MINUTE);
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
    fixture
        .schedule
        .add_subscriber(&"a", "a", MINUTE, false, fixture.now);
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
    fixture.schedule.remove_subscriber(&"a", MINUTE);
    assert_eq!(fixture.schedule.counts(), (2, 1));
    fixture.schedule.remove_subscriber(&"a", MINUTE);
    fixture.schedule.remove_subscriber(&"a", MINUTE);
    assert_eq!(fixture.schedule.counts(), (1, 1));
    // A request without subscribers keeps its slot until it ends.
    fixture.schedule.remove_subscriber(&"b", MINUTE);
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
    fixture.schedule.remove_subscriber(&"b", MINUTE);
    assert_eq!(fixture.schedule.counts(), (0, 0));
    assert!(fixture.schedule.in_flight_by_host.is_empty() && fixture.schedule.queue.is_empty());
    assert_eq!(fixture.schedule.unproven, 0);
}

const MANY: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[test]
fn schedule_requests_per_host_are_limited() {
    let mut fixture = ScheduleFixture::with(PollerSettings {
        max_in_flight_per_host: 2,
        ..PollerSettings::default()
    });
    for key in MANY {
        fixture
            .schedule
            .add_subscriber(&key, "slow.example.com", MINUTE, true, fixture.now);
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
    for key in MANY {
        fixture.join(key, MINUTE);
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

#[test]
fn schedule_jitter_is_deterministic() {
    let numbers = |seed| {
        let mut schedule = Schedule::<u8>::new(PollerSettings::default(), seed);
        (0..5).map(|_| schedule.next_jitter().0).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}
