use super::advertisement::ProtocolError;

const MAX_CAPABILITIES: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Version {
    /// The server sends all references unasked.
    #[default]
    V0OrV1,
    /// The server sends the references that are requested.
    V2,
}

/// The capabilities that a server advertises.
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

    pub(super) fn add(&mut self, word: &[u8]) -> Result<(), ProtocolError> {
        if self.words.len() >= MAX_CAPABILITIES {
            return Err(ProtocolError::Problem("too many capabilities"));
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

    /// Whether the server has this capability, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.words
            .iter()
            .any(|word| word.split('=').next() == Some(name))
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether the value of a capability contains this word.
    pub(super) fn has_word(&self, name: &str, wanted: &str) -> bool {
        self.value(name)
            .is_some_and(|value| value.split(' ').any(|word| word == wanted))
    }

    /// The branch that `HEAD` points to.
    pub(super) fn symbolic_head(&self) -> Option<String> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix("symref=HEAD:"))
            .filter(|name| gix_validate::reference::name((*name).into()).is_ok())
            .map(str::to_owned)
    }

    pub(super) fn hash(&self) -> Result<gix_hash::Kind, ProtocolError> {
        match self.value("object-format") {
            None | Some("sha1") => Ok(gix_hash::Kind::Sha1),
            Some("sha256") => Ok(gix_hash::Kind::Sha256),
            Some(_) => Err(ProtocolError::Problem("the object format is not supported")),
        }
    }
}
