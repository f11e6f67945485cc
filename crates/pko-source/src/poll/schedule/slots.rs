//! How many requests may be in flight: in total, to one host, and to servers that have not
//! answered.
//!
//! | limit | all tenants | one tenant |
//! |---|---|---|
//! | requests in flight | `max_in_flight` | half of it |
//! | to servers whose last request did not succeed | half of it | a quarter |
//! | to one host | `max_in_flight_per_host` | half of it |

use std::{collections::HashMap, hash::Hash, sync::Arc};

use super::{PollerSettings, rounds::Lane};

/// A request in flight, and whose it is.
pub(super) type Slot = Lane;

pub(super) struct Slots {
    limit: SlotLimit,
    limit_per_host: SlotLimit,
    total: SlotCounts,
    by_tenant: HashMap<Arc<str>, SlotCounts>,
    by_host: HashMap<Arc<str>, usize>,
    by_tenant_and_host: HashMap<(Arc<str>, Arc<str>), usize>,
}

#[derive(Clone, Copy)]
struct SlotLimit {
    all: usize,
    tenant: usize,
}

impl SlotLimit {
    fn new(all: usize) -> Self {
        Self {
            all,
            tenant: half(all),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct SlotCounts {
    all: usize,
    /// To repositories whose last request did not succeed.
    unproven: usize,
}

impl SlotCounts {
    fn is_below(self, limit: usize, proven: bool) -> bool {
        self.all < limit && (proven || self.unproven < half(limit))
    }
}

fn half(limit: usize) -> usize {
    (limit / 2).max(1)
}

impl Slots {
    pub(super) fn new(settings: &PollerSettings) -> Self {
        Self {
            limit: SlotLimit::new(settings.max_in_flight),
            limit_per_host: SlotLimit::new(settings.max_in_flight_per_host),
            total: SlotCounts::default(),
            by_tenant: HashMap::new(),
            by_host: HashMap::new(),
            by_tenant_and_host: HashMap::new(),
        }
    }

    /// How many requests of a tenant are in flight.
    pub(super) fn in_flight(&self, tenant: &Arc<str>) -> usize {
        self.of(tenant).all
    }

    /// Whether a tenant may start a request of this class, if it is to the right host.
    pub(super) fn has_free(&self, tenant: &Arc<str>, proven: bool) -> bool {
        let own = self.of(tenant);
        self.total.is_below(self.limit.all, proven) && own.is_below(self.limit.tenant, proven)
    }

    /// Whether a tenant may start a request to a host.
    pub(super) fn has_free_on(&self, tenant: &Arc<str>, host: &Arc<str>) -> bool {
        let all = self.by_host.get(host).copied().unwrap_or_default();
        let pair = (Arc::clone(tenant), Arc::clone(host));
        let own = self.by_tenant_and_host.get(&pair).copied();
        all < self.limit_per_host.all && own.unwrap_or_default() < self.limit_per_host.tenant
    }

    pub(super) fn acquire(&mut self, slot: &Slot) {
        let unproven = usize::from(!slot.proven);
        let own = self.by_tenant.entry(Arc::clone(&slot.tenant)).or_default();
        for counts in [&mut self.total, own] {
            counts.all += 1;
            counts.unproven += unproven;
        }
        *self.by_host.entry(Arc::clone(&slot.host)).or_default() += 1;
        *self.by_tenant_and_host.entry(pair(slot)).or_default() += 1;
    }

    pub(super) fn release(&mut self, slot: &Slot) {
        let unproven = usize::from(!slot.proven);
        let own = self.by_tenant.get_mut(&slot.tenant);
        for counts in [Some(&mut self.total), own].into_iter().flatten() {
            counts.all = counts.all.saturating_sub(1);
            counts.unproven = counts.unproven.saturating_sub(unproven);
        }
        if self.in_flight(&slot.tenant) == 0 {
            self.by_tenant.remove(&slot.tenant);
        }
        release_one(&mut self.by_host, &slot.host);
        release_one(&mut self.by_tenant_and_host, &pair(slot));
    }

    fn of(&self, tenant: &Arc<str>) -> SlotCounts {
        self.by_tenant.get(tenant).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.total.all == 0
            && self.total.unproven == 0
            && self.by_tenant.is_empty()
            && self.by_host.is_empty()
            && self.by_tenant_and_host.is_empty()
    }
}

fn pair(slot: &Slot) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&slot.tenant), Arc::clone(&slot.host))
}

fn release_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
