//! The manager is killed at each of its writes, before it and after it, and the next one ends what
//! it began.
//!
//! A clean run counts the writes and says what is right. Then, once for each write and each side of
//! it, the same is done again in a namespace of its own with a manager that dies right there.

mod updates;

use std::{env, fmt::Debug, pin::pin, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, api::ListParams, core::NamespaceResourceScope};
use pko_testkit::{
    FaultProxy, StandIn, TestNamespace, TimedOut, eventually, fault_proxy::KillPoint,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::harness::System;

/// The Program that shows that a manager works; what is written for it does not count.
const FENCE: &str = "fence";

/// What a user does, in a namespace of its own.
trait Play: Sized {
    /// Which of several.
    type UpdateScenario;
    /// The observable end.
    type UpdateEnd: Debug;

    /// The scenario's name, for the reader of a log.
    fn name(scenario: &Self::UpdateScenario) -> &'static str;

    /// What there is before it.
    async fn prepare(
        system: &System,
        namespace: TestNamespace,
        scenario: &Self::UpdateScenario,
    ) -> Self;

    /// Does it, and waits until it is done and the manager looks after what is new.
    async fn play(&self, scenario: &Self::UpdateScenario) -> Result<(), TimedOut>;

    /// What there is now.
    async fn end(&self, system: &System) -> Self::UpdateEnd;

    /// Whether this end is as good as the right one.
    fn is_right(end: &Self::UpdateEnd, right: &Self::UpdateEnd) -> bool;

    /// Removes everything that a manager looks after, so that it writes nothing of it during the
    /// next try.
    async fn remove(&self, system: &System);
}

/// A write at which the manager dies, counted from 1.
#[derive(Clone, Copy, Debug)]
struct KilledWrite {
    write: usize,
    when: KillPoint,
}

/// A manager behind a proxy; each try has a namespace of its own.
struct KillStage {
    system: System,
    proxy: FaultProxy,
}

impl KillStage {
    async fn start() -> Self {
        let program = StandIn::program().display().to_string();
        let environment = [("PKO_PULUMI", program.as_str())];
        let mut system = System::without_manager(&environment).await;
        let proxy = system.proxy();
        system.put_behind(&proxy);
        Self { system, proxy }
    }

    /// What there is before a try, and a manager that watches only this.
    async fn prepare<P: Play>(&mut self, scenario: &P::UpdateScenario) -> P {
        let namespace = self.system.move_to_new_namespace().await;
        self.system.restart_manager();
        P::prepare(&self.system, namespace, scenario).await
    }

    /// Does it without any harm: what is right, and the writes that it takes.
    async fn clean<P: Play>(&mut self, scenario: &P::UpdateScenario) -> (P::UpdateEnd, usize) {
        let tried: P = self.prepare(scenario).await;
        let before = self.proxy.writes().len();
        tried.play(scenario).await.unwrap();
        let end = tried.end(&self.system).await;
        let writes = self.proxy.writes().split_off(before).into_iter();
        let writes = writes.filter(|write| !write.path.contains(FENCE)).count();
        tried.remove(&self.system).await;
        (end, writes)
    }

    /// Runs it with a manager that is killed. Returns whether it was; the error is how the end
    /// differs.
    async fn killed<P: Play>(
        &mut self,
        scenario: &P::UpdateScenario,
        point: KilledWrite,
        right: &P::UpdateEnd,
    ) -> Result<bool, TimedOut> {
        let tried: P = self.prepare(scenario).await;
        let died = self.kill_at(point);
        let mut played = pin!(tried.play(scenario));
        let is_killed = tokio::select! {
            biased;
            () = died.notified() => true,
            played = &mut played => { played?; false }
        };
        // One that did not die may still do so until all is well.
        self.proxy.clear_faults();
        self.system.restart_manager();
        if is_killed {
            played.await?;
        }
        eventually("the same end", async || {
            let end = tried.end(&self.system).await;
            if P::is_right(&end, right) {
                Ok(())
            } else {
                Err(format!("{end:#?}"))
            }
        })
        .await?;
        tried.remove(&self.system).await;
        Ok(is_killed)
    }

    /// Kills the current manager at a write. The notification follows the kill.
    fn kill_at(&self, point: KilledWrite) -> Arc<Notify> {
        let process = self.system.manager_process().cast_signed();
        let process = Pid::from_raw(process).unwrap();
        let died = Arc::new(Notify::new());
        let tells = Arc::clone(&died);
        self.proxy.kill_at(point.write, point.when, move || {
            // One that is gone already is as dead as it should be.
            let _ = kill_process(process, Signal::KILL);
            tells.notify_one();
        });
        died
    }
}

fn shown(conditions: &[Condition]) -> Vec<String> {
    let shown = conditions
        .iter()
        .map(|found| format!("{}={}/{}", found.type_, found.status, found.reason));
    shown.collect()
}

/// All points with `PKO_FULL=1`, else every so many-th, from the first on.
fn points(writes: usize, sample: usize) -> Vec<KilledWrite> {
    let all = (1..=writes).flat_map(|write| {
        let sides = [KillPoint::Before, KillPoint::After];
        sides.map(|when| KilledWrite { write, when })
    });
    let is_full = env::var_os("PKO_FULL").is_some();
    all.step_by(if is_full { 1 } else { sample }).collect()
}

#[expect(clippy::print_stderr, reason = "what a test has to say for itself")]
async fn survives<P: Play>(scenario: &P::UpdateScenario, sample: usize) {
    let mut stage = KillStage::start().await;
    let (right, writes) = stage.clean::<P>(scenario).await;
    let points = points(writes, sample);
    let (mut killed, mut failures) = (0, Vec::new());
    for point in &points {
        match stage.killed::<P>(scenario, *point, &right).await {
            Ok(is_killed) => killed += usize::from(is_killed),
            Err(error) => failures.push(format!("{point:?}: {error}")),
        }
    }
    eprintln!(
        "{}: {writes} writes, {} points tried, {} passed, {killed} killed a manager",
        P::name(scenario),
        points.len(),
        points.len() - failures.len(),
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn list<K>(namespace: &TestNamespace) -> Vec<K>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    K::DynamicType: Default,
{
    let listed = namespace.api::<K>().list(&ListParams::default()).await;
    listed.unwrap().items
}
