//! Which rule decided on each object last, so that a decision that repeats itself is not news.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The last rule of each object, by uid.
#[derive(Debug, Default)]
pub(crate) struct LastRules(Mutex<HashMap<String, &'static str>>);

impl LastRules {
    /// Remembers the rule that decided on an object. Returns whether another one did before; the
    /// first decision of this process says nothing of that.
    pub(super) fn replace(&self, uid: &str, rule: &'static str) -> bool {
        let before = self.rules().insert(uid.to_owned(), rule);
        before.is_some_and(|before| before != rule)
    }

    pub(super) fn len(&self) -> usize {
        self.rules().len()
    }

    /// Forgets all other objects than these.
    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.rules().retain(|uid, _| uids.contains(uid));
    }

    fn rules(&self) -> MutexGuard<'_, HashMap<String, &'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_rule_that_differs_is_reported() {
        let rules = LastRules::default();
        assert!(!rules.replace("a", "in-sync"), "nothing is known before it");
        assert!(!rules.replace("a", "in-sync"));
        assert!(rules.replace("a", "launch"));
        assert!(!rules.replace("b", "in-sync"), "another object");
    }

    #[test]
    fn last_rules_of_gone_objects_are_forgotten() {
        let rules = LastRules::default();
        rules.replace("a", "in-sync");
        rules.replace("b", "in-sync");
        rules.keep_only(&["b".to_owned()].into());
        assert_eq!(rules.len(), 1);
        assert!(rules.replace("b", "launch"));
    }
}
