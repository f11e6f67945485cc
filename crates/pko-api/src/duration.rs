//! [`GoDuration`]: Go's notation of durations (`1h30m`, `24h0m0s`), stored as written.
//!
//! The parser and the formatter are hand-written, in 200 lines with the type. `kube_core::Duration`
//! parses numbers as `f64` and panics on `99999999999999999999h` or `1h-5m`, which any user may
//! store. It also discards the text, and a spec must be written back unchanged.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A duration in Go's notation, such as `1h30m`.
///
/// Two durations are equal if their texts are. Compare [`GoDuration::get`] for the length of time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GoDuration {
    text: String,
    /// Zero if the text is negative.
    length: Duration,
}

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration: write it like `30s`, `10m` or `1h30m`")]
pub struct NotADuration;

impl GoDuration {
    /// The length of time; zero for a negative duration.
    #[must_use]
    pub const fn get(&self) -> Duration {
        self.length
    }
}

impl FromStr for GoDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let nanoseconds = go_nanoseconds(unsigned).ok_or(NotADuration)?;
        let length = if text.starts_with('-') {
            Duration::ZERO
        } else {
            Duration::from_nanos(nanoseconds)
        };
        Ok(Self {
            text: text.to_owned(),
            length,
        })
    }
}

/// The nanoseconds of a duration without its sign; `None` if Go's parser rejects it.
fn go_nanoseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (text, None);
    while !rest.is_empty() {
        let (nanoseconds, after) = split_first_part(rest)?;
        total = Some(total.unwrap_or(0_u64).checked_add(nanoseconds)?);
        rest = after;
    }
    // Go counts in signed 64 bits.
    total.filter(|nanoseconds| i64::try_from(*nanoseconds).is_ok())
}

/// Splits off the first number with its unit (`1.5h`).
fn split_first_part(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = text.split_at_checked(text.find(char::is_alphabetic)?)?;
    let end = rest
        .find(|character: char| !character.is_alphabetic())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(end)?;
    let unit: u64 = match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look the same; Go accepts both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    Some((multiply(number, unit)?, rest))
}

/// A decimal number (`1`, `1.5`, `.5`, `1.`) times a unit, truncated to nanoseconds.
fn multiply(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = fraction_of(fraction, unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { digits(whole)? };
    whole.checked_mul(unit)?.checked_add(fraction)
}

/// `0.<text>` times a unit. Digits after the eighteenth are less than a nanosecond of any unit.
fn fraction_of(text: &str, unit: u64) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = text.get(..text.len().min(18))?;
    let scale = 10_u128.checked_pow(u32::try_from(kept.len()).ok()?)?;
    u64::try_from(u128::from(digits(kept)?) * u128::from(unit) / scale).ok()
}

/// A number of ASCII digits only (`parse` alone would accept a sign).
fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

impl From<Duration> for GoDuration {
    /// Formats the duration as Go does: `24h0m0s`, `1m30s`, `500ms`.
    fn from(length: Duration) -> Self {
        Self {
            text: go_text(length),
            length,
        }
    }
}

fn go_text(length: Duration) -> String {
    let (seconds, nanoseconds) = (length.as_secs(), length.subsec_nanos());
    if seconds == 0 && nanoseconds > 0 {
        return sub_second_text(nanoseconds);
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let seconds = format!("{}s", decimal(seconds % 60, nanoseconds, 9));
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

fn sub_second_text(nanoseconds: u32) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => {
            format!(
                "{}µs",
                decimal(u64::from(nanoseconds / 1_000), nanoseconds % 1_000, 3)
            )
        }
        _ => format!(
            "{}ms",
            decimal(
                u64::from(nanoseconds / 1_000_000),
                nanoseconds % 1_000_000,
                6
            )
        ),
    }
}

/// `whole.fraction`, with a fraction of this many digits, without trailing zeros.
fn decimal(whole: u64, fraction: u32, digits: usize) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
impl proptest::arbitrary::Arbitrary for GoDuration {
    type Parameters = ();
    type Strategy = proptest::strategy::BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        use proptest::prelude::*;
        (0..200_000_000_000_000_u64)
            .prop_map(|nanoseconds| Duration::from_nanos(nanoseconds).into())
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duration_that_go_accepts_is_kept_as_written() {
        for (text, seconds) in [
            ("24h0m0s", 86_400),
            ("24h", 86_400),
            ("1h30m", 5_400),
            ("90s", 90),
            ("0", 0),
            ("1.5h", 5_400),
            ("+1m1s", 61),
            (".5m", 30),
            ("1.s", 1),
            ("500ms500ms", 1),
            ("1000000us", 1),
            ("1000000µs", 1),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.get(), Duration::from_secs(seconds), "{text}");
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn negative_duration_has_elapsed() {
        assert_eq!("-5m".parse::<GoDuration>().unwrap().get(), Duration::ZERO);
    }

    #[test]
    fn duration_that_go_rejects_is_rejected() {
        for text in [
            "abc",
            "",
            "10",
            "1 hour",
            "5x",
            "--1s",
            "1h-5m",
            ".s",
            "1e3s",
            "+",
            "-",
            "1h ",
            "９s",
            "99999999999999999999h",
            "9223372036854775808ns",
            "2562048h",
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(NotADuration), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (Duration::from_hours(24), "24h0m0s"),
            (Duration::from_mins(1), "1m0s"),
            (Duration::from_secs(10), "10s"),
            (Duration::from_millis(90_500), "1m30.5s"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_micros(1_500), "1.5ms"),
            (Duration::from_nanos(1_001), "1.001µs"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::ZERO, "0s"),
        ];
        for (duration, text) in cases {
            assert_eq!(GoDuration::from(duration).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn duration_parser_accepts_any_text(text in "[-+0-9.a-zµμ]{0,24}") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn duration_round_trips(nanoseconds in 0..u64::MAX / 2) {
            let written = GoDuration::from(Duration::from_nanos(nanoseconds));
            let read: GoDuration = written.to_string().parse().unwrap();
            prop_assert_eq!(read, written);
        }
    }
}
