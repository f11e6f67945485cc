//! Parses the `Retry-After` header.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use ureq::http::{HeaderMap, header::RETRY_AFTER};

/// Seconds or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    // A date in the past means now.
    Some(Duration::try_from(time.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use ureq::http::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_accepts_seconds_and_dates() {
        let now: Timestamp = "2015-10-21T07:27:00Z".parse().unwrap();
        let of = |text| {
            let value = HeaderValue::from_static(text);
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), now)
        };
        assert_eq!(of("120"), Some(Duration::from_mins(2)));
        let minute = Some(Duration::from_mins(1));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), minute);
        let past = of("Tue, 20 Oct 2015 07:28:00 GMT");
        assert_eq!(past, Some(Duration::ZERO));
        for text in ["", "-1", "soon", "99999999999999999999999"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
