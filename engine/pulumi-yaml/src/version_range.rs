//! Version ranges of `requiredVersion`: `>=3.0.0 <4.0.0 || 5.x`.

/// Whether a version is in a range. Fails if the range is malformed.
pub fn contains(range: &str, version: &str) -> Result<bool, String> {
    let version = parse(version).ok_or_else(|| format!("{version:?} is no version"))?;
    let mut any = false;
    for alternative in range.split("||") {
        any |= all_hold(alternative, version).map_err(|part| {
            format!("parsing CLI version range {range:?}: {part:?} is no version")
        })?;
    }
    Ok(any)
}

/// Whether a string is a version. Trailing numbers may be missing.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let count = numbers.split('.').count();
    count <= 3 && numbers.split('.').all(|part| part.parse::<u64>().is_ok())
}

type Version = [u64; 3];

/// Parses the numbers of a version. Ignores a leading `v`, and what follows the numbers.
fn parse(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers = text.split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

fn all_hold(text: &str, version: Version) -> Result<bool, String> {
    let mut all = true;
    let spaced = OPERATORS.iter().fold(text.to_owned(), |text, operator| {
        text.replace(&format!("{operator} "), operator)
    });
    let mut any = false;
    for part in spaced.split_whitespace() {
        any = true;
        all &= holds(part, version).ok_or_else(|| part.to_owned())?;
    }
    if any { Ok(all) } else { Err(text.to_owned()) }
}

const OPERATORS: [&str; 8] = [">=", "<=", "!=", "==", ">", "<", "!", "="];

fn holds(part: &str, version: Version) -> Option<bool> {
    let (operator, text) = OPERATORS
        .iter()
        .find_map(|operator| Some((*operator, part.strip_prefix(operator)?)))
        .unwrap_or(("=", part));
    let (low, high) = bounds(text)?;
    Some(match operator {
        ">=" => version >= low,
        ">" => high.map_or(version > low, |high| version >= high),
        "<" => version < low,
        "<=" => high.map_or(version <= low, |high| version < high),
        "!" | "!=" => !within(version, low, high),
        _ => within(version, low, high),
    })
}

fn within(version: Version, low: Version, high: Option<Version>) -> bool {
    high.map_or(version == low, |high| version >= low && version < high)
}

/// The lower bound, and for a version with an `x` in it the exclusive upper bound.
fn bounds(text: &str) -> Option<(Version, Option<Version>)> {
    let parts: Vec<_> = text.split('.').collect();
    let is_any = |part: &&str| matches!(*part, "x" | "X" | "*");
    match parts.iter().position(is_any) {
        None => parse(text).map(|version| (version, None)),
        Some(1) => {
            let major = parts.first()?.parse().ok()?;
            Some(([major, 0, 0], Some([major + 1, 0, 0])))
        }
        Some(2) => {
            let (major, minor) = (
                parts.first()?.parse().ok()?,
                parts.get(1)?.parse::<u64>().ok()?,
            );
            Some(([major, minor, 0], Some([major, minor + 1, 0])))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_with_missing_numbers_is_valid() {
        for text in ["1", "1.2", "v1.2.3", "1.2.3-beta.1+build"] {
            assert!(is_version(text), "{text}");
        }
        for text in ["", "abc", "1.x", "1.2.3.4", "1..2"] {
            assert!(!is_version(text), "{text}");
        }
    }

    #[test]
    fn version_range_contains_version() {
        for (range, expected) in [
            (">=3.0.0", Some(true)),
            (">= 3.0.0 < 4.0.0", Some(true)),
            (">4.0.0", Some(false)),
            (">4.0.0 || 3.259.0", Some(true)),
            ("3.x", Some(true)),
            ("3.258.x", Some(false)),
            (">3.258.x", Some(true)),
            ("!=3.259.0", Some(false)),
            ("!3.2.0", Some(true)),
            ("soon", None),
            ("", None),
            ("3", None),
        ] {
            let found = contains(range, "v3.259.0+pko.0.1.0").ok();
            assert_eq!(found, expected, "{range}");
        }
    }
}
