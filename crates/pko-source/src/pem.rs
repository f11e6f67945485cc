//! Reads PEM as users paste it: with CRLF, indented, on one line, without a final newline. Does no
//! I/O.

use base64::{Engine as _, prelude::BASE64_STANDARD};

const DASHES: &str = "-----";

pub(crate) struct PemSection {
    pub(crate) label: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PemError {
    NoSection,
    NoEnd,
    Damaged,
}

impl PemSection {
    /// The first section whose label is not in `skipped`.
    pub(crate) fn first(text: &str, skipped: &[&str]) -> Result<Self, PemError> {
        // Values from environment files have `\n` spelled out.
        let spelled_out = !text.trim().contains('\n') && text.contains("\\n");
        let text = if spelled_out {
            text.replace("\\r", "").replace("\\n", "\n")
        } else {
            text.to_owned()
        };
        let mut rest = text.as_str();
        loop {
            let (label, content, after) = split(rest)?;
            if !skipped.contains(&label) {
                return Self::read(label, content);
            }
            rest = after;
        }
    }

    fn read(label: &str, content: &str) -> Result<Self, PemError> {
        let lines = content.lines().map(str::trim);
        let mut headers = Vec::new();
        let mut encoded = String::new();
        for line in lines {
            match line.split_once(':') {
                Some((name, value)) => {
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                None => encoded.extend(line.chars().filter(|character| !character.is_whitespace())),
            }
        }
        let body = BASE64_STANDARD.decode(encoded);
        let body = body.map_err(|_| PemError::Damaged)?;
        Ok(Self {
            label: label.to_owned(),
            headers,
            body,
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The label, the content, and the text after the section.
fn split(text: &str) -> Result<(&str, &str, &str), PemError> {
    let begin = text.split_once("-----BEGIN ");
    let (_, text) = begin.ok_or(PemError::NoSection)?;
    let (label, text) = text.split_once(DASHES).ok_or(PemError::NoSection)?;
    let end = format!("-----END {label}-----");
    let (content, after) = text.split_once(end.as_str()).ok_or(PemError::NoEnd)?;
    Ok((label, content, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<Vec<u8>, PemError> {
        PemSection::first(text, &["EC PARAMETERS"]).map(|section| section.body)
    }

    #[test]
    fn pem_formatting_is_tolerated() {
        for text in [
            "-----BEGIN X-----\nAAEC\nAwQF\n-----END X-----\n",
            "-----BEGIN X-----\r\nAAEC\r\nAwQF\r\n-----END X-----",
            "\n\n  -----BEGIN X-----\n  AAEC\n\tAwQF  \n  -----END X-----  \n\n",
            "-----BEGIN X----- AAEC AwQF -----END X-----",
            "-----BEGIN X-----\\nAAEC\\nAwQF\\n-----END X-----\\n",
            "words\n-----BEGIN EC PARAMETERS-----\nAAAA\n-----END EC PARAMETERS-----\n-----BEGIN X-----\nAAECAwQF\n-----END X-----\n",
        ] {
            assert_eq!(body(text), Ok(vec![0, 1, 2, 3, 4, 5]), "{text:?}");
        }
    }

    #[test]
    fn pem_headers_are_kept() {
        let text = "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAEC\n-----END X-----\n";
        let section = PemSection::first(text, &[]).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(section.header("DEK-Info"), Some("AES-128-CBC,00"));
        assert_eq!(section.body, [0, 1, 2]);
    }

    #[test]
    fn pem_invalid_text_is_rejected() {
        for (text, error) in [
            ("", PemError::NoSection),
            ("AAEC", PemError::NoSection),
            ("-----BEGIN X", PemError::NoSection),
            ("-----BEGIN X-----\nAAEC\n", PemError::NoEnd),
            ("-----BEGIN X-----\nAAEC\n-----END Y-----", PemError::NoEnd),
            ("-----BEGIN X-----\n!\n-----END X-----", PemError::Damaged),
        ] {
            assert_eq!(body(text), Err(error), "{text:?}");
        }
    }
}
