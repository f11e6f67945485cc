//! Which errors of the API server are tried again, how often, and after which pauses: as upstream does.

use std::{error::Error, io, time::Duration};

use ring::rand::{SecureRandom as _, SystemRandom};

const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Tries until it succeeds, fails for good, or was tried often enough.
pub(super) async fn retry<A, Attempt, Pause>(
    attempt: impl Fn() -> Attempt,
    pause: impl Fn(Duration) -> Pause,
) -> Result<A, kube::Error>
where
    Attempt: Future<Output = Result<A, kube::Error>>,
    Pause: Future<Output = ()>,
{
    let mut last = attempt().await;
    for number in 1..ATTEMPTS {
        match &last {
            Err(error) if may_pass(error) => pause(pause_after(number, random())).await,
            _ => return last,
        }
        last = attempt().await;
    }
    last
}

/// How long to wait after this attempt, counted from one; `random` is from 0 to 1.
fn pause_after(attempt: u32, random: f64) -> Duration {
    let growth = (1..attempt).fold(1.0, |growth, _| growth * FACTOR);
    FIRST_PAUSE.mul_f64(growth * (1.0 + JITTER * random))
}

fn random() -> f64 {
    let mut byte = [0];
    // Without random numbers all wait equally long.
    let _ = SystemRandom::new().fill(&mut byte);
    byte.iter().map(|byte| f64::from(*byte) / 255.0).sum()
}

/// An error that may be gone the next time. An API server that is not there is none: callers try again by themselves.
fn may_pass(error: &kube::Error) -> bool {
    const TOO_MANY_REQUESTS: u16 = 429;
    const INTERNAL_ERROR: u16 = 500;
    const TIMEOUT: u16 = 504;
    match error {
        kube::Error::Api(status) => {
            let asks_for_it = status.details.as_ref();
            let asks_for_it = asks_for_it.is_some_and(|details| details.retry_after_seconds > 0);
            asks_for_it || [TOO_MANY_REQUESTS, INTERNAL_ERROR, TIMEOUT].contains(&status.code)
        }
        other => was_lost(other),
    }
}

/// Whether a connection that there was has been lost.
fn was_lost(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let lost = matches!(
        kind,
        Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    );
    lost || error.source().is_some_and(was_lost)
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        future::ready,
    };

    use super::*;

    fn answered(code: u16, retry_after_seconds: u32) -> kube::Error {
        let status = serde_json::json!({
            "status": "Failure", "message": "", "reason": "", "code": code,
            "details": { "retryAfterSeconds": retry_after_seconds },
        });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    fn failed(kind: io::ErrorKind) -> kube::Error {
        kube::Error::Service(Box::new(io::Error::from(kind)))
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut};
        let table = [
            (answered(429, 0), true),
            (answered(500, 0), true),
            (answered(504, 0), true),
            (answered(503, 1), true),
            (answered(503, 0), false),
            (answered(401, 0), false),
            (answered(403, 0), false),
            (failed(ConnectionReset), true),
            (failed(ConnectionRefused), false),
            (failed(TimedOut), false),
        ];
        for (error, again) in table {
            assert_eq!(may_pass(&error), again, "{error:?}");
        }
    }

    #[test]
    fn pauses_grow_and_differ() {
        let milliseconds = |attempt, random| pause_after(attempt, random).as_millis();
        assert_eq!(milliseconds(1, 0.0), 500);
        assert_eq!(milliseconds(1, 1.0), 600);
        assert_eq!(milliseconds(2, 0.0), 750);
        assert_eq!(milliseconds(4, 0.0), 1687);
        assert!((0.0..=1.0).contains(&random()));
    }

    #[tokio::test]
    async fn it_is_tried_five_times_at_most() {
        let tries = |codes: &'static [u16]| async move {
            let (asked, pauses) = (Cell::new(0), RefCell::new(Vec::new()));
            let attempt = || {
                let code = codes.get(asked.get()).copied();
                asked.set(asked.get() + 1);
                ready(code.map_or(Ok(()), |code| Err(answered(code, 0))))
            };
            let pause = |duration| {
                pauses.borrow_mut().push(duration);
                ready(())
            };
            let succeeded = retry(attempt, pause).await.is_ok();
            (succeeded, asked.get(), pauses.into_inner().len())
        };
        assert_eq!(tries(&[]).await, (true, 1, 0));
        assert_eq!(tries(&[500, 429]).await, (true, 3, 2));
        assert_eq!(tries(&[500, 403]).await, (false, 2, 1));
        assert_eq!(tries(&[500; 9]).await, (false, 5, 4));
    }
}
