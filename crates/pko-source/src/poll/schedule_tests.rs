use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

/// A schedule with a clock that only moves when it is told to.
struct Desk {
    schedule: Schedule<&'static str>,
    now: Instant,
    begin: Instant,
}

impl Desk {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let begin = Instant::now();
        Self {
            schedule: Schedule::new(settings, 7),
            now: begin,
            begin,
        }
    }

    fn join(&mut self, key: &'static str, interval: Duration) {
        self.schedule.join(&key, key, interval, true, self.now);
    }

    /// Lets time pass until something is due, and gives what is.
    fn run(&mut self) -> Vec<&'static str> {
        let next = self.schedule.next().expect("something is due some time");
        self.now = self.now.max(next);
        self.schedule.start(self.now)
    }

    fn answered(&mut self, key: &'static str) {
        self.schedule.finish(&key, Outcome::Answered, self.now);
    }

    fn failed(&mut self, key: &'static str, retry_after: Option<Duration>) {
        let outcome = Outcome::Failed { retry_after };
        self.schedule.finish(&key, outcome, self.now);
    }

    /// How long after the last time this is.
    fn pass(&mut self) -> Duration {
        let passed = self.now - self.begin;
        self.begin = self.now;
        passed
    }
}

/// With the tenth that is left to chance.
fn is_about(time: Duration, expected: Duration) -> bool {
    (expected * 9 / 10..=expected * 11 / 10).contains(&time)
}

#[test]
fn a_repository_is_asked_once_in_each_interval_whoever_wants_to_know() {
    let mut desk = Desk::new();
    for _ in 0..100 {
        desk.join("a", MINUTE);
    }
    assert_eq!(desk.run(), ["a"]);
    assert_eq!(
        desk.pass(),
        desk.schedule.settings.moment,
        "those who come at once gather"
    );
    for _ in 0..10 {
        assert_eq!(
            desk.schedule.start(desk.now + 10 * MINUTE),
            [""; 0],
            "one at a time"
        );
        desk.answered("a");
        assert_eq!(desk.run(), ["a"]);
        let passed = desk.pass();
        assert!(is_about(passed, MINUTE), "{passed:?}");
    }
}

#[test]
fn the_shortest_interval_counts_and_has_a_limit() {
    let mut desk = Desk::new();
    desk.join("a", 10 * MINUTE);
    desk.join("a", 2 * MINUTE);
    desk.run();
    desk.answered("a");
    desk.pass();
    desk.run();
    let passed = desk.pass();
    assert!(is_about(passed, 2 * MINUTE), "{passed:?}");
    desk.schedule.leave(&"a", 2 * MINUTE);
    desk.answered("a");
    desk.run();
    let passed = desk.pass();
    assert!(is_about(passed, 10 * MINUTE), "{passed:?}");
    desk.join("a", Duration::ZERO);
    desk.answered("a");
    desk.pass();
    desk.run();
    let passed = desk.pass();
    assert!(passed < SECOND, "the one who came meanwhile: {passed:?}");
    desk.answered("a");
    desk.run();
    let passed = desk.pass();
    assert!(
        is_about(passed, desk.schedule.settings.shortest_interval),
        "{passed:?}"
    );
}

#[test]
fn a_shorter_interval_without_news_waits_for_its_own_time() {
    let mut desk = Desk::new();
    desk.join("a", 10 * MINUTE);
    desk.run();
    desk.answered("a");
    desk.pass();
    desk.schedule.join(&"a", "a", MINUTE, false, desk.now);
    desk.run();
    assert_eq!(desk.pass(), MINUTE);
}

#[test]
fn what_starts_together_does_not_stay_together() {
    let mut times = Vec::new();
    let mut desk = Desk::new();
    for key in ["a", "b", "c", "d"] {
        desk.join(key, MINUTE);
    }
    assert_eq!(desk.run().len(), 4);
    for key in ["a", "b", "c", "d"] {
        desk.answered(key);
    }
    for _ in 0..4 {
        times.push((desk.run(), desk.now));
    }
    assert!(times.iter().all(|(keys, _)| keys.len() == 1), "{times:?}");
}

#[test]
fn failures_wait_longer_and_longer_and_an_answer_ends_that() {
    let mut desk = Desk::new();
    desk.join("a", MINUTE);
    desk.run();
    desk.pass();
    for seconds in [30, 60, 120, 240, 480, 600, 600, 600] {
        desk.failed("a", None);
        desk.run();
        let passed = desk.pass();
        assert!(
            is_about(passed, seconds * SECOND),
            "{passed:?} for {seconds}"
        );
    }
    desk.answered("a");
    desk.run();
    let passed = desk.pass();
    assert!(is_about(passed, MINUTE), "{passed:?}");
}

#[test]
fn a_failure_of_somebody_patient_waits_as_long_as_that() {
    let mut desk = Desk::new();
    desk.join("a", 60 * MINUTE);
    desk.run();
    for _ in 0..30 {
        desk.pass();
        desk.failed("a", None);
        desk.run();
    }
    let passed = desk.pass();
    assert!(is_about(passed, 60 * MINUTE), "{passed:?}");
}

#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    let mut desk = Desk::new();
    desk.join("a", MINUTE);
    desk.run();
    desk.pass();
    desk.failed("a", Some(5 * MINUTE));
    desk.schedule.hint(&"a", desk.now + SECOND);
    desk.join("a", MINUTE);
    desk.run();
    assert_eq!(desk.pass(), 5 * MINUTE, "by nobody's hint sooner");
    desk.failed("a", Some(SECOND));
    desk.run();
    let passed = desk.pass();
    assert!(
        is_about(passed, MINUTE),
        "our own wait is longer: {passed:?}"
    );
    desk.failed("a", Some(10_000 * MINUTE));
    desk.run();
    assert_eq!(desk.pass(), 60 * MINUTE, "there is an end to that");
}

#[test]
fn a_hint_asks_at_once_but_not_again_and_again() {
    let mut desk = Desk::new();
    desk.join("a", MINUTE);
    desk.run();
    desk.answered("a");
    desk.now += 10 * SECOND;
    desk.pass();
    desk.schedule.hint(&"a", desk.now);
    assert_eq!(desk.run(), ["a"]);
    assert_eq!(desk.pass(), Duration::ZERO);
    // While it is asked, and just after.
    desk.schedule.hint(&"a", desk.now);
    desk.schedule.hint(&"a", desk.now);
    desk.answered("a");
    desk.schedule.hint(&"a", desk.now);
    assert_eq!(desk.run(), ["a"]);
    assert_eq!(desk.pass(), desk.schedule.settings.moment);
    desk.answered("a");
    desk.run();
    let passed = desk.pass();
    assert!(is_about(passed, MINUTE), "{passed:?}");
    desk.schedule.hint(&"unknown", desk.now);
}

#[test]
fn a_hint_ends_the_wait_after_a_failure_and_a_newcomer_does_not() {
    let mut desk = Desk::new();
    desk.join("a", MINUTE);
    desk.run();
    desk.failed("a", None);
    desk.pass();
    desk.join("a", MINUTE);
    desk.now += SECOND;
    assert_eq!(desk.schedule.start(desk.now), [""; 0]);
    desk.schedule.hint(&"a", desk.now);
    assert_eq!(desk.schedule.start(desk.now), ["a"]);
}

#[test]
fn the_last_one_to_leave_takes_everything_along() {
    let mut desk = Desk::new();
    desk.join("a", MINUTE);
    desk.join("a", MINUTE);
    desk.join("b", MINUTE);
    desk.run();
    desk.answered("a");
    desk.schedule.leave(&"a", MINUTE);
    assert_eq!(desk.schedule.counts(), (2, 1));
    desk.schedule.leave(&"a", MINUTE);
    desk.schedule.leave(&"a", MINUTE);
    assert_eq!(desk.schedule.counts(), (1, 1));
    // A question that nobody wants answered any more has its place until it ends.
    desk.schedule.leave(&"b", MINUTE);
    assert_eq!(desk.schedule.counts(), (0, 1));
    assert_eq!(desk.schedule.next(), None);
    desk.join("b", MINUTE);
    assert_eq!(
        desk.schedule.start(desk.now + MINUTE),
        [""; 0],
        "one at a time"
    );
    desk.answered("b");
    assert_eq!(
        desk.run(),
        ["b"],
        "the one who came back has not had its answer"
    );
    desk.answered("b");
    desk.schedule.leave(&"b", MINUTE);
    assert_eq!(desk.schedule.counts(), (0, 0));
    assert!(desk.schedule.at_host.is_empty() && desk.schedule.queue.is_empty());
    assert_eq!(desk.schedule.unproven, 0);
}

const MANY: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[test]
fn one_host_has_only_its_places() {
    let mut desk = Desk::with(Settings {
        places_per_host: 2,
        ..Settings::default()
    });
    for key in MANY {
        desk.schedule
            .join(&key, "slow.example.com", MINUTE, true, desk.now);
    }
    desk.join("other", MINUTE);
    let started = desk.run();
    assert_eq!(started.len(), 3);
    assert!(started.contains(&"other"));
    assert_eq!(desk.schedule.start(desk.now + MINUTE), [""; 0]);
    assert_eq!(
        desk.schedule.next(),
        None,
        "there is nothing to wake up for"
    );
    let first = started.iter().find(|key| **key != "other").unwrap();
    desk.answered(first);
    assert_eq!(desk.schedule.start(desk.now).len(), 1);
}

#[test]
fn those_that_hang_leave_half_of_the_places_to_others() {
    let mut desk = Desk::with(Settings {
        places: 4,
        ..Settings::default()
    });
    desk.join("good", MINUTE);
    assert_eq!(desk.run(), ["good"]);
    desk.answered("good");
    for key in MANY {
        desk.join(key, MINUTE);
    }
    desk.now += 30 * SECOND;
    assert_eq!(
        desk.schedule.start(desk.now).len(),
        2,
        "of those that never answered"
    );
    desk.now += MINUTE;
    assert_eq!(desk.schedule.start(desk.now), ["good"]);
    desk.answered("good");
    // Those that waited longest come first.
    let hanging: Vec<_> = desk.schedule.under_way.keys().copied().collect();
    for key in &hanging {
        desk.failed(key, None);
    }
    desk.now += MINUTE;
    let next = desk.schedule.start(desk.now);
    let next: Vec<_> = next.into_iter().filter(|key| *key != "good").collect();
    assert_eq!(next.len(), 2);
    assert!(
        next.iter().all(|key| !hanging.contains(key)),
        "{next:?} after {hanging:?}"
    );
}

#[test]
fn chance_is_the_same_for_the_same_seed() {
    let numbers = |seed| {
        let mut schedule = Schedule::<u8>::new(Settings::default(), seed);
        (0..5).map(|_| schedule.spread().0).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}
