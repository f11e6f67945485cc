//! Quantities in Kubernetes' canonical form. It stores `0.5` as `500m`, and another text for the
//! same amount would be another spec.

/// Powers of 1000, from 10⁻⁹.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The smallest unit of a quantity is 10⁻⁹.
const UNITS_IN_ONE: i128 = 1_000_000_000;

/// An amount, in billionths.
struct Amount {
    billionths: i128,
    binary: bool,
}

/// The canonical text; none for a text of another form, which stays unchanged.
pub(super) fn canonical(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let amount = parse(digits)?;
    let (number, suffix) = to_binary(&amount).unwrap_or_else(|| to_decimal(&amount));
    let sign = if number == 0 { "" } else { sign };
    Some(format!("{sign}{number}{suffix}"))
}

fn parse(text: &str) -> Option<Amount> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (unit, binary) = unit(suffix)?;
    let units = digits.checked_mul(unit)?;
    let parts = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    // Kubernetes rounds a finer amount; such amounts do not occur in practice.
    (units % parts == 0).then_some(Amount {
        billionths: units / parts,
        binary,
    })
}

/// The factor of a suffix, in billionths, and whether it is a binary one.
fn unit(suffix: &str) -> Option<(i128, bool)> {
    let power = |suffixes: &[&str]| {
        let index = suffixes.iter().position(|other| *other == suffix)?;
        u32::try_from(index).ok()
    };
    if let Some(power) = power(&DECIMAL) {
        return Some((1000_i128.checked_pow(power)?, false));
    }
    let unit = 1024_i128.checked_pow(power(&BINARY)? + 1)?;
    Some((unit.checked_mul(UNITS_IN_ONE)?, true))
}

/// Applies to whole amounts of at least 1 Ki.
fn to_binary(amount: &Amount) -> Option<(i128, &'static str)> {
    let whole = amount.billionths / UNITS_IN_ONE;
    let exact = amount.billionths % UNITS_IN_ONE == 0;
    let usable = amount.binary && exact && whole >= 1024;
    usable.then(|| largest_unit(whole, 1024, std::iter::once("").chain(BINARY)))
}

fn to_decimal(amount: &Amount) -> (i128, &'static str) {
    if amount.billionths == 0 {
        return (0, "");
    }
    largest_unit(amount.billionths, 1000, DECIMAL.into_iter())
}

/// The number in the largest unit that gives a whole number.
fn largest_unit(
    mut number: i128,
    step: i128,
    mut suffixes: impl Iterator<Item = &'static str>,
) -> (i128, &'static str) {
    let mut suffix = suffixes.next().unwrap_or_default();
    while number % step == 0 {
        let Some(next) = suffixes.next() else { break };
        number /= step;
        suffix = next;
    }
    (number, suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of Kubernetes' own package.
    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.1", "100m"),
            ("100000", "100k"),
            ("123456789", "123456789"),
            ("1000k", "1M"),
            ("2048", "2048"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.3Ki", "307200m"),
            ("1.0Ki", "1Ki"),
            ("1000Ki", "1000Ki"),
            ("1000000Ki", "1000000Ki"),
            ("100n", "100n"),
            ("0", "0"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("-1000m", "-1"),
            ("1.", "1"),
            (".5", "500m"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn quantity_of_unknown_form_is_unchanged() {
        for text in [
            "", ".", "-", "+1", "1e3", "12E6", "lots", "1 Gi", "1kb", "0.1n", "1.2.3",
        ] {
            assert_eq!(canonical(text), None, "{text:?}");
        }
        let huge = "9".repeat(40);
        assert_eq!(canonical(&huge), None);
        assert_eq!(canonical(&format!("0.{huge}")), None);
    }

    proptest::proptest! {
        #[test]
        fn canonical_quantity_is_unchanged(number in 0_i64.., suffix in "[num kMGTPE]?|[KMGTPE]i") {
            if let Some(once) = canonical(&format!("{number}{}", suffix.trim())) {
                proptest::prop_assert_eq!(canonical(&once), Some(once.clone()));
            }
        }
    }
}
