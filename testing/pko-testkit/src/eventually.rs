//! Polling until a condition holds.

use std::fmt::{self, Display};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Generous, for a machine that is busy compiling: a failing test waits this long, a passing one
/// never does.
pub const DEADLINE: Duration = Duration::from_mins(3);
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// Between the first attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Between later attempts, so that polling does not slow a busy machine.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Calls a function until it returns `Ok`, for at most [`DEADLINE`].
///
/// The last `Err` is part of the failure. `what` completes
/// "timed out waiting for".
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use pko_testkit::eventually;
///
/// let mut asked = 0;
/// let answer = eventually("the third answer", async || {
///     asked += 1;
///     if asked == 3 { Ok(asked) } else { Err(format!("only {asked} so far")) }
/// });
/// assert_eq!(answer.await.unwrap(), 3);
/// # });
/// ```
pub async fn eventually<T, E: Display>(
    what: impl Display,
    question: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, TimedOut> {
    eventually_within(DEADLINE, what, question).await
}

/// [`eventually`] with another deadline. The function is called at least once.
pub async fn eventually_within<T, E: Display>(
    deadline: Duration,
    what: impl Display,
    mut question: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, TimedOut> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    loop {
        match question().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if Instant::now() >= end => {
                let (what, missing) = (what.to_string(), missing.to_string());
                return Err(TimedOut {
                    what,
                    missing,
                    deadline,
                });
            }
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
}

pub struct TimedOut {
    what: String,
    missing: String,
    deadline: Duration,
}

impl Display for TimedOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            missing,
            deadline,
        } = self;
        write!(
            formatter,
            "timed out after {deadline:?} waiting for {what}; last: {missing}"
        )
    }
}

crate::error_text::debug_is_text!(TimedOut);

impl std::error::Error for TimedOut {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timeout_reports_last_failure() {
        let mut asked = 0;
        let error = eventually_within(Duration::ZERO, "a third answer", async || {
            asked += 1;
            Err::<(), _>(format!("only {asked} so far"))
        });
        assert_eq!(
            error.await.unwrap_err().to_string(),
            "timed out after 0ns waiting for a third answer; last: only 1 so far"
        );
    }
}
