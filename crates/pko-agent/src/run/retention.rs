//! Decides which finished runs stay in the journal. Pure.

/// Limits for results that no caller has acknowledged.
const MAX_UNACKNOWLEDGED: usize = 10;
const MAX_UNACKNOWLEDGED_BYTES: u64 = 64 * 1024 * 1024;
/// Ids of acknowledged runs are kept so that a late request does not start one again.
const MAX_ACKNOWLEDGED: usize = 1000;

/// A finished run and its size on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedRun {
    pub(crate) run_id: String,
    pub(crate) acknowledged: bool,
    pub(crate) event_bytes: u64,
    pub(crate) result_bytes: u64,
}

/// What to remove, by run id.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PruneSet {
    /// Events only.
    pub(crate) events: Vec<String>,
    /// Events and result, but not the id.
    pub(crate) results: Vec<String>,
    pub(crate) ids: Vec<String>,
}

/// What to remove of finished runs, which are ordered by their end.
pub(crate) fn runs_to_prune(finished: &[FinishedRun]) -> PruneSet {
    let mut excess = PruneSet::default();
    let (acknowledged, waiting): (Vec<&FinishedRun>, Vec<&FinishedRun>) =
        finished.iter().partition(|run| run.acknowledged);
    let old = acknowledged.len().saturating_sub(MAX_ACKNOWLEDGED);
    excess.ids = acknowledged
        .iter()
        .take(old)
        .map(|run| run.run_id.clone())
        .collect();
    let mut bytes = 0;
    for (age, run) in waiting.iter().rev().enumerate() {
        let with_result = bytes + run.result_bytes;
        let with_events = with_result + run.event_bytes;
        // The newest result always stays: its caller is about to fetch it.
        if age >= MAX_UNACKNOWLEDGED || (age > 0 && with_result > MAX_UNACKNOWLEDGED_BYTES) {
            excess.results.push(run.run_id.clone());
        } else if with_events > MAX_UNACKNOWLEDGED_BYTES {
            bytes = with_result;
            excess.events.push(run.run_id.clone());
        } else {
            bytes = with_events;
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: usize, event_bytes: u64, result_bytes: u64) -> FinishedRun {
        FinishedRun {
            run_id: id.to_string(),
            acknowledged: false,
            event_bytes,
            result_bytes,
        }
    }

    #[test]
    fn retention_keeps_last_ten_results() {
        let runs: Vec<FinishedRun> = (0..12).map(|id| kept(id, 10, 10)).collect();
        assert_eq!(runs_to_prune(&runs).results, ["1", "0"]);
        assert!(runs_to_prune(&runs).events.is_empty() && runs_to_prune(&runs).ids.is_empty());
        assert_eq!(runs_to_prune(&runs[..10]), PruneSet::default());
    }

    #[test]
    fn retention_drops_events_before_results() {
        let half = MAX_UNACKNOWLEDGED_BYTES / 2;
        let runs = [kept(0, half, 1), kept(1, half, 1), kept(2, 1, 1)];
        assert_eq!(runs_to_prune(&runs).events, ["0"]);
        let huge = [kept(0, 1, 1), kept(1, 1, MAX_UNACKNOWLEDGED_BYTES * 2)];
        assert_eq!(runs_to_prune(&huge).results, ["0"]);
        assert_eq!(runs_to_prune(&huge).events, ["1"]);
    }

    #[test]
    fn retention_keeps_acknowledged_ids() {
        let acknowledged = |id| FinishedRun {
            acknowledged: true,
            ..kept(id, 0, 0)
        };
        let runs: Vec<FinishedRun> = (0..MAX_ACKNOWLEDGED + 2).map(acknowledged).collect();
        assert_eq!(runs_to_prune(&runs).ids, ["0", "1"]);
    }
}
