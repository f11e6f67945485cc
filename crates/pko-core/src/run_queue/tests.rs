use std::{cell::Cell, collections::HashSet};

use proptest::prelude::*;

use super::*;

thread_local! {
    static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

/// The queue's trees call this: their work is counted, not timed.
pub(super) fn count_comparison() {
    COMPARISONS.set(COMPARISONS.get() + 1);
}

/// The number of comparisons that this takes.
fn work<T>(of: impl FnOnce() -> T) -> usize {
    let before = COMPARISONS.get();
    of();
    COMPARISONS.get() - before
}

fn limits(cluster: usize, namespace: usize) -> Limits {
    Limits {
        cluster: Some(cluster),
        namespace: Some(namespace),
    }
}

/// A run `namespace/number` on a stack of its own.
fn run(name: &str, urgency: Urgency) -> RunRequest {
    let (namespace, _) = name.split_once('/').unwrap();
    RunRequest {
        run: name.to_owned(),
        namespace: namespace.to_owned(),
        stack: StackKey {
            backend: "file:///state".to_owned(),
            stack: name.to_owned(),
        },
        urgency,
    }
}

fn change(name: &str) -> RunRequest {
    run(name, Urgency::Change)
}

fn on_stack(name: &str, stack: &str) -> RunRequest {
    let mut request = change(name);
    request.stack.stack = stack.to_owned();
    request
}

fn wait(turn: Admission) -> QueueWait {
    match turn {
        Admission::Queued(wait) => wait,
        Admission::Admitted => panic!("it goes"),
    }
}

fn position(admission: Admission) -> QueuePosition {
    wait(admission).position
}

#[test]
fn queue_without_limits_admits_every_run() {
    let mut queue = RunQueue::new(Limits::default());
    for number in 0..100 {
        assert_eq!(
            queue.ask(change(&format!("a/{number}"))),
            Admission::Admitted
        );
    }
    assert_eq!(queue.counts(), (0, 100));
}

#[test]
fn stack_has_one_run_at_a_time() {
    let mut queue = RunQueue::new(Limits::default());
    assert_eq!(queue.ask(on_stack("a/1", "dev")), Admission::Admitted);
    let held = wait(queue.ask(on_stack("a/2", "dev")));
    assert_eq!(held.reason, WaitReason::Stack("dev".to_owned()));
    assert_eq!(
        held.to_string(),
        "waiting for its turn: another run is under way on the stack \"dev\"; it is the next"
    );
    let mut elsewhere = on_stack("a/3", "dev");
    elsewhere.stack.backend = "s3://other".to_owned();
    assert_eq!(queue.ask(elsewhere), Admission::Admitted);
    assert_eq!(queue.leave("a/1"), ["a/2"]);
    assert_eq!(queue.ask(on_stack("a/2", "dev")), Admission::Admitted);
}

/// An endless run in one namespace does not hold up the stack of the same name in another.
#[test]
fn stack_of_the_same_name_in_another_namespace_is_not_held_up() {
    let mut queue = RunQueue::new(Limits::default());
    let endless = on_stack("hostile/endless", "acme/shop/prod");
    assert_eq!(queue.ask(endless), Admission::Admitted);
    let destroy = RunRequest {
        urgency: Urgency::Destroy,
        ..on_stack("victim/destroy", "acme/shop/prod")
    };
    assert_eq!(queue.ask(destroy), Admission::Admitted);
}

#[test]
fn admit_is_idempotent() {
    let mut queue = RunQueue::new(limits(1, 1));
    assert_eq!(queue.ask(change("a/1")), Admission::Admitted);
    assert_eq!(queue.ask(change("a/1")), Admission::Admitted);
    for _ in 0..3 {
        assert_eq!(position(queue.ask(change("a/2"))), QueuePosition::Next);
    }
    assert_eq!(queue.counts(), (1, 1));
    assert_eq!(queue.leave("a/1"), ["a/2"]);
    assert!(queue.leave("a/1").is_empty(), "it has left already");
}

#[test]
fn limit_is_named_in_the_wait() {
    let mut queue = RunQueue::new(limits(3, 2));
    for name in ["a/1", "a/2"] {
        assert_eq!(queue.ask(change(name)), Admission::Admitted);
    }
    assert_eq!(
        wait(queue.ask(change("a/3"))).to_string(),
        "waiting for its turn: 2 runs are under way in this namespace, which is the limit (--max-runs-per-namespace); it is the next"
    );
    assert_eq!(queue.ask(change("b/1")), Admission::Admitted);
    assert_eq!(
        wait(queue.ask(change("c/1"))).to_string(),
        "waiting for its turn: 3 runs are under way in the cluster, which is the limit (--max-runs); it is the next"
    );
    assert_eq!(
        wait(queue.ask(change("b/2"))).to_string(),
        "waiting for its turn: 3 runs are under way in the cluster, which is the limit (--max-runs); fewer than 10 runs are before it"
    );
}

#[test]
fn urgency_orders_runs_of_a_namespace() {
    let mut queue = RunQueue::new(limits(1, 1));
    queue.ask(change("a/0"));
    let order = [
        ("a/resync", Urgency::Resync),
        ("a/request", Urgency::Request),
        ("a/change", Urgency::Change),
        ("a/destroy", Urgency::Destroy),
    ];
    for (name, urgency) in order {
        wait(queue.ask(run(name, urgency)));
    }
    let mut last = "a/0".to_owned();
    for (name, _) in order.iter().rev() {
        assert_eq!(queue.leave(&last), [*name]);
        last = (*name).to_owned();
    }
}

#[test]
fn urgency_can_grow_while_queued() {
    let mut queue = RunQueue::new(limits(1, 1));
    queue.ask(change("a/0"));
    wait(queue.ask(change("a/1")));
    wait(queue.ask(run("a/2", Urgency::Resync)));
    let destroy = queue.ask(run("a/2", Urgency::Destroy));
    assert_eq!(position(destroy), QueuePosition::Next);
    assert_eq!(queue.leave("a/0"), ["a/2"]);
}

#[test]
fn namespace_with_many_runs_does_not_starve_another() {
    let mut queue = RunQueue::new(Limits {
        cluster: Some(2),
        namespace: None,
    });
    for number in 0..50 {
        queue.ask(run(&format!("flood/{number}"), Urgency::Destroy));
    }
    let resync = queue.ask(run("calm/1", Urgency::Resync));
    assert_eq!(position(resync), QueuePosition::Next);
    assert_eq!(queue.leave("flood/0"), ["calm/1"]);
}

#[test]
fn namespaces_are_admitted_round_robin() {
    let mut queue = RunQueue::new(limits(1, 1));
    queue.ask(change("a/0"));
    for name in ["a/1", "a/2", "b/1", "b/2", "c/1"] {
        wait(queue.ask(change(name)));
    }
    let mut served = vec!["a/0".to_owned()];
    for _ in 0..5 {
        let next = queue.leave(served.last().unwrap());
        served.extend(next);
    }
    assert_eq!(served, ["a/0", "b/1", "c/1", "a/1", "b/2", "a/2"]);
}

#[test]
fn running_run_counts_and_is_not_stopped() {
    let mut queue = RunQueue::new(limits(1, 1));
    queue.resume(change("a/1"));
    queue.resume(change("a/2"));
    queue.resume(change("a/2"));
    assert_eq!(queue.counts(), (0, 2));
    assert_eq!(queue.ask(change("a/1")), Admission::Admitted);
    wait(queue.ask(change("a/3")));
    assert!(queue.leave("a/1").is_empty());
    assert_eq!(queue.leave("a/2"), ["a/3"]);
}

#[test]
fn queued_run_can_leave() {
    let mut queue = RunQueue::new(limits(1, 1));
    queue.ask(change("a/1"));
    wait(queue.ask(change("a/2")));
    assert!(queue.leave("a/2").is_empty());
    assert!(queue.leave("a/1").is_empty());
    assert_eq!(queue.counts(), (0, 0));
    assert!(
        queue.namespaces.is_empty(),
        "nothing is remembered of those who left"
    );
    assert!(queue.eligible.is_empty() && queue.places.is_empty());
}

#[test]
fn namespace_limit_is_derived_from_that_of_the_cluster() {
    let derived = |cluster| Limits::of_cluster(cluster).namespace;
    for (cluster, namespace) in [(2, 1), (3, 2), (4, 3), (8, 6), (100, 75)] {
        assert_eq!(derived(Some(cluster)), Some(namespace), "{cluster}");
    }
    assert_eq!(derived(Some(1)), None, "one place can't be shared");
    assert_eq!(derived(None), None);
}

#[test]
fn endless_runs_of_a_namespace_leave_a_place_to_others() {
    let mut queue = RunQueue::new(Limits::of_cluster(Some(4)));
    for number in 0..1000 {
        queue.ask(run(&format!("hostile/{number}"), Urgency::Destroy));
    }
    let resync = run("victim/1", Urgency::Resync);
    assert_eq!(queue.ask(resync), Admission::Admitted);
}

/// The position of each of these runs, in the order in which they came.
fn positions(queue: &mut RunQueue, runs: std::ops::Range<usize>) -> Vec<QueuePosition> {
    runs.map(|number| position(queue.ask(change(&format!("a/{number}")))))
        .collect()
}

#[test]
fn queue_step_changes_few_positions() {
    let mut queue = RunQueue::new(limits(1, 1));
    for number in 0..=2000 {
        queue.ask(change(&format!("a/{number}")));
    }
    let before = positions(&mut queue, 2..2001);
    assert_eq!(queue.leave("a/0"), ["a/1"]);
    let after = positions(&mut queue, 2..2001);
    let changed = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after);
    assert_eq!(changed.count(), 3, "at the bounds");
    let count = |position| after.iter().filter(|found| **found == position).count();
    assert_eq!(count(QueuePosition::Next), 1);
    assert_eq!(count(QueuePosition::Near), 9);
    assert_eq!(count(QueuePosition::Middle), 90);
    assert_eq!(count(QueuePosition::Far), 1899);
}

#[test]
fn position_counts_the_turns_of_other_namespaces() {
    let mut queue = RunQueue::new(Limits {
        cluster: Some(1),
        namespace: None,
    });
    queue.ask(change("other/0"));
    for number in 0..30 {
        for namespace in ["a", "b", "c"] {
            queue.ask(change(&format!("{namespace}/{number}")));
        }
    }
    assert_eq!(position(queue.ask(change("a/0"))), QueuePosition::Next);
    assert_eq!(position(queue.ask(change("b/0"))), QueuePosition::Near);
    assert_eq!(position(queue.ask(change("a/3"))), QueuePosition::Near);
    assert_eq!(position(queue.ask(change("a/4"))), QueuePosition::Middle);
    assert_eq!(position(queue.ask(change("d/0"))), QueuePosition::Near);
}

/// What a hostile tenant makes wait: on one stack, on many, in many namespaces.
fn crowd(kind: &str, size: usize) -> Vec<RunRequest> {
    let urgencies = [Urgency::Resync, Urgency::Change, Urgency::Destroy];
    let request = |number: usize| match kind {
        "one stack" => on_stack(&format!("a/{number}"), "dev"),
        "many stacks" => run(&format!("a/{number}"), urgencies[number % 3]),
        _ => change(&format!("a-{}/{number}", number % (size / 2))),
    };
    (0..size).map(request).collect()
}

#[test]
fn queue_work_per_call_is_logarithmic() {
    for kind in ["one stack", "many stacks", "many namespaces"] {
        let measure = |size: usize| {
            let mut queue = RunQueue::new(limits(1, 1));
            let mut crowd = crowd(kind, size);
            let enqueued = work(|| crowd.iter().cloned().for_each(|run| drop(queue.ask(run))));
            let asked = work(|| crowd.iter().cloned().for_each(|run| drop(queue.ask(run))));
            let left = work(|| crowd.drain(..).for_each(|run| drop(queue.leave(&run.run))));
            assert_eq!(queue.counts(), (0, 0));
            [enqueued, asked, left].map(|work| work / size)
        };
        let (small, large) = (measure(2_000), measure(20_000));
        println!("{kind}: {small:?} and {large:?} comparisons per call");
        for (small, large) in small.into_iter().zip(large) {
            assert!(large <= small.max(10) * 2, "{kind}: {small} and {large}");
        }
    }
}

/// One slot, and a stream of destroys that never ends: what is less urgent gets its turn all the
/// same.
#[test]
fn queued_run_is_not_overtaken_forever() {
    for patient in ["flood/patient", "calm/patient"] {
        let mut queue = RunQueue::new(limits(1, 1));
        let mut under_way = "flood/first".to_owned();
        queue.ask(run(&under_way, Urgency::Destroy));
        wait(queue.ask(run(patient, Urgency::Resync)));
        let mut overtaken = 0;
        while under_way != patient {
            let next = format!("flood/{overtaken}");
            queue.ask(run(&next, Urgency::Destroy));
            let next = queue.leave(&under_way);
            under_way.clone_from(&next[0]);
            overtaken += 1;
            assert!(overtaken <= 4 * HEAD_START, "{patient} waits for ever");
        }
    }
}

/// An operation on a queue.
#[derive(Clone, Debug)]
enum Move {
    Ask(RunRequest),
    Resume(RunRequest),
    Leave(String),
}

fn request() -> impl Strategy<Value = RunRequest> {
    let urgency = prop_oneof![
        Just(Urgency::Resync),
        Just(Urgency::Request),
        Just(Urgency::Change),
        Just(Urgency::Destroy),
    ];
    ("[abc]", 0..6, 0..4, urgency).prop_map(|(namespace, number, stack, urgency)| {
        let mut request = run(&format!("{namespace}/{number}"), urgency);
        request.stack.stack = format!("stack-{stack}");
        request
    })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => request().prop_map(Move::Ask),
        1 => request().prop_map(Move::Resume),
        3 => request().prop_map(|request| Move::Leave(request.run)),
    ];
    proptest::collection::vec(one, 0..60)
}

proptest! {
    #[test]
    fn limits_hold_and_stacks_have_one_run(moves in moves()) {
        let mut queue = RunQueue::new(limits(3, 2));
        for step in moves {
            let before = queue.clone();
            let mut told: HashSet<String> = HashSet::new();
            match step {
                Move::Ask(request) => {
                    told.insert(request.run.clone());
                    let name = request.run.clone();
                    let turn = queue.ask(request);
                    if turn == Admission::Admitted && !before.under_way.contains_key(&name) {
                        let run = &queue.under_way[&name];
                        prop_assert!(before.under_way.len() < 3);
                        let own = |other: &&RunRequest| other.namespace == run.namespace;
                        let own: Vec<_> = before.under_way.values().filter(own).collect();
                        prop_assert!(own.iter().all(|other| other.stack != run.stack));
                        prop_assert!(own.len() < 2);
                    }
                }
                Move::Resume(request) => {
                    told.insert(request.run.clone());
                    told.extend(queue.resume(request));
                }
                Move::Leave(run) => told.extend(queue.leave(&run)),
            }
            let began = queue.under_way.keys().filter(|run| !before.under_way.contains_key(*run));
            for run in began {
                prop_assert!(told.contains(run), "{run} goes, and nobody is told");
            }
            for waiting in queue.waiting.values() {
                let namespace = &queue.namespaces[&waiting.namespace];
                prop_assert!(queue.obstacle(waiting, namespace).is_some(), "no reason to wait");
            }
            let counted: usize = queue.namespaces.values().map(NamespaceQueue::under_way).sum();
            prop_assert_eq!(counted, queue.under_way.len());
            prop_assert_eq!(queue.places.len(), queue.waiting.len());
        }
    }

    #[test]
    fn run_queue_admits_all_runs_eventually(requests in proptest::collection::vec(request(), 1..40)) {
        let mut queue = RunQueue::new(limits(2, 1));
        let mut wanted: HashSet<String> = HashSet::new();
        for request in requests {
            wanted.insert(request.run.clone());
            queue.ask(request);
        }
        for _ in 0..wanted.len() {
            let under_way: Vec<String> = queue.under_way.keys().cloned().collect();
            for run in under_way {
                wanted.remove(&run);
                queue.leave(&run);
            }
        }
        prop_assert!(wanted.is_empty(), "left: {wanted:?}");
        prop_assert_eq!(queue.counts(), (0, 0));
    }
}
