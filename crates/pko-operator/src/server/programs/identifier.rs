//! The part of a URL path that names an archive: `<namespace>/<name>/<generation>`, and a seal.

/// A parsed URL path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArchiveRequest<'path> {
    pub(super) namespace: &'path str,
    pub(super) name: &'path str,
    /// 0 if it is not a number; no Program has that.
    pub(super) generation: i64,
    pub(super) seal: Option<&'path str>,
}

impl<'path> ArchiveRequest<'path> {
    /// None if the path is malformed.
    pub(super) fn parse(identifier: &'path str, sealed: bool) -> Option<Self> {
        let parts: Vec<&str> = identifier.split('/').collect();
        let (namespace, name, generation, seal) = match (parts.as_slice(), sealed) {
            ([namespace, name, generation], _) => (namespace, name, generation, None),
            ([namespace, name, generation, seal], true) => {
                (namespace, name, generation, Some(*seal))
            }
            _ => return None,
        };
        Some(Self {
            namespace,
            name,
            generation: generation.parse().unwrap_or_default(),
            seal,
        })
    }

    /// Whether there may be such an object.
    pub(super) fn has_valid_names(&self) -> bool {
        is_name(self.namespace) && is_name(self.name)
    }
}

/// Whether a text is safe in a path of the API server.
fn is_name(text: &str) -> bool {
    const LONGEST: usize = 253;
    let plain = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || "-.".contains(character)
    };
    text.len() <= LONGEST
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_path_has_a_fourth_segment_if_signed() {
        let found = |identifier, sealed| {
            let request = ArchiveRequest::parse(identifier, sealed);
            request.map(|request| (request.generation, request.seal))
        };
        for (identifier, open, sealed) in [
            ("a/b/1", Some((1, None)), Some((1, None))),
            ("a/b/1/s", None, Some((1, Some("s")))),
            ("a/b/1/", None, Some((1, Some("")))),
            ("a/b/1.tar.gz", Some((0, None)), Some((0, None))),
            ("a/b/x/s", None, Some((0, Some("s")))),
            ("a/b", None, None),
            ("a", None, None),
            ("", None, None),
            ("a/b/1/s/t", None, None),
        ] {
            assert_eq!(found(identifier, false), open, "{identifier}");
            assert_eq!(found(identifier, true), sealed, "{identifier}");
        }
    }

    #[test]
    fn program_path_must_have_valid_names() {
        for name in ["a", "a-b.c", "0"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for text in ["", ".", "..", "a/b", "A", "a?b", "a%2f", "a b", "ü", &long] {
            assert!(!is_name(text), "{text}");
        }
    }
}
