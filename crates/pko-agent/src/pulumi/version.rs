//! Which CLI it is, and what one of that version can do.

use semver::{Prerelease, Version};

/// What turns the check off.
pub(crate) const SKIP_CHECK: &str = "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK";

const OLDEST: &str = "3.2.0-alpha";
const MAJOR: u64 = 3;

/// A CLI that can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionError {
    #[error("Unable to parse Pulumi CLI version (skip with {SKIP_CHECK}=true): `{0}`")]
    Unreadable(String),
    #[error(
        "Major version mismatch. You are using Pulumi CLI version {0} with Automation SDK v{MAJOR}. Please update the SDK."
    )]
    TooNew(String),
    #[error(
        "Minimum version requirement failed. The minimum CLI version requirement is {OLDEST}, your current CLI version is {0}. Please update the Pulumi CLI."
    )]
    TooOld(String),
}

/// The version of a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliVersion(Version);

impl CliVersion {
    /// From what `pulumi version` prints. Without the check, what is not readable is the oldest there is.
    pub(crate) fn of(printed: &str, check: bool) -> Result<Self, VersionError> {
        let printed = printed.trim();
        let version = tolerant(printed);
        if !check {
            return Ok(Self(version.unwrap_or(Version::new(0, 0, 0))));
        }
        let version = version.ok_or_else(|| VersionError::Unreadable(printed.to_owned()))?;
        if version.major > MAJOR {
            return Err(VersionError::TooNew(printed.to_owned()));
        }
        if version < oldest() {
            return Err(VersionError::TooOld(printed.to_owned()));
        }
        Ok(Self(version))
    }

    /// As callers get it: without a leading `v`.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// It sends events to a listener. The embedded engine writes a file, which is less work for both.
    pub(crate) fn sends_events(&self) -> bool {
        self.is_newer_than(3, 205) && !self.0.build.starts_with("pko")
    }

    /// `whoami --json`.
    pub(crate) fn tells_who_am_i_as_json(&self) -> bool {
        self.is_at_least(3, 58)
    }

    /// `config env add`.
    pub(crate) fn has_environments(&self) -> bool {
        self.is_at_least(3, 95)
    }

    fn is_at_least(&self, major: u64, minor: u64) -> bool {
        self.0 >= Version::new(major, minor, 0)
    }

    fn is_newer_than(&self, major: u64, minor: u64) -> bool {
        // What is after the plus says nothing about which is newer.
        self.0
            .cmp_precedence(&Version::new(major, minor, 0))
            .is_gt()
    }
}

fn oldest() -> Version {
    Version {
        pre: Prerelease::new("alpha").unwrap_or_default(),
        ..Version::new(3, 2, 0)
    }
}

/// A leading `v` and missing parts are fine.
fn tolerant(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers_end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(numbers_end);
    let missing = 3_usize.checked_sub(numbers.split('.').count())?;
    let whole = format!("{numbers}{}{rest}", ".0".repeat(missing));
    Version::parse(&whole).ok()
}

/// As Pulumi reads a variable that is on or off.
pub(crate) fn is_true(value: &str) -> bool {
    matches!(
        value,
        "1" | "t" | "T" | "true" | "TRUE" | "True" | "y" | "Y" | "yes" | "YES" | "Yes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(printed: &str) -> CliVersion {
        CliVersion::of(printed, true).unwrap()
    }

    #[test]
    fn what_is_printed_is_read_tolerantly() {
        let table = [
            ("v3.259.0\n", "3.259.0"),
            ("3.259.0", "3.259.0"),
            ("v3.200", "3.200.0"),
            ("v3.259.0+pko.0.1.0", "3.259.0+pko.0.1.0"),
            ("v3.260.0-alpha.1", "3.260.0-alpha.1"),
        ];
        for (printed, text) in table {
            assert_eq!(version(printed).text(), text);
        }
    }

    #[test]
    fn one_that_cannot_be_used_is_refused_in_the_words_that_people_know() {
        let table = [
            (
                "v4.0.0",
                "Major version mismatch. You are using Pulumi CLI version v4.0.0",
            ),
            (
                "v3.1.9",
                "Minimum version requirement failed. The minimum CLI version requirement is 3.2.0-alpha",
            ),
            ("nonsense", "Unable to parse Pulumi CLI version"),
            ("", "Unable to parse Pulumi CLI version"),
            ("1.2.3.4", "Unable to parse Pulumi CLI version"),
        ];
        for (printed, text) in table {
            let error = CliVersion::of(printed, true).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        assert!(CliVersion::of("v3.2.0-alpha", true).is_ok());
    }

    #[test]
    fn without_the_check_everything_goes_and_nonsense_is_the_oldest() {
        assert_eq!(CliVersion::of("v4.1.0", false).unwrap().text(), "4.1.0");
        let nonsense = CliVersion::of("nonsense", false).unwrap();
        assert_eq!(nonsense.text(), "0.0.0");
        assert!(!nonsense.sends_events() && !nonsense.has_environments());
        assert!(!nonsense.tells_who_am_i_as_json());
    }

    #[test]
    fn where_features_begin() {
        let table = [
            ("3.57.0", [false, false, false]),
            ("3.58.0", [true, false, false]),
            ("3.95.0", [true, true, false]),
            ("3.205.0", [true, true, false]),
            ("3.205.0+dirty", [true, true, false]),
            ("3.205.1", [true, true, true]),
            ("3.206.0", [true, true, true]),
            ("3.259.0+pko.0.1.0", [true, true, false]),
        ];
        for (printed, expected) in table {
            let version = version(printed);
            let actual = [
                version.tells_who_am_i_as_json(),
                version.has_environments(),
                version.sends_events(),
            ];
            assert_eq!(actual, expected, "{printed}");
        }
    }

    #[test]
    fn a_variable_is_on_or_off() {
        assert!(is_true("true") && is_true("1") && !is_true("") && !is_true("0"));
    }
}
