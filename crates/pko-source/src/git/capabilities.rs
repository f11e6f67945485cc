//! What a server says that it can do.

use super::advertisement::WordsError;

/// More than any server says.
const MOST: usize = 1000;

/// The version of the protocol, so far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Version {
    /// 0 and 1: references come unasked
    #[default]
    One,
    /// 2: references come when asked for
    Two,
}

/// What a server says that it can do.
#[derive(Debug, Clone, Default)]
pub(super) struct Capabilities {
    version: Version,
    words: Vec<String>,
}

impl Capabilities {
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            words: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, word: &[u8]) -> Result<(), WordsError> {
        if self.words.len() >= MOST {
            return Err(WordsError::Problem("it has too many capabilities"));
        }
        let word = String::from_utf8_lossy(word);
        let word = word.trim();
        if !word.is_empty() {
            self.words.push(word.to_owned());
        }
        Ok(())
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// It has this capability, with a value or without.
    pub(super) fn has(&self, name: &str) -> bool {
        self.words
            .iter()
            .any(|word| word.split('=').next() == Some(name))
    }

    /// The value of a capability.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// A capability has this among the words of its value.
    pub(super) fn has_word(&self, name: &str, wanted: &str) -> bool {
        self.value(name)
            .is_some_and(|value| value.split(' ').any(|word| word == wanted))
    }

    /// The branch that `HEAD` stands for.
    pub(super) fn symbolic_head(&self) -> Option<String> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix("symref=HEAD:"))
            .filter(|name| gix_validate::reference::name((*name).into()).is_ok())
            .map(str::to_owned)
    }

    /// The hash that names objects.
    pub(super) fn hash(&self) -> Result<gix_hash::Kind, WordsError> {
        match self.value("object-format") {
            None | Some("sha1") => Ok(gix_hash::Kind::Sha1),
            Some("sha256") => Ok(gix_hash::Kind::Sha256),
            Some(_) => Err(WordsError::Problem(
                "its objects have a hash that is unknown",
            )),
        }
    }
}
