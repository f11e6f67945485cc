//! Time, as an argument.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;

/// A moment by both clocks: one that never jumps, for how long an answer is remembered, and the one that tokens are
/// written by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) steady: Instant,
    pub(super) wall: Timestamp,
}

/// Tells the time.
pub(super) trait Clock: Send + Sync {
    fn now(&self) -> Moment;
}

/// The system's clocks.
pub(super) fn system() -> Arc<dyn Clock> {
    Arc::new(System)
}

struct System;

impl Clock for System {
    fn now(&self) -> Moment {
        Moment {
            steady: Instant::now(),
            wall: Timestamp::now(),
        }
    }
}

#[cfg(test)]
pub(super) mod test {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::*;

    /// A clock that goes on when it is told to.
    pub(in crate::auth) struct Manual(Mutex<Moment>);

    impl Manual {
        pub(in crate::auth) fn new() -> Arc<Self> {
            Arc::new(Self(Mutex::new(System.now())))
        }

        pub(in crate::auth) fn pass(&self, time: Duration) {
            let mut moment = self.0.lock().unwrap();
            moment.steady += time;
            moment.wall += time;
        }
    }

    impl Clock for Manual {
        fn now(&self) -> Moment {
            *self.0.lock().unwrap()
        }
    }
}
