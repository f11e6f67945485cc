use proptest::prelude::*;

use super::*;

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
    let held = wait(queue.ask(on_stack("b/2", "dev")));
    assert_eq!(held.reason, WaitReason::Stack("dev".to_owned()));
    assert_eq!(
        held.to_string(),
        "waiting for its turn: another run is under way on the stack \"dev\"; it is the next"
    );
    let mut elsewhere = on_stack("c/3", "dev");
    elsewhere.stack.backend = "s3://other".to_owned();
    assert_eq!(queue.ask(elsewhere), Admission::Admitted);
    assert_eq!(queue.leave("a/1"), ["b/2"]);
    assert_eq!(queue.ask(on_stack("b/2", "dev")), Admission::Admitted);
}

#[test]
fn admit_is_idempotent() {
    let mut queue = RunQueue::new(limits(1, 1));
    assert_eq!(queue.ask(change("a/1")), Admission::Admitted);
    assert_eq!(queue.ask(change("a/1")), Admission::Admitted);
    for _ in 0..3 {
        assert_eq!(wait(queue.ask(change("a/2"))).before, 0);
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
        "waiting for its turn: 2 runs are under way in this namespace, which is the limit; it is the next"
    );
    assert_eq!(queue.ask(change("b/1")), Admission::Admitted);
    assert_eq!(
        wait(queue.ask(change("c/1"))).to_string(),
        "waiting for its turn: 3 runs are under way in the cluster, which is the limit; it is the next"
    );
    assert_eq!(
        wait(queue.ask(change("b/2"))).to_string(),
        "waiting for its turn: 3 runs are under way in the cluster, which is the limit; 1 run is before it"
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
    assert_eq!(wait(queue.ask(run("a/2", Urgency::Destroy))).before, 0);
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
    assert_eq!(wait(queue.ask(run("calm/1", Urgency::Resync))).before, 0);
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
    assert!(queue.busy.is_empty());
}

#[test]
fn runs_are_counted_by_namespace() {
    let mut queue = RunQueue::new(limits(2, 1));
    for name in ["a/1", "a/2", "a/3", "b/1"] {
        queue.ask(change(name));
    }
    let of = |waiting, under_way| Counts { waiting, under_way };
    assert_eq!(
        queue.counts_by_namespace(),
        BTreeMap::from([("a", of(2, 1)), ("b", of(0, 1))])
    );
    queue.leave("b/1");
    assert_eq!(
        queue.counts_by_namespace(),
        BTreeMap::from([("a", of(2, 1))])
    );
}

/// One slot, and a stream of destroys that never ends: what is less urgent gets its turn all the same.
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

/// What somebody may do to a queue.
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
                        prop_assert!(before.under_way.values().all(|other| other.stack != run.stack));
                        prop_assert!(before.account(&run.namespace).under_way < 2);
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
                prop_assert!(queue.obstacle(waiting).is_some(), "nobody waits for nothing");
            }
            let counted: usize = queue.namespaces.values().map(|account| account.under_way).sum();
            prop_assert_eq!(counted, queue.under_way.len());
            prop_assert_eq!(queue.busy.values().sum::<usize>(), queue.under_way.len());
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
