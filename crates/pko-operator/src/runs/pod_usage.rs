//! Who is in a workspace: runs, or whoever replaces what they would run in. Never both.
//!
//! # Caveats
//! This is the memory of one manager. What was begun before its start is told by the Updates themselves.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Who is in which workspace, by its uid.
#[derive(Debug, Default)]
pub(crate) struct Occupancy(Mutex<HashMap<String, Occupants>>);

#[derive(Debug, Default)]
struct Occupants {
    runs: HashSet<String>,
    is_replaced: bool,
}

impl Occupancy {
    /// A run wants to begin; not while the place is replaced. Entering twice is entering once.
    pub(crate) fn enter(&self, workspace: &str, run: &str) -> bool {
        let mut all = self.all();
        let occupants = all.entry(workspace.to_owned()).or_default();
        if occupants.is_replaced {
            return false;
        }
        occupants.runs.insert(run.to_owned());
        true
    }

    /// A run is over, or will not begin.
    pub(crate) fn leave(&self, run: &str) {
        let mut all = self.all();
        for occupants in all.values_mut() {
            occupants.runs.remove(run);
        }
        all.retain(|_, occupants| occupants.is_replaced || !occupants.runs.is_empty());
    }

    /// The place is to be replaced; not while a run is in it.
    pub(crate) fn begin_replacing(&self, workspace: &str) -> bool {
        let mut all = self.all();
        let occupants = all.entry(workspace.to_owned()).or_default();
        occupants.is_replaced |= occupants.runs.is_empty();
        occupants.is_replaced
    }

    /// The place is another now, or stays what it was.
    pub(crate) fn end_replacing(&self, workspace: &str) {
        let mut all = self.all();
        if let Some(occupants) = all.get_mut(workspace) {
            occupants.is_replaced = false;
        }
        all.retain(|_, occupants| occupants.is_replaced || !occupants.runs.is_empty());
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Occupants>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_replaces_a_place_under_a_run() {
        let occupancy = Occupancy::default();
        assert!(occupancy.enter("ws", "a") && occupancy.enter("ws", "a"));
        assert!(!occupancy.begin_replacing("ws"));
        assert!(occupancy.begin_replacing("other"));
        occupancy.leave("a");
        assert!(occupancy.begin_replacing("ws"));
    }

    #[test]
    fn no_run_begins_in_a_place_that_is_replaced() {
        let occupancy = Occupancy::default();
        assert!(occupancy.begin_replacing("ws") && occupancy.begin_replacing("ws"));
        assert!(!occupancy.enter("ws", "a"));
        assert!(occupancy.enter("other", "b"));
        occupancy.end_replacing("ws");
        assert!(occupancy.enter("ws", "a"));
    }

    #[test]
    fn an_empty_workspace_is_forgotten() {
        let occupancy = Occupancy::default();
        occupancy.enter("ws", "a");
        occupancy.leave("a");
        occupancy.begin_replacing("ws");
        occupancy.end_replacing("ws");
        assert!(occupancy.all().is_empty());
    }
}
