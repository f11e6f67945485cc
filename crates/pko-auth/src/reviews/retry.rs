//! Retries of a review: upstream's attempts, delays and retriable errors.

use std::{error::Error, io, time::Duration};

use ring::rand::{SecureRandom as _, SystemRandom};

const MAX_ATTEMPTS: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Repeats the attempt until it succeeds, fails for good, or [`MAX_ATTEMPTS`] are used up.
pub(super) async fn retry<T, Attempt, Sleep>(
    attempt: impl Fn() -> Attempt,
    sleep: impl Fn(Duration) -> Sleep,
) -> Result<T, kube::Error>
where
    Attempt: Future<Output = Result<T, kube::Error>>,
    Sleep: Future<Output = ()>,
{
    let mut last = attempt().await;
    for number in 1..MAX_ATTEMPTS {
        match &last {
            Err(error) if is_retriable(error) => sleep(delay_after(number, random())).await,
            _ => return last,
        }
        last = attempt().await;
    }
    last
}

/// The delay after this attempt, counted from one; `random` is from 0 to 1.
fn delay_after(attempt: u32, random: f64) -> Duration {
    let growth = (1..attempt).fold(1.0, |growth, _| growth * FACTOR);
    FIRST_DELAY.mul_f64(growth * (1.0 + JITTER * random))
}

fn random() -> f64 {
    let mut byte = [0];
    // Without random numbers there is no jitter.
    let _ = SystemRandom::new().fill(&mut byte);
    byte.iter().map(|byte| f64::from(*byte) / 255.0).sum()
}

/// A refused connection is not retriable: the callers of a gRPC server retry by themselves.
fn is_retriable(error: &kube::Error) -> bool {
    const TOO_MANY_REQUESTS: u16 = 429;
    const INTERNAL_ERROR: u16 = 500;
    const TIMEOUT: u16 = 504;
    match error {
        kube::Error::Api(status) => {
            let details = status.details.as_ref();
            let has_retry_after = details.is_some_and(|details| details.retry_after_seconds > 0);
            has_retry_after || [TOO_MANY_REQUESTS, INTERNAL_ERROR, TIMEOUT].contains(&status.code)
        }
        other => is_lost_connection(other),
    }
}

fn is_lost_connection(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let is_lost = matches!(
        kind,
        Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    );
    is_lost || error.source().is_some_and(is_lost_connection)
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        future::ready,
    };

    use super::*;

    fn api_error(code: u16, retry_after_seconds: u32) -> kube::Error {
        let status = serde_json::json!({
            "status": "Failure", "message": "", "reason": "", "code": code,
            "details": { "retryAfterSeconds": retry_after_seconds },
        });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    fn io_error(kind: io::ErrorKind) -> kube::Error {
        kube::Error::Service(Box::new(io::Error::from(kind)))
    }

    #[test]
    fn transient_errors_are_retriable() {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, TimedOut};
        let table = [
            (api_error(429, 0), true),
            (api_error(500, 0), true),
            (api_error(504, 0), true),
            (api_error(503, 1), true),
            (api_error(503, 0), false),
            (api_error(401, 0), false),
            (api_error(403, 0), false),
            (io_error(ConnectionReset), true),
            (io_error(ConnectionRefused), false),
            (io_error(TimedOut), false),
        ];
        for (error, expected) in table {
            assert_eq!(is_retriable(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn delays_grow_and_have_jitter() {
        let milliseconds = |attempt, random| delay_after(attempt, random).as_millis();
        assert_eq!(milliseconds(1, 0.0), 500);
        assert_eq!(milliseconds(1, 1.0), 600);
        assert_eq!(milliseconds(2, 0.0), 750);
        assert_eq!(milliseconds(4, 0.0), 1687);
        assert!((0.0..=1.0).contains(&random()));
    }

    #[tokio::test]
    async fn retry_stops_after_five_attempts() {
        let run = |codes: &'static [u16]| async move {
            let (attempts, delays) = (Cell::new(0), RefCell::new(Vec::new()));
            let attempt = || {
                let code = codes.get(attempts.get()).copied();
                attempts.set(attempts.get() + 1);
                ready(code.map_or(Ok(()), |code| Err(api_error(code, 0))))
            };
            let sleep = |duration| {
                delays.borrow_mut().push(duration);
                ready(())
            };
            let succeeded = retry(attempt, sleep).await.is_ok();
            (succeeded, attempts.get(), delays.into_inner().len())
        };
        assert_eq!(run(&[]).await, (true, 1, 0));
        assert_eq!(run(&[500, 429]).await, (true, 3, 2));
        assert_eq!(run(&[500, 403]).await, (false, 2, 1));
        assert_eq!(run(&[500; 9]).await, (false, 5, 4));
    }
}
