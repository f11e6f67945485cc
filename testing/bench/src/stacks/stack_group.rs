//! Stacks that are created and updated together, each with a stand-in of its own.

use std::time::Instant;

use kube::api::{Patch, PatchParams};
use pko_api::{Stack, names::annotations};
use pko_testkit::{Script, StackBuilder, StandIn};
use serde_json::json;

use super::{
    super::fixtures,
    environment::{BenchEnvironment, CREDENTIALS, PROGRAM},
    ready_times::ReadyTimes,
};

pub(super) struct StackGroup {
    pub(super) names: Vec<String>,
    stand_ins: Vec<StandIn>,
}

impl StackGroup {
    /// Creates Stacks of the environment's Program. Returns the time before the first.
    pub(super) async fn create(
        environment: &BenchEnvironment,
        name: &str,
        count: usize,
        script: &Script,
    ) -> anyhow::Result<(Self, Instant)> {
        let builder = |name: &str| StackBuilder::new(name).program(PROGRAM);
        Self::create_of(environment, name, count, script, builder).await
    }

    /// Like [`Self::create`], with another builder.
    pub(super) async fn create_of(
        environment: &BenchEnvironment,
        name: &str,
        count: usize,
        script: &Script,
        builder: impl Fn(&str) -> StackBuilder,
    ) -> anyhow::Result<(Self, Instant)> {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{name}-{number}"))
            .collect();
        let stand_ins = names.iter().map(|name| environment.stand_in(name, script));
        let group = Self {
            stand_ins: stand_ins.collect(),
            names,
        };
        let backend = format!("file://{}", environment.subfolder("state")?.display());
        let began = Instant::now();
        for (name, stand_in) in group.names.iter().zip(&group.stand_ins) {
            let folder = json!({ "type": "Literal", "literal": { "value": stand_in.folder() } });
            let stack = builder(name)
                .stack(name)
                .backend(&backend)
                .config("size", "4")
                .secret_env("PULUMI_CONFIG_PASSPHRASE", CREDENTIALS, "passphrase")
                .set("/spec/envRefs/PKO_STAND_IN", folder)
                .build();
            fixtures::create::<Stack>(&environment.namespace, stack).await?;
        }
        Ok((group, began))
    }

    /// Requests another run of each. Returns the time before the first.
    pub(super) async fn request_run(
        &self,
        environment: &BenchEnvironment,
        request: &str,
    ) -> anyhow::Result<Instant> {
        let annotation = json!({ annotations::RECONCILIATION_REQUEST: request });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotation } }));
        let stacks = environment.namespace.api::<Stack>();
        let began = Instant::now();
        for name in &self.names {
            stacks.patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(began)
    }

    /// Waits until all are Ready with this request. Returns the seconds that each took.
    pub(super) async fn wait_until_ready(
        &self,
        ready_times: &ReadyTimes,
        request: &str,
        began: Instant,
    ) -> anyhow::Result<Vec<f64>> {
        let ready_times = ready_times.wait_for(&self.names, request).await?;
        let seconds = ready_times
            .iter()
            .map(|moment| moment.duration_since(began).as_secs_f64());
        Ok(seconds.collect())
    }

    /// Changes the script of `pulumi`, from its next call on.
    pub(super) fn follow(&self, script: &Script) {
        for stand_in in &self.stand_ins {
            stand_in.set_script(script);
        }
    }

    /// The number of calls of `pulumi`.
    pub(super) fn calls(&self) -> usize {
        let calls = self.stand_ins.iter().map(|each| each.calls().len());
        calls.sum()
    }

    /// The number of Stacks that have run a command, such as `up`.
    pub(super) fn count_started(&self, command: &str) -> usize {
        let begun = self.stand_ins.iter().filter(|each| each.count(command) > 0);
        begun.count()
    }
}

pub(super) fn last(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(0.0, f64::max)
}
