//! When a run is to stop: signals of the user.

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

/// How the user asks a run to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`
    Interrupt,
    /// `SIGTERM`
    Terminate,
}

/// How often the user has asked a run to stop. Once: the steps that run are finished. Twice: the state is saved as it
/// is. Three times: nothing is waited for.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicUsize>);

impl Cancellation {
    /// One that SIGINT and SIGTERM count up. `tell` is told which signal came, and how many before it.
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

    /// Asks once more.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether nothing more is to be begun.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether what runs is not to be waited for either.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }

    /// Waits; a signal ends the wait.
    pub(super) fn wait(&self, duration: Duration) {
        const SLICE: Duration = Duration::from_millis(20);
        let end = Instant::now() + duration;
        while !self.is_set() && Instant::now() < end {
            thread::sleep(SLICE.min(end.saturating_duration_since(Instant::now())));
        }
    }
}
