//! The address of a bucket: `s3://bucket/prefix?region=eu-central-1`.

use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// No bucket in the address.
    #[error("backend {0:?} names no bucket; write {1}://BUCKET")]
    NoBucket(String, &'static str),
    /// An unknown parameter.
    #[error("unknown query parameter {name:?} in the backend URL; {scheme}:// has {known}")]
    UnknownParameter {
        name: String,
        scheme: &'static str,
        /// All known parameters.
        known: String,
    },
    /// A parameter of Pulumi's CLI that is not supported.
    #[error(
        "query parameter {0:?} of the backend URL is not supported by pulumi-engine; leave it out, or use an image with Pulumi's CLI"
    )]
    UnsupportedParameter(String),
    /// An invalid value.
    #[error("invalid value {value:?} of query parameter {name:?} in the backend URL: {reason}")]
    InvalidParameter {
        /// The parameter.
        name: String,
        value: String,
        reason: &'static str,
    },
    /// Something in the environment is missing or unusable.
    #[error("{0}")]
    Environment(String),
    /// The client rejects the configuration.
    #[error("unable to open the bucket")]
    Client(#[from] object_store::Error),
}

/// A parsed address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// `s3`, `gs` or `azblob`.
    pub scheme: &'static str,
    pub bucket: String,
    /// The prefix of all keys: empty, or a path with a trailing slash.
    pub prefix: String,
    parameters: BTreeMap<String, String>,
}

impl Address {
    /// Parses a URL; none if its scheme is not that of a cloud.
    pub(crate) fn parse(url: &str) -> Result<Option<Self>, AddressError> {
        let known = ["s3", "gs", "azblob"];
        let Some((scheme, rest)) = url.split_once("://") else {
            return Ok(None);
        };
        let Some(scheme) = known.into_iter().find(|known| *known == scheme) else {
            return Ok(None);
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, path) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(AddressError::NoBucket(url.to_owned(), scheme));
        }
        let path = path.trim_matches('/');
        Ok(Some(Self {
            scheme,
            bucket: decoded(bucket),
            prefix: if path.is_empty() {
                String::new()
            } else {
                format!("{}/", decoded(path))
            },
            parameters: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(&value.replace('+', " "))))
                .collect(),
        }))
    }

    /// Rejects parameters that are not in this list.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), AddressError> {
        match self
            .parameters
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(AddressError::UnknownParameter {
                name: name.clone(),
                scheme: self.scheme,
                known: known.join(", "),
            }),
        }
    }

    /// A parameter that is set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.parameters.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// A boolean parameter, parsed as Go does.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, AddressError> {
        match self.get(name) {
            None => Ok(None),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Some(true)),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Some(false)),
            Some(_) => Err(self.invalid(name, "it must be true or false")),
        }
    }

    /// Rejects unsupported parameters that would have an effect.
    pub(super) fn refuse(&self, names: &[&str]) -> Result<(), AddressError> {
        let asked = |name: &&&str| !matches!(self.get(name), None | Some("false" | "0"));
        match names.iter().find(asked) {
            None => Ok(()),
            Some(name) => Err(AddressError::UnsupportedParameter((*name).to_owned())),
        }
    }

    /// An invalid value.
    pub(super) fn invalid(&self, name: &str, reason: &'static str) -> AddressError {
        AddressError::InvalidParameter {
            name: name.to_owned(),
            value: self.get(name).unwrap_or_default().to_owned(),
            reason,
        }
    }
}

/// Decodes percent escapes, and keeps invalid ones.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_parses_bucket_prefix_parameters() {
        let parse = |url: &str| Address::parse(url).unwrap();
        let plain = parse("s3://states").unwrap();
        assert_eq!(
            (plain.bucket.as_str(), plain.prefix.as_str()),
            ("states", "")
        );
        let whole =
            parse("s3://states/team/a/?endpoint=http%3A%2F%2Fminio:9000&disableSSL=t").unwrap();
        assert_eq!(whole.prefix, "team/a/");
        assert_eq!(whole.get("endpoint"), Some("http://minio:9000"));
        assert_eq!(whole.flag("disableSSL").unwrap(), Some(true));
        assert_eq!(whole.flag("missing").unwrap(), None);
        assert_eq!(parse("file:///x"), None);
        assert_eq!(parse("nothing"), None);
        assert!(
            Address::parse("gs:///x")
                .unwrap_err()
                .to_string()
                .contains("gs://BUCKET")
        );
    }

    #[test]
    fn address_unknown_parameter_is_rejected() {
        let address = Address::parse("s3://b?regoin=x&fips=true&dualstack=false")
            .unwrap()
            .unwrap();
        let unknown = address.only(&["region", "fips", "dualstack"]).unwrap_err();
        assert!(unknown.to_string().contains("\"regoin\""), "{unknown}");
        let refused = address.refuse(&["dualstack", "fips"]).unwrap_err();
        assert!(refused.to_string().contains("\"fips\""), "{refused}");
        assert!(address.refuse(&["dualstack"]).is_ok());
        assert!(
            address
                .flag("regoin")
                .unwrap_err()
                .to_string()
                .contains("true or false")
        );
    }
}
