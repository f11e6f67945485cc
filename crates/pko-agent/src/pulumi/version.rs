//! The CLI's version, and the features that depend on it.

use semver::{Prerelease, Version};

/// Disables the check.
pub(crate) const SKIP_CHECK: &str = "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK";

const OLDEST: &str = "3.2.0-alpha";
const MAJOR: u64 = 3;

/// An unsupported CLI, in upstream's words.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliVersion(Version);

impl CliVersion {
    /// Parses the output of `pulumi version`. Without the check, an unreadable version is 0.0.0.
    pub(crate) fn parse(printed: &str, check: bool) -> Result<Self, VersionError> {
        let printed = printed.trim();
        let version = parse_leniently(printed);
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

    /// Without a leading `v`.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Sends events by gRPC. The embedded engine writes a file, which is cheaper for both.
    pub(crate) fn has_event_listener(&self) -> bool {
        self.is_newer_than(3, 205) && !self.0.build.starts_with("pko")
    }

    /// `whoami --json`.
    pub(crate) fn has_who_am_i_json(&self) -> bool {
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
        // Build metadata does not count.
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

/// Accepts a leading `v` and missing parts.
fn parse_leniently(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers_end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(numbers_end);
    let missing = 3_usize.checked_sub(numbers.split('.').count())?;
    let whole = format!("{numbers}{}{rest}", ".0".repeat(missing));
    Version::parse(&whole).ok()
}

/// Pulumi's syntax of boolean variables.
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
        CliVersion::parse(printed, true).unwrap()
    }

    #[test]
    fn cli_version_is_parsed_leniently() {
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
    fn unsupported_cli_version_has_upstream_error() {
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
            let error = CliVersion::parse(printed, true).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        assert!(CliVersion::parse("v3.2.0-alpha", true).is_ok());
    }

    #[test]
    fn skipped_version_check_accepts_anything() {
        assert_eq!(CliVersion::parse("v4.1.0", false).unwrap().text(), "4.1.0");
        let nonsense = CliVersion::parse("nonsense", false).unwrap();
        assert_eq!(nonsense.text(), "0.0.0");
        assert!(!nonsense.has_event_listener() && !nonsense.has_environments());
        assert!(!nonsense.has_who_am_i_json());
    }

    #[test]
    fn cli_features_follow_version() {
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
                version.has_who_am_i_json(),
                version.has_environments(),
                version.has_event_listener(),
            ];
            assert_eq!(actual, expected, "{printed}");
        }
    }

    #[test]
    fn boolean_variable_is_parsed() {
        assert!(is_true("true") && is_true("1") && !is_true("") && !is_true("0"));
    }
}
