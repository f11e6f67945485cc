//! The async runtimes of the manager.
//!
//! Objects of users make the main runtime compute. The kubelet and the other replicas do not wait
//! for that: a probe without a response ends the process, and a Lease that is not renewed ends its
//! leadership. Both have a runtime with a thread of its own.

use std::{io, num::NonZero, thread};

use tokio::runtime::{Builder, Runtime};

/// With fewer threads, few expensive objects would occupy all of them, however small the CPU limit.
const MIN_WORKERS: usize = 4;

pub(crate) struct Runtimes {
    /// For everything else.
    pub(crate) main: Runtime,
    /// For probes and the Lease.
    pub(crate) liveness: Runtime,
}

impl Runtimes {
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self {
            main: runtime("worker", workers(thread::available_parallelism().ok()))?,
            liveness: runtime("liveness", 1)?,
        })
    }
}

fn runtime(name: &str, workers: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name(name)
        .enable_all()
        .build()
}

fn workers(available: Option<NonZero<usize>>) -> usize {
    available.map_or(MIN_WORKERS, |cores| cores.get().max(MIN_WORKERS))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn main_runtime_has_a_worker_for_each_core_and_at_least_four() {
        for (available, expected) in [(None, 4), (Some(1), 4), (Some(4), 4), (Some(16), 16)] {
            assert_eq!(workers(available.and_then(NonZero::new)), expected);
        }
    }

    #[test]
    fn liveness_runtime_runs_while_all_workers_compute() {
        let runtimes = Runtimes::start().unwrap();
        let (done, busy) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        for _ in 0..workers(thread::available_parallelism().ok()) {
            let (done, busy) = (Arc::clone(&done), Arc::clone(&busy));
            runtimes.main.spawn(async move {
                busy.fetch_add(1, Ordering::AcqRel);
                while !done.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
        }
        let response = runtimes.liveness.spawn(async { "ok" });
        let response = runtimes.liveness.block_on(response);
        done.store(true, Ordering::Release);
        assert_eq!(response.unwrap(), "ok");
    }
}
