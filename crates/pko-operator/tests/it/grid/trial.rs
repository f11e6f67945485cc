//! One scenario under one fault, in a namespace of its own.

use std::{
    cell::Cell,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use pko_testkit::{DEADLINE, eventually_within};

use super::{
    end::{self, End, Places},
    fault::Fault,
    harm::Harm,
    operator::Operator,
    scenario::Scenario,
    user::User,
};
use crate::harness::System;

/// What a try came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Whether something has met the fault.
    pub(super) is_met: bool,
    /// Runs of `pulumi` that an undisturbed scenario does not need.
    pub(super) extra: usize,
    /// From what the user did to its end.
    pub(super) took: Duration,
}

/// A scenario that nothing disturbed: what is right, and the writes that it takes.
#[derive(Clone, Debug)]
pub(super) struct Clean {
    pub(super) end: End,
    pub(super) writes: usize,
}

/// One try.
struct Trial<'system> {
    user: User,
    operator: Operator<'system>,
    scenario: Scenario,
    folder: PathBuf,
    patience: Duration,
}

impl<'system> Trial<'system> {
    async fn new(system: &'system System, scenario: Scenario, patience: Duration) -> Self {
        let folder = system.subfolder();
        let user = User::new(system, &folder, scenario, patience).await;
        let operator = Operator::start(system, &folder, user.namespace.name());
        Self {
            user,
            operator,
            scenario,
            folder,
            patience,
        }
    }

    /// Everything up to what the user does.
    async fn prepare(&self) -> Result<(), String> {
        let prepared = self.scenario.prepare(&self.user).await;
        prepared.map_err(|error| format!("before it: {error}"))
    }

    async fn end(&self) -> Result<End, kube::Error> {
        let places = Places {
            folder: self.folder.to_str().unwrap_or_default(),
            programs: &self.operator.programs,
            agents: self.operator.agents(),
        };
        self.user.end(&places).await
    }

    /// Waits until each Workspace has an agent, no other agent is left, and the garbage collector
    /// is done: both come a little later than what the user waits for.
    async fn rests(&self) -> Result<End, String> {
        let rests = eventually_within(self.patience, "the cluster to rest", async || {
            let end = self.end().await.map_err(|error| error.to_string())?;
            let (workspaces, left) = (end.workspaces(), &end.unsettled);
            let message = format!("{} agents, {workspaces} Workspaces, {left:?}", end.agents);
            let rests = end.agents == workspaces && left.is_empty();
            rests.then_some(end).ok_or(message)
        });
        rests.await.map_err(|error| error.to_string())
    }

    /// Waits until the end is right.
    async fn ends_right(&self, right: &End) -> Result<(), String> {
        let same = eventually_within(self.patience, "the same end", async || {
            let end = self.end().await.map_err(|error| error.to_string())?;
            end::difference(&end, right).map_or(Ok(()), Err)
        });
        same.await.map_err(|error| error.to_string())
    }

    /// Has everything deleted, and gives the runs that there were in all.
    async fn remove(&self) -> Result<End, String> {
        let removed = self.user.remove().await;
        removed.map_err(|error| format!("after it: {error}"))?;
        let left = self.operator.no_agent_is_left().await;
        left.map_err(|error| format!("after it: {error}"))?;
        let mut end = End::default();
        self.user.count(&mut end);
        Ok(end)
    }

    /// Removes what is not needed any more, or keeps the files of a failure for inspection.
    fn over<T>(&self, result: Result<T, String>) -> Result<T, String> {
        if result.is_ok() {
            // What can't be removed goes with the whole.
            let _ = fs::remove_dir_all(&self.folder);
        }
        result.map_err(|error| format!("{error}\n  log: {}", self.save_log()))
    }

    fn save_log(&self) -> String {
        let log = fs::read_to_string(self.operator.log()).unwrap_or_default();
        let folder = std::env::temp_dir().join("pko-grid");
        let file = folder.join(format!("{}.log", self.user.namespace.name()));
        let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, log));
        kept.map_or_else(|error| error.to_string(), |()| file.display().to_string())
    }
}

/// Plays a scenario without harm.
pub(super) async fn clean(system: &System, scenario: Scenario) -> Result<Clean, String> {
    let trial = Trial::new(system, scenario, DEADLINE).await;
    let clean = trial.clean().await;
    trial.over(clean)
}

/// Plays a scenario under a fault. The error is what is wrong with the end.
pub(super) async fn under(
    system: &System,
    scenario: Scenario,
    fault: Fault,
    right: &Clean,
) -> Result<Outcome, String> {
    let patience = DEADLINE + 4 * Duration::from_secs(fault.seconds());
    let mut trial = Trial::new(system, scenario, patience).await;
    let outcome = trial.under(fault, right).await;
    trial.over(outcome)
}

impl Trial<'_> {
    async fn clean(&self) -> Result<Clean, String> {
        self.prepare().await?;
        let before = self.operator.writes();
        let played = self.scenario.play(&self.user).await;
        played.map_err(|error| error.to_string())?;
        self.user.assert_served().await;
        let end = self.rests().await?;
        let writes = self.operator.writes() - before;
        self.remove().await?;
        Ok(Clean { end, writes })
    }

    async fn under(&mut self, fault: Fault, right: &Clean) -> Result<Outcome, String> {
        self.prepare().await?;
        let (before, start) = (self.operator.writes(), Instant::now());
        let is_over = Cell::new(false);
        let mut harm = Harm::new(&mut self.operator, &is_over);
        harm.begin(fault).await?;
        let playing = async {
            let played = self.scenario.play(&self.user).await;
            is_over.set(true);
            played.map_err(|error| error.to_string())
        };
        let (played, ()) = tokio::join!(playing, harm.last(fault));
        let is_met = harm.is_met;
        played?;
        let took = start.elapsed();
        self.recover(fault)?;
        self.user.assert_served().await;
        self.ends_right(&right.end).await?;
        let writes = self.operator.writes() - before;
        let end = self.remove().await?;
        // What was started behind our back has been counted by now.
        if let Some(difference) = end::too_many(&end, &right.end) {
            return Err(difference);
        }
        if writes > 3 * right.writes + 20 {
            return Err(format!("{writes} writes, not {}", right.writes));
        }
        Ok(Outcome {
            is_met: is_met || self.operator.proxy.fault_count() > 0,
            extra: end::extra_runs(&end, &right.end),
            took,
        })
    }

    /// Ends the fault. A manager that should have died does so now at the latest; any other must be
    /// there.
    fn recover(&mut self, fault: Fault) -> Result<(), String> {
        self.operator.proxy.clear_faults();
        if fault.kills() {
            self.operator.kill_manager();
            self.operator.start_manager();
            return Ok(());
        }
        let is_alive = self.operator.is_alive();
        is_alive.then_some(()).ok_or("the manager has ended".into())
    }
}
