//! Runs tasks with dependencies on several threads.
//!
//! The ready task with the lowest number goes first: one thread follows the order of the numbers,
//! and several stay close to it.

use std::{collections::BTreeSet, thread};

use parking_lot::{Condvar, Mutex};

struct Queue {
    ready: BTreeSet<usize>,
    /// How many tasks each task still waits for.
    missing: Vec<usize>,
    running: usize,
}

/// Calls `work` for each number below `needs.len()`, each after all it needs, on up to `width`
/// threads.
///
/// Tasks in a cycle are skipped.
pub(crate) fn run(needs: &[Vec<usize>], width: usize, work: &(dyn Fn(usize) + Sync)) {
    let mut dependents = vec![Vec::new(); needs.len()];
    for (number, needed) in needs.iter().enumerate() {
        for other in needed {
            if let Some(list) = dependents.get_mut(*other) {
                list.push(number);
            }
        }
    }
    let missing: Vec<_> = needs.iter().map(Vec::len).collect();
    let queue = Mutex::new(Queue {
        ready: (0..needs.len())
            .filter(|number| missing.get(*number) == Some(&0))
            .collect(),
        missing,
        running: 0,
    });
    let ready = Condvar::new();
    let worker = || work_off(&queue, &ready, &dependents, work);
    let others = width.min(needs.len()).saturating_sub(1);
    thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(worker);
        }
        worker();
    });
}

/// One thread: takes ready tasks until none can become ready.
fn work_off(
    queue: &Mutex<Queue>,
    ready: &Condvar,
    dependents: &[Vec<usize>],
    work: &(dyn Fn(usize) + Sync),
) {
    let mut state = queue.lock();
    loop {
        if let Some(number) = state.ready.pop_first() {
            state.running += 1;
            drop(state);
            work(number);
            state = queue.lock();
            state.running -= 1;
            for dependent in dependents.get(number).into_iter().flatten() {
                release(&mut state, *dependent);
            }
            ready.notify_all();
        } else if state.running == 0 {
            return;
        } else {
            ready.wait(&mut state);
        }
    }
}

fn release(state: &mut Queue, number: usize) {
    if let Some(missing) = state.missing.get_mut(number) {
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            state.ready.insert(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(needs: &[Vec<usize>], width: usize) -> Vec<usize> {
        let done = Mutex::new(Vec::new());
        run(needs, width, &|number| done.lock().push(number));
        done.into_inner()
    }

    #[test]
    fn schedule_one_thread_follows_numbers() {
        let needs = [vec![2], vec![], vec![], vec![0, 1]];
        assert_eq!(order(&needs, 1), [1, 2, 0, 3]);
        assert_eq!(order(&[], 4), [0; 0]);
        // a cycle is skipped and does not hang
        assert_eq!(order(&[vec![1], vec![0], vec![]], 2), [2]);
    }

    #[test]
    fn schedule_threads_respect_dependencies() {
        let needs: Vec<_> = (0_usize..200)
            .map(|number| {
                if number < 10 {
                    vec![]
                } else {
                    vec![number - 10]
                }
            })
            .collect();
        let done = order(&needs, 8);
        let place = |number: usize| done.iter().position(|other| *other == number).unwrap();
        assert_eq!(done.len(), 200);
        assert!((10..200).all(|number| place(number - 10) < place(number)));
    }

    #[test]
    fn schedule_independent_tasks_run_in_parallel() {
        let barrier = std::sync::Barrier::new(4);
        run(&vec![Vec::new(); 4], 4, &|_| _ = barrier.wait());
    }
}
