//! Which finished runs are kept. Pure.

/// Results that nobody has acknowledged: so many, and so many bytes.
const UNACKNOWLEDGED: usize = 10;
const UNACKNOWLEDGED_BYTES: u64 = 64 * 1024 * 1024;
/// Ids of acknowledged runs, so that none is started again by a caller who has not noticed.
const ACKNOWLEDGED: usize = 1000;

/// A finished run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedRun {
    pub(crate) run_id: String,
    pub(crate) acknowledged: bool,
    /// Of its events.
    pub(crate) event_bytes: u64,
    /// Of its result.
    pub(crate) result_bytes: u64,
}

/// What is to go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PruneSet {
    /// Events only; the result stays.
    pub(crate) events: Vec<String>,
    /// Events and result; the id stays.
    pub(crate) results: Vec<String>,
    /// Everything.
    pub(crate) ids: Vec<String>,
}

/// Decides what is to go, from finished runs in the order in which they ended.
pub(crate) fn excess(finished: &[FinishedRun]) -> PruneSet {
    let mut excess = PruneSet::default();
    let (acknowledged, waiting): (Vec<&FinishedRun>, Vec<&FinishedRun>) =
        finished.iter().partition(|run| run.acknowledged);
    let old = acknowledged.len().saturating_sub(ACKNOWLEDGED);
    excess.ids = acknowledged
        .iter()
        .take(old)
        .map(|run| run.run_id.clone())
        .collect();
    let mut bytes = 0;
    for (age, run) in waiting.iter().rev().enumerate() {
        let with_result = bytes + run.result_bytes;
        let with_events = with_result + run.event_bytes;
        // The newest result stays whatever its size: somebody is about to fetch it.
        if age >= UNACKNOWLEDGED || (age > 0 && with_result > UNACKNOWLEDGED_BYTES) {
            excess.results.push(run.run_id.clone());
        } else if with_events > UNACKNOWLEDGED_BYTES {
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
        assert_eq!(excess(&runs).results, ["1", "0"]);
        assert!(excess(&runs).events.is_empty() && excess(&runs).ids.is_empty());
        assert_eq!(excess(&runs[..10]), PruneSet::default());
    }

    #[test]
    fn retention_drops_events_before_results() {
        let half = UNACKNOWLEDGED_BYTES / 2;
        let runs = [kept(0, half, 1), kept(1, half, 1), kept(2, 1, 1)];
        assert_eq!(excess(&runs).events, ["0"]);
        let huge = [kept(0, 1, 1), kept(1, 1, UNACKNOWLEDGED_BYTES * 2)];
        assert_eq!(excess(&huge).results, ["0"]);
        assert_eq!(excess(&huge).events, ["1"]);
    }

    #[test]
    fn retention_keeps_acknowledged_ids() {
        let acknowledged = |id| FinishedRun {
            acknowledged: true,
            ..kept(id, 0, 0)
        };
        let runs: Vec<FinishedRun> = (0..ACKNOWLEDGED + 2).map(acknowledged).collect();
        assert_eq!(excess(&runs).ids, ["0", "1"]);
    }
}
