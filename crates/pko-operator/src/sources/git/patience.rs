//! Which reconciles wait a moment for a git server. Each holds a worker meanwhile, which serves all
//! namespaces.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Reconciles of a namespace that wait at once.
const MAX_WAITS: usize = 4;

/// The number of waits by namespace.
#[derive(Default)]
pub(super) struct Patience(Mutex<HashMap<String, usize>>);

/// A wait, which ends when this is dropped.
pub(super) struct PatienceGuard<'patience> {
    patience: &'patience Patience,
    namespace: String,
}

impl Patience {
    /// Begins a wait. None if as many reconciles of the namespace wait already.
    pub(super) fn begin(&self, namespace: &str) -> Option<PatienceGuard<'_>> {
        let mut waits = self.0.lock();
        let waits = waits.entry(namespace.to_owned()).or_default();
        (*waits < MAX_WAITS).then(|| {
            *waits += 1;
            PatienceGuard {
                patience: self,
                namespace: namespace.to_owned(),
            }
        })
    }
}

impl Drop for PatienceGuard<'_> {
    fn drop(&mut self) {
        let mut waits = self.patience.0.lock();
        if let Some(count) = waits.get_mut(&self.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waits.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_waits_of_a_namespace_are_limited() {
        let patience = Patience::default();
        let begin = || patience.begin("hostile");
        let mut waits: Vec<_> = (0..MAX_WAITS).map(|_| begin().unwrap()).collect();
        assert!(begin().is_none());
        assert!(patience.begin("victim").is_some());
        waits.pop();
        waits.push(begin().unwrap());
        assert!(begin().is_none());
        drop(waits);
        assert!(patience.0.lock().is_empty());
    }
}
