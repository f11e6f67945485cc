//! The runs of one namespace: which of them goes next.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

use super::{HEAD_START, StackKey, Urgency};

/// Where a run stands among those of its namespace: the lower, the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueOrder {
    rank: i128,
    place: u64,
}

impl QueueOrder {
    pub(super) fn new(place: u64, urgency: Urgency) -> Self {
        let rank = i128::from(place) - head_start(urgency);
        Self { rank, place }
    }

    /// The places that its urgency is worth.
    fn head_start(self) -> i128 {
        i128::from(self.place) - self.rank
    }
}

impl Ord for QueueOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        super::tests::count_comparison();
        (self.rank, self.place).cmp(&(other.rank, other.place))
    }
}

impl PartialOrd for QueueOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where a namespace stands with the best of its runs: the lower, the sooner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamespaceRank {
    under_way: usize,
    /// When it was served last, less the head start of its run.
    served: i128,
    best: QueueOrder,
    pub(super) namespace: String,
}

impl NamespaceRank {
    /// The place of its best run.
    pub(super) fn place(&self) -> u64 {
        self.best.place
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceQueue {
    under_way: usize,
    /// When it was served last.
    served: u64,
    waiting: BTreeSet<QueueOrder>,
    /// Those that have a run here.
    stacks: HashMap<StackKey, StackQueue>,
    /// The first of each stack that has no run under way.
    ready: BTreeSet<QueueOrder>,
}

#[derive(Clone, Debug, Default)]
struct StackQueue {
    /// More than one is possible only where they were under way already.
    under_way: usize,
    waiting: BTreeSet<QueueOrder>,
}

impl StackQueue {
    /// The run that may go.
    fn ready(&self) -> Option<QueueOrder> {
        let first = self.waiting.first().filter(|_| self.under_way == 0);
        first.copied()
    }
}

impl NamespaceQueue {
    pub(super) fn enqueue(&mut self, stack: &StackKey, order: QueueOrder) {
        self.waiting.insert(order);
        self.change(stack, |queue| {
            queue.waiting.insert(order);
        });
    }

    pub(super) fn dequeue(&mut self, stack: &StackKey, order: QueueOrder) {
        self.waiting.remove(&order);
        self.change(stack, |queue| {
            queue.waiting.remove(&order);
        });
    }

    pub(super) fn begin(&mut self, stack: &StackKey, now: u64) {
        self.under_way += 1;
        self.served = now;
        self.change(stack, |queue| queue.under_way += 1);
    }

    pub(super) fn end(&mut self, stack: &StackKey) {
        self.under_way = self.under_way.saturating_sub(1);
        self.change(stack, |queue| {
            queue.under_way = queue.under_way.saturating_sub(1);
        });
    }

    fn change(&mut self, stack: &StackKey, change: impl FnOnce(&mut StackQueue)) {
        let queue = self.stacks.entry(stack.clone()).or_default();
        let before = queue.ready();
        change(queue);
        let after = queue.ready();
        if queue.under_way == 0 && queue.waiting.is_empty() {
            self.stacks.remove(stack);
        }
        if before != after {
            if let Some(before) = before {
                self.ready.remove(&before);
            }
            self.ready.extend(after);
        }
    }

    /// Its rank, if it has a run that may go.
    pub(super) fn rank(&self, namespace: &str, limit: Option<usize>) -> Option<NamespaceRank> {
        let best = *self.ready.first()?;
        self.reached(limit).is_none().then(|| NamespaceRank {
            under_way: self.under_way,
            served: i128::from(self.served) - best.head_start(),
            best,
            namespace: namespace.to_owned(),
        })
    }

    /// The limit, if it is reached.
    pub(super) fn reached(&self, limit: Option<usize>) -> Option<usize> {
        limit.filter(|limit| self.under_way >= *limit)
    }

    pub(super) fn is_busy(&self, stack: &StackKey) -> bool {
        let queue = self.stacks.get(stack);
        queue.is_some_and(|queue| queue.under_way > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many of the namespace go before this one, counted up to a limit.
    pub(super) fn count_before(&self, order: QueueOrder, up_to: usize) -> usize {
        self.waiting.range(..order).take(up_to).count()
    }

    /// The same among those of a stack.
    pub(super) fn count_before_on(
        &self,
        stack: &StackKey,
        order: QueueOrder,
        up_to: usize,
    ) -> usize {
        let queue = self.stacks.get(stack);
        queue.map_or(0, |queue| queue.waiting.range(..order).take(up_to).count())
    }

    /// How many runs it could start.
    pub(super) fn count_ready(&self) -> usize {
        self.ready.len()
    }
}

/// The places that urgency is worth.
fn head_start(urgency: Urgency) -> i128 {
    let level = match urgency {
        Urgency::Resync => 0,
        Urgency::Request => 1,
        Urgency::Change => 2,
        Urgency::Destroy => 3,
    };
    i128::from(HEAD_START) * level
}
