//! The repositories that wait for their next request, by tenant. The tenants take turns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use super::slots::Slots;

/// Repositories of a tenant on one host, which wait for the same slots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) tenant: Arc<str>,
    pub(super) host: Arc<str>,
    /// Whether the last request succeeded.
    pub(super) proven: bool,
}

/// When a repository is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) due: Instant,
    /// Orders repositories that are due at the same time.
    pub(super) number: u64,
}

pub(super) struct Rounds<K> {
    tenants: HashMap<Arc<str>, TenantRound<K>>,
    clock: u64,
}

struct TenantRound<K> {
    proven: WaitingLanes<K>,
    unproven: WaitingLanes<K>,
    /// When it got a slot last.
    served: u64,
}

/// The repositories of a tenant that wait for slots of one class.
struct WaitingLanes<K> {
    by_host: HashMap<Arc<str>, BTreeMap<Turn, K>>,
    /// The first of each host.
    first: BTreeMap<Turn, Arc<str>>,
}

impl<K> Default for Rounds<K> {
    fn default() -> Self {
        Self {
            tenants: HashMap::new(),
            clock: 0,
        }
    }
}

impl<K> Default for TenantRound<K> {
    fn default() -> Self {
        Self {
            proven: WaitingLanes::default(),
            unproven: WaitingLanes::default(),
            served: 0,
        }
    }
}

impl<K> Default for WaitingLanes<K> {
    fn default() -> Self {
        Self {
            by_host: HashMap::new(),
            first: BTreeMap::new(),
        }
    }
}

impl<K: Clone> Rounds<K> {
    pub(super) fn insert(&mut self, lane: Lane, turn: Turn, key: K) {
        let tenant = self.tenants.entry(lane.tenant).or_default();
        let lanes = tenant.of_mut(lane.proven);
        lanes.change(&lane.host, |waiting| {
            waiting.insert(turn, key);
        });
    }

    pub(super) fn remove(&mut self, lane: &Lane, turn: &Turn) {
        let Some(tenant) = self.tenants.get_mut(&lane.tenant) else {
            return;
        };
        let lanes = tenant.of_mut(lane.proven);
        lanes.change(&lane.host, |waiting| {
            waiting.remove(turn);
        });
        if tenant.is_empty() {
            self.tenants.remove(&lane.tenant);
        }
    }

    /// The next repository that is due and for which there is a slot: of the tenant with the fewest
    /// requests in flight, then of the one that was served longest ago.
    pub(super) fn next(&self, slots: &Slots, now: Instant) -> Option<(K, Lane)> {
        let due = self.tenants.iter().filter_map(|(tenant, round)| {
            let (turn, lane) = round.next(tenant, slots)?;
            let rank = (slots.in_flight(tenant), round.served, turn);
            (turn.due <= now).then_some((rank, lane))
        });
        let (rank, lane) = due.min_by_key(|(rank, _)| *rank)?;
        let round = self.tenants.get(&lane.tenant)?;
        let key = round
            .of(lane.proven)
            .by_host
            .get(&lane.host)?
            .get(&rank.2)?;
        Some((key.clone(), lane))
    }

    /// The time from which [`Self::next`] returns a repository.
    pub(super) fn next_due(&self, slots: &Slots) -> Option<Instant> {
        let rounds = self.tenants.iter();
        let turns = rounds.filter_map(|(tenant, round)| round.next(tenant, slots));
        turns.map(|(turn, _)| turn.due).min()
    }

    /// A tenant gets a slot.
    pub(super) fn serve(&mut self, tenant: &Arc<str>) {
        self.clock += 1;
        if let Some(round) = self.tenants.get_mut(tenant) {
            round.served = self.clock;
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }
}

impl<K> TenantRound<K> {
    fn of(&self, proven: bool) -> &WaitingLanes<K> {
        if proven { &self.proven } else { &self.unproven }
    }

    fn of_mut(&mut self, proven: bool) -> &mut WaitingLanes<K> {
        if proven {
            &mut self.proven
        } else {
            &mut self.unproven
        }
    }

    fn is_empty(&self) -> bool {
        self.proven.first.is_empty() && self.unproven.first.is_empty()
    }

    /// Its next repository for which there is a slot.
    fn next(&self, tenant: &Arc<str>, slots: &Slots) -> Option<(Turn, Lane)> {
        let classes = [true, false].into_iter();
        let free = classes.filter(|proven| slots.has_free(tenant, *proven));
        let next = free.filter_map(|proven| {
            let (turn, host) = self.of(proven).next(tenant, slots)?;
            Some((turn, host, proven))
        });
        let (turn, host, proven) = next.min_by_key(|(turn, ..)| *turn)?;
        let lane = Lane {
            tenant: Arc::clone(tenant),
            host: Arc::clone(host),
            proven,
        };
        Some((turn, lane))
    }
}

impl<K> WaitingLanes<K> {
    fn change(&mut self, host: &Arc<str>, change: impl FnOnce(&mut BTreeMap<Turn, K>)) {
        let waiting = self.by_host.entry(Arc::clone(host)).or_default();
        if let Some((turn, _)) = waiting.first_key_value() {
            self.first.remove(turn);
        }
        change(waiting);
        match waiting.first_key_value() {
            Some((turn, _)) => {
                self.first.insert(*turn, Arc::clone(host));
            }
            None => {
                self.by_host.remove(host);
            }
        }
    }

    /// The first whose host has a slot. Only so many are passed over as hosts can be at their
    /// limit.
    fn next(&self, tenant: &Arc<str>, slots: &Slots) -> Option<(Turn, &Arc<str>)> {
        let mut first = self.first.iter();
        let next = first.find(|(_, host)| {
            #[cfg(test)]
            super::tests::count_visit();
            slots.has_free_on(tenant, host)
        });
        next.map(|(turn, host)| (*turn, host))
    }
}
