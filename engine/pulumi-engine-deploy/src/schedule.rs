//! Runs pieces of work that need each other on several threads. Pure but for the threads.
//!
//! Of the pieces that are ready the one with the lowest number goes first, so that with one thread the order is that
//! of the numbers, and with more it stays close to it.

use std::{collections::BTreeSet, thread};

use parking_lot::{Condvar, Mutex};

struct Board {
    ready: BTreeSet<usize>,
    /// How many pieces each piece still waits for.
    missing: Vec<usize>,
    running: usize,
}

/// Does `work` for each number below `needs.len()`, each after all that it needs, on up to `width` threads.
///
/// `needs` must have no circles: what is part of one is not done.
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
    let board = Mutex::new(Board {
        ready: (0..needs.len())
            .filter(|number| missing.get(*number) == Some(&0))
            .collect(),
        missing,
        running: 0,
    });
    let turn = Condvar::new();
    let worker = || help(&board, &turn, &dependents, work);
    let others = width.min(needs.len()).saturating_sub(1);
    thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(worker);
        }
        worker();
    });
}

/// One thread: takes what is ready until nothing can become so.
fn help(
    board: &Mutex<Board>,
    turn: &Condvar,
    dependents: &[Vec<usize>],
    work: &(dyn Fn(usize) + Sync),
) {
    let mut state = board.lock();
    loop {
        if let Some(number) = state.ready.pop_first() {
            state.running += 1;
            drop(state);
            work(number);
            state = board.lock();
            state.running -= 1;
            for dependent in dependents.get(number).into_iter().flatten() {
                release(&mut state, *dependent);
            }
            turn.notify_all();
        } else if state.running == 0 {
            return;
        } else {
            turn.wait(&mut state);
        }
    }
}

fn release(state: &mut Board, number: usize) {
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
    fn one_thread_goes_by_number_as_far_as_needs_allow() {
        let needs = [vec![2], vec![], vec![], vec![0, 1]];
        assert_eq!(order(&needs, 1), [1, 2, 0, 3]);
        assert_eq!(order(&[], 4), [0; 0]);
        // a circle is left alone, and hangs nobody
        assert_eq!(order(&[vec![1], vec![0], vec![]], 2), [2]);
    }

    #[test]
    fn more_threads_keep_to_the_needs() {
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
    fn what_waits_for_each_other_runs_at_the_same_time() {
        let barrier = std::sync::Barrier::new(4);
        run(&vec![Vec::new(); 4], 4, &|_| _ = barrier.wait());
    }
}
