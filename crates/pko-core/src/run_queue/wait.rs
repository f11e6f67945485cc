//! Why a run waits, and about how many go before it.

use std::fmt;

use super::{
    RunQueue, RunRequest,
    namespace::{NamespaceQueue, QueueOrder},
};

/// From here on, the number is of no use to anybody.
const FAR: usize = 100;
/// Up to here, a run goes soon.
const NEAR: usize = 10;

/// Why a run waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueWait {
    /// How many go before it, as far as one can tell.
    pub position: QueuePosition,
    /// What holds it up.
    pub reason: WaitReason,
}

/// About how many runs go before one. It is coarse, so that a step of the queue changes the status
/// of a few Updates and not of all that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePosition {
    /// None.
    Next,
    /// Fewer than ten.
    Near,
    /// Fewer than a hundred.
    Middle,
    /// A hundred or more.
    Far,
}

impl QueuePosition {
    fn after(before: usize) -> Self {
        match before {
            0 => Self::Next,
            before if before < NEAR => Self::Near,
            before if before < FAR => Self::Middle,
            _ => Self::Far,
        }
    }
}

/// What holds a run up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Another run of the namespace is under way on the same stack.
    Stack(String),
    /// The namespace is at its limit.
    Namespace(usize),
    /// The cluster is at its limit.
    Cluster(usize),
}

impl fmt::Display for QueuePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Next => formatter.write_str("it is the next"),
            Self::Near => write!(formatter, "fewer than {NEAR} runs are before it"),
            Self::Middle => write!(formatter, "fewer than {FAR} runs are before it"),
            Self::Far => write!(formatter, "{FAR} runs or more are before it"),
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, place, flag) = match self {
            Self::Stack(stack) => {
                return write!(
                    formatter,
                    "another run is under way on the stack \"{stack}\""
                );
            }
            Self::Namespace(limit) => (limit, "this namespace", "--max-runs-per-namespace"),
            Self::Cluster(limit) => (limit, "the cluster", "--max-runs"),
        };
        let runs = if *limit == 1 { "run is" } else { "runs are" };
        write!(
            formatter,
            "{limit} {runs} under way in {place}, which is the limit ({flag})"
        )
    }
}

impl fmt::Display for QueueWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reason, position) = (&self.reason, self.position);
        write!(formatter, "waiting for its turn: {reason}; {position}")
    }
}

impl RunQueue {
    /// The wait of a run that was not admitted.
    pub(super) fn wait(&self, place: u64, request: &RunRequest) -> QueueWait {
        let order = QueueOrder::new(place, request.urgency);
        let queue = self.namespaces.get(&request.namespace);
        let reason = queue.and_then(|queue| self.obstacle(request, queue));
        let reason = reason.unwrap_or_else(|| WaitReason::Stack(request.stack.stack.clone()));
        let before = queue.map_or(0, |queue| match &reason {
            WaitReason::Stack(_) => queue.count_before_on(&request.stack, order, FAR),
            WaitReason::Namespace(_) => queue.count_before(order, FAR),
            WaitReason::Cluster(_) => self.count_before_in_cluster(request, queue, order),
        });
        QueueWait {
            position: QueuePosition::after(before),
            reason,
        }
    }

    /// What holds a run up. What its own namespace can change comes first, so that the answer does
    /// not change with what others do.
    pub(super) fn obstacle(
        &self,
        request: &RunRequest,
        queue: &NamespaceQueue,
    ) -> Option<WaitReason> {
        if queue.is_busy(&request.stack) {
            return Some(WaitReason::Stack(request.stack.stack.clone()));
        }
        let namespace = queue.reached(self.limits.namespace);
        let namespace = namespace.map(WaitReason::Namespace);
        namespace.or_else(|| self.cluster_limit().map(WaitReason::Cluster))
    }

    /// The namespaces take turns, so that each goes before a run as often as the run's own does,
    /// and once more if it stands before that.
    fn count_before_in_cluster(
        &self,
        request: &RunRequest,
        queue: &NamespaceQueue,
        order: QueueOrder,
    ) -> usize {
        let own = queue.count_before(order, FAR);
        let mut before = own;
        let mut is_passed = false;
        for rank in self.eligible.iter().take(FAR) {
            if before >= FAR {
                break;
            }
            if rank.namespace == request.namespace {
                is_passed = true;
                continue;
            }
            let ready = self.namespaces.get(&rank.namespace);
            let ready = ready.map_or(0, NamespaceQueue::count_ready);
            before += ready.min(own + usize::from(!is_passed));
        }
        before
    }
}
