//! A fault at work, from before the play to its end.

use std::{cell::Cell, sync::atomic::Ordering, time::Duration};

use pko_testkit::fault_proxy::KillPoint;
use tokio::time::{Instant, sleep};

use super::{
    fault::{EVERY, Fault, RESOURCES},
    operator::Operator,
};

/// Between looks at what has happened.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a manager with replayed lists receives no newer changes.
const STALE: Duration = Duration::from_secs(2);
/// Within which changes are one.
const WINDOW: Duration = Duration::from_millis(700);
/// After this, watches restart, as on every API server: missed changes are in the next list.
const ANEW: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Harm<'trial, 'system> {
    operator: &'trial mut Operator<'system>,
    /// The writes before the play.
    before: usize,
    /// Whether the play is.
    is_over: &'trial Cell<bool>,
    /// Whether it has happened, of what the proxy does not count.
    pub(super) is_met: bool,
}

impl<'trial, 'system> Harm<'trial, 'system> {
    pub(super) fn new(
        operator: &'trial mut Operator<'system>,
        is_over: &'trial Cell<bool>,
    ) -> Self {
        Self {
            before: operator.writes(),
            operator,
            is_over,
            is_met: false,
        }
    }

    /// What is set before the play.
    pub(super) async fn begin(&mut self, fault: Fault) -> Result<(), String> {
        let proxy = &self.operator.proxy;
        match fault {
            Fault::Late { resource, seconds } => {
                proxy.delay_watch(resource, Duration::from_secs(seconds));
            }
            Fault::Dropped { resource } => proxy.drop_watch_events(resource, 2),
            Fault::Coalesced { resource } => proxy.coalesce_watch(resource, WINDOW),
            Fault::Failing { how, first } => proxy.fail_from(first, EVERY, how),
            Fault::OldLists { .. } => {
                let kept = proxy.record_lists().await;
                kept.map_err(|error| format!("{error:?}"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What happens during the play.
    pub(super) async fn last(&mut self, fault: Fault) {
        match fault {
            Fault::Killed { write, when } => {
                if self.dies(write, when).await {
                    self.operator.start_manager();
                }
            }
            Fault::OldLists { resource, write } => {
                if self.dies(write, KillPoint::After).await {
                    self.starts_in_the_past(resource).await;
                }
            }
            Fault::Dropped { .. } => {
                self.each(ANEW, |it| it.operator.proxy.expire_watches())
                    .await;
            }
            Fault::Gone => {
                self.each(SECOND, |it| it.operator.proxy.expire_watches())
                    .await;
            }
            Fault::Cut => {
                let cut = |it: &Self| it.operator.proxy.cut_watches();
                self.each(SECOND, cut).await;
            }
            Fault::Outage { write, seconds } => {
                if self.comes_to(write).await {
                    self.operator.proxy.set_outage(true);
                    sleep(Duration::from_secs(seconds)).await;
                    self.operator.proxy.set_outage(false);
                }
            }
            Fault::Restart { write } => {
                if self.comes_to(write).await {
                    self.operator.restart_api_server().await;
                }
            }
            Fault::Late { .. } | Fault::Coalesced { .. } | Fault::Failing { .. } => {}
        }
    }

    /// Kills the manager at a write. Returns whether it was killed.
    async fn dies(&mut self, write: usize, when: KillPoint) -> bool {
        let died = self.operator.dies_at(write, when);
        while !died.load(Ordering::SeqCst) {
            if self.is_over.get() {
                return false;
            }
            sleep(PAUSE).await;
        }
        self.operator.kill_manager();
        true
    }

    /// Starts a manager that lists the state from before the play, and for a while receives nothing
    /// newer.
    async fn starts_in_the_past(&mut self, resource: Option<&'static str>) {
        let concerned = RESOURCES
            .into_iter()
            .filter(|name| resource.is_none_or(|only| only == *name));
        for resource in concerned {
            self.operator.proxy.replay_lists(resource);
            self.operator.proxy.delay_watch(resource, STALE);
        }
        self.operator.start_manager();
        while !self.is_over.get() && self.operator.proxy.fault_count() < 2 {
            sleep(PAUSE).await;
        }
    }

    /// Waits until the play has come to a write; gives up if it ends before.
    async fn comes_to(&mut self, write: usize) -> bool {
        while self.operator.writes() < self.before + write {
            if self.is_over.get() {
                return false;
            }
            sleep(PAUSE).await;
        }
        self.is_met = true;
        true
    }

    /// Does something again and again until the play is over.
    async fn each(&mut self, period: Duration, deed: impl Fn(&Self)) {
        let mut next = Instant::now() + period;
        while !self.is_over.get() {
            if Instant::now() >= next {
                deed(self);
                self.is_met = true;
                next += period;
            }
            sleep(PAUSE).await;
        }
    }
}
