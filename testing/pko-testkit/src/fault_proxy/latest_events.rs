//! Tracks the latest event of each object of a watch.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::rules::is_modification;

/// A change of an object, which a newer event of that object makes superfluous.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventNumber {
    object: String,
    number: usize,
}

/// How many events of each object of a watch have come.
#[derive(Clone, Default)]
pub(super) struct LatestEvents(Arc<Mutex<HashMap<String, usize>>>);

impl LatestEvents {
    /// Counts an event. Returns `None` for one that is never superseded.
    pub(super) fn note(&self, line: &[u8]) -> Option<EventNumber> {
        let event: Value = serde_json::from_slice(line).ok()?;
        let object = event.pointer("/object/metadata/uid")?.as_str()?.to_owned();
        let mut latest = self.0.lock();
        let count = latest.entry(object.clone()).or_default();
        *count += 1;
        let number = *count;
        is_modification(line).then_some(EventNumber { object, number })
    }

    /// True if a later event supersedes this one.
    pub(super) fn has_newer(&self, number: &EventNumber) -> bool {
        let latest = self.0.lock();
        latest.get(&number.object) != Some(&number.number)
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
    fn change_is_superseded_by_newer_event() {
        let latest = LatestEvents::default();
        let first = latest.note(&line("MODIFIED", "a")).unwrap();
        latest.note(&line("MODIFIED", "b"));
        assert!(!latest.has_newer(&first), "another object's");
        let second = latest.note(&line("MODIFIED", "a")).unwrap();
        assert!(latest.has_newer(&first));
        assert!(!latest.has_newer(&second));
        assert_eq!(latest.note(&line("DELETED", "a")), None);
        assert!(latest.has_newer(&second));
    }

    #[test]
    fn non_modifications_are_never_superseded() {
        let latest = LatestEvents::default();
        assert_eq!(latest.note(&line("ADDED", "a")), None);
        assert_eq!(latest.note(br#"{"type":"BOOKMARK","object":{}}"#), None);
        assert_eq!(latest.note(b"no event"), None);
    }
}
