//! Cancels a run on signals.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// A signal that cancels a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`
    Interrupt,
    /// `SIGTERM`
    Terminate,
}

/// Counts the requests to stop. After one, the running steps are finished. After two, the state is
/// saved at once. After three, the process ends.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicUsize>);

impl Cancellation {
    /// Counts SIGINT and SIGTERM. `tell` gets each signal, and how many came before it.
    pub fn on_signals(tell: impl Fn(Signal, usize) + Send + 'static) -> io::Result<Self> {
        let cancellation = Self::default();
        let asked = cancellation.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        thread::Builder::new().spawn(move || {
            for signal in signals.forever() {
                let before = asked.0.load(Ordering::SeqCst);
                let signal = match signal {
                    SIGTERM => Signal::Terminate,
                    _ => Signal::Interrupt,
                };
                tell(signal, before);
                asked.ask();
                if before > 1 {
                    std::process::exit(1);
                }
            }
        })?;
        Ok(cancellation)
    }

    /// Adds a request to stop.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether no further step may begin.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether running steps are not waited for either.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }

    /// Sleeps until the time has passed or a signal arrives.
    pub(super) fn wait(&self, duration: Duration) {
        const SLICE: Duration = Duration::from_millis(20);
        let end = Instant::now() + duration;
        while !self.is_set() && Instant::now() < end {
            thread::sleep(SLICE.min(end.saturating_duration_since(Instant::now())));
        }
    }
}
