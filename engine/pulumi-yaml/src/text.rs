//! Formats numbers and values as Pulumi's Go code does.

use std::io;

use serde::Serialize as _;
use serde_json::{Number, Value};

/// The longest name that is compared with others, in bytes: a comparison takes time in proportion
/// to the product of both lengths.
const LONGEST_COMPARED: usize = 128;

/// `; did you mean "name"?` for the most similar name, or an empty string if none is similar.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = |known: &'a str| {
        if name.len().max(known.len()) > LONGEST_COMPARED {
            return None;
        }
        let distance = strsim::damerau_levenshtein(name, known);
        let allowed = 1 + name.chars().count() / 4;
        (distance <= allowed && distance < name.chars().count()).then_some((distance, known))
    };
    let nearest = known.into_iter().filter_map(near).min();
    nearest.map_or_else(String::new, |(_, known)| {
        format!("; did you mean {known:?}?")
    })
}

/// Converts a float to a number. Whole floats become integers, since Pulumi does not distinguish
/// them. Digits beyond a float's precision become zeros, as Go writes them.
#[must_use]
pub fn from_float(value: f64) -> Option<Number> {
    if value.fract() == 0.0 {
        let digits = format!("{}", value + 0.0);
        let whole = digits.parse::<i64>().map(Number::from);
        if let Ok(whole) = whole.or_else(|_| digits.parse::<u64>().map(Number::from)) {
            return Some(whole);
        }
    }
    Number::from_f64(value)
}

/// Rounds a number of a program to a float, the only number type of Pulumi.
#[must_use]
pub fn as_float(value: &Number) -> Number {
    let float = value.as_f64().and_then(from_float);
    float.unwrap_or_else(|| value.clone())
}

/// Formats a number in its shortest form, with an exponent only for very large and very small ones.
#[must_use]
pub fn number(value: &Number) -> String {
    match value.as_f64() {
        Some(float) if value.is_f64() => {
            if float != 0.0 && (float.abs() < 1e-4 || float.abs() >= 1e21) {
                with_exponent(float)
            } else {
                format!("{float}")
            }
        }
        _ => value.to_string(),
    }
}

/// Formats a number in an interpolated string. Go writes floats with seven or more digits before
/// the point with an exponent.
fn float(value: &Number) -> String {
    match value.as_f64() {
        Some(float) if float != 0.0 && (float.abs() < 1e-4 || float.abs() >= 1e6) => {
            with_exponent(float)
        }
        Some(float) => format!("{float}"),
        None => value.to_string(),
    }
}

/// Go writes at least two digits of exponent, and its sign.
fn with_exponent(value: f64) -> String {
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(digits) => format!("{mantissa}e-{digits:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
        None => text,
    }
}

/// Counts user-perceived characters; none if some may be combined of several, which takes Unicode
/// tables to count.
#[must_use]
pub fn characters(text: &str) -> Option<usize> {
    let alone = |character: char| {
        matches!(character,
            '\0'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{48a}'..='\u{58f}' | '\u{1e00}'..='\u{200a}' | '\u{2010}'..='\u{2027}'
            | '\u{2030}'..='\u{205e}' | '\u{20a0}'..='\u{20cf}' | '\u{3000}'..='\u{3029}' | '\u{3041}'..='\u{3096}'
            | '\u{30a0}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
    };
    let lines = text.matches("\r\n").count();
    text.chars()
        .all(alone)
        .then(|| text.chars().count() - lines)
}

/// Formats a value in an interpolated string: lists and maps as Go prints them.
#[must_use]
pub fn format_interpolated(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => float(value),
        Value::String(value) => value.clone(),
        Value::Array(values) => {
            format!(
                "[{}]",
                values
                    .iter()
                    .map(format_interpolated)
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        }
        Value::Object(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{key}:{}", format_interpolated(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Formats as `fn::toJSON` does: compact JSON with `<`, `>` and `&` escaped and Go's numbers.
#[must_use]
pub fn escaped_json(value: &Value) -> String {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, GoNumbers);
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    let mut text = String::new();
    for character in String::from_utf8_lossy(&json).chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}

/// Compact JSON in which floats have an exponent only where Go writes one.
struct GoNumbers;

impl serde_json::ser::Formatter for GoNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value != 0.0 && (value.abs() < 1e-6 || value.abs() >= 1e21) {
            // Go drops the leading zero of a negative exponent
            write!(writer, "{}", with_exponent(value).replace("e-0", "e-"))
        } else {
            write!(writer, "{value}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn did_you_mean_names_a_similar_short_name() {
        let long = |last: &str| "n".repeat(LONGEST_COMPARED) + last;
        assert_eq!(
            did_you_mean("bukcet", ["bucket"]),
            "; did you mean \"bucket\"?"
        );
        assert_eq!(did_you_mean(&long("a"), [long("b").as_str()]), "");
    }

    #[test]
    fn interpolated_numbers_match_go() {
        for (value, expected) in [
            (json!(3), "3"),
            (json!(2.5), "2.5"),
            (json!(1e21), "1e+21"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(1_000_000), "1e+06"),
            (json!(123_456), "123456"),
            (json!(-1_234_567), "-1.234567e+06"),
            (json!(12_345_678.5), "1.23456785e+07"),
            (json!(0.0001), "0.0001"),
            (json!([1, {"k": null}]), "[1 map[k:<nil>]]"),
        ] {
            assert_eq!(format_interpolated(&value), expected);
        }
        let large = Number::from(123_456_789_012_345_678_i64);
        assert_eq!(number(&large), "123456789012345678");
    }

    #[test]
    fn characters_count_is_none_for_combining_ones() {
        for (text, expected) in [
            ("", Some(0)),
            ("abc", Some(3)),
            ("a\r\nb", Some(3)),
            ("größe", Some(5)),
            ("日本", Some(2)),
            ("e\u{301}", None),
            ("👩‍👩‍👧", None),
        ] {
            assert_eq!(characters(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_escapes_markup() {
        assert_eq!(
            escaped_json(&json!({"b": 1, "a": "x<y>&z"})),
            r#"{"a":"x\u003cy\u003e\u0026z","b":1}"#
        );
    }

    #[test]
    fn json_numbers_match_go() {
        for (text, expected) in [
            ("1.0", "1"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("-0.0", "0"),
            ("12345678901234567890", "12345678901234567000"),
            ("9007199254740993", "9007199254740992"),
            ("1.5", "1.5"),
        ] {
            let value: Number = serde_json::from_str(text).unwrap();
            assert_eq!(escaped_json(&Value::Number(as_float(&value))), expected);
        }
    }
}
