//! Which event of an object is the newest that has come; pure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::rules::is_modification;

/// A change of an object, which a newer event of that object makes superfluous.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its uid.
    object: String,
    number: usize,
}

/// How many events of each object of a watch have come.
#[derive(Clone, Default)]
pub(super) struct Newest(Arc<Mutex<HashMap<String, usize>>>);

impl Newest {
    /// Takes note of an event; gives nothing for one that must be told whatever comes after it.
    pub(super) fn note(&self, line: &[u8]) -> Option<Turn> {
        let event: Value = serde_json::from_slice(line).ok()?;
        let object = event.pointer("/object/metadata/uid")?.as_str()?.to_owned();
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = newest.entry(object.clone()).or_default();
        *count += 1;
        let number = *count;
        is_modification(line).then_some(Turn { object, number })
    }

    /// Whether an event that came after this one says all that this one says.
    pub(super) fn has_newer(&self, turn: &Turn) -> bool {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.get(&turn.object) != Some(&turn.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, uid: &str) -> Vec<u8> {
        let line = format!(r#"{{"type":"{kind}","object":{{"metadata":{{"uid":"{uid}"}}}}}}"#);
        line.into_bytes()
    }

    #[test]
    fn a_change_is_superfluous_once_its_object_has_a_newer_event() {
        let newest = Newest::default();
        let first = newest.note(&line("MODIFIED", "a")).unwrap();
        newest.note(&line("MODIFIED", "b"));
        assert!(!newest.has_newer(&first), "another object's");
        let second = newest.note(&line("MODIFIED", "a")).unwrap();
        assert!(newest.has_newer(&first));
        assert!(!newest.has_newer(&second));
        assert_eq!(newest.note(&line("DELETED", "a")), None);
        assert!(newest.has_newer(&second));
    }

    #[test]
    fn what_is_no_change_is_told() {
        let newest = Newest::default();
        assert_eq!(newest.note(&line("ADDED", "a")), None);
        assert_eq!(newest.note(br#"{"type":"BOOKMARK","object":{}}"#), None);
        assert_eq!(newest.note(b"no event"), None);
    }
}
