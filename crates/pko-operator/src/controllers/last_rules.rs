//! The rule that last decided on each object, so that a repeated decision is not logged again.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};

/// By uid.
#[derive(Debug, Default)]
pub(crate) struct LastRules(Mutex<HashMap<String, &'static str>>);

impl LastRules {
    /// Records the rule that decided on an object. Returns whether another rule decided before;
    /// false for the first decision in this process.
    pub(super) fn replace(&self, uid: &str, rule: &'static str) -> bool {
        let before = self.rules().insert(uid.to_owned(), rule);
        before.is_some_and(|before| before != rule)
    }

    pub(super) fn len(&self) -> usize {
        self.rules().len()
    }

    /// Forgets all objects but these.
    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.rules().retain(|uid, _| uids.contains(uid));
    }

    fn rules(&self) -> MutexGuard<'_, HashMap<String, &'static str>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_rules_report_a_change() {
        let rules = LastRules::default();
        assert!(!rules.replace("a", "in-sync"), "the first decision");
        assert!(!rules.replace("a", "in-sync"));
        assert!(rules.replace("a", "launch"));
        assert!(!rules.replace("b", "in-sync"), "another object");
    }

    #[test]
    fn last_rules_forget_deleted_objects() {
        let rules = LastRules::default();
        rules.replace("a", "in-sync");
        rules.replace("b", "in-sync");
        rules.keep_only(&["b".to_owned()].into());
        assert_eq!(rules.len(), 1);
        assert!(rules.replace("b", "launch"));
    }
}
