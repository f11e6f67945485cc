//! Stacks that are made and asked together, each with a stand-in of its own.

use std::time::Instant;

use kube::api::{Patch, PatchParams};
use pko_api::{Stack, names::annotations};
use pko_testkit::{Script, StackBuilder, StandIn};
use serde_json::json;

use super::{
    super::crowd,
    moments::Moments,
    place::{CREDENTIALS, PROGRAM, Place},
};

/// Some Stacks of a place.
pub(super) struct Group {
    pub(super) names: Vec<String>,
    stand_ins: Vec<StandIn>,
}

impl Group {
    /// Creates so many Stacks of the place's Program, and gives the moment before the first.
    pub(super) async fn create(
        place: &Place,
        name: &str,
        count: usize,
        script: &Script,
    ) -> anyhow::Result<(Self, Instant)> {
        let builder = |name: &str| StackBuilder::new(name).program(PROGRAM);
        Self::create_of(place, name, count, script, builder).await
    }

    /// Creates so many Stacks that are built like this.
    pub(super) async fn create_of(
        place: &Place,
        name: &str,
        count: usize,
        script: &Script,
        builder: impl Fn(&str) -> StackBuilder,
    ) -> anyhow::Result<(Self, Instant)> {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{name}-{number}"))
            .collect();
        let stand_ins = names.iter().map(|name| place.stand_in(name, script));
        let group = Self {
            stand_ins: stand_ins.collect(),
            names,
        };
        let backend = format!("file://{}", place.subfolder("state")?.display());
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
            crowd::create::<Stack>(&place.namespace, stack).await?;
        }
        Ok((group, began))
    }

    /// Asks each for another run, and gives the moment before the first.
    pub(super) async fn ask(&self, place: &Place, request: &str) -> anyhow::Result<Instant> {
        let annotation = json!({ annotations::RECONCILIATION_REQUEST: request });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotation } }));
        let stacks = place.namespace.api::<Stack>();
        let began = Instant::now();
        for name in &self.names {
            stacks.patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(began)
    }

    /// Waits until all are Ready and have answered. Seconds until each was, from a moment on.
    pub(super) async fn seconds(
        &self,
        moments: &Moments,
        request: &str,
        began: Instant,
    ) -> anyhow::Result<Vec<f64>> {
        let moments = moments.until(&self.names, request).await?;
        let seconds = moments
            .iter()
            .map(|moment| moment.duration_since(began).as_secs_f64());
        Ok(seconds.collect())
    }

    /// From its next call on, each `pulumi` follows another script.
    pub(super) fn follow(&self, script: &Script) {
        for stand_in in &self.stand_ins {
            stand_in.set_script(script);
        }
    }

    /// How often `pulumi` was called, by all.
    pub(super) fn calls(&self) -> usize {
        let calls = self.stand_ins.iter().map(|each| each.calls().len());
        calls.sum()
    }

    /// How many have come to a command, such as `up`.
    pub(super) fn have_begun(&self, command: &str) -> usize {
        let begun = self.stand_ins.iter().filter(|each| each.count(command) > 0);
        begun.count()
    }
}

/// The last of them.
pub(super) fn last(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(0.0, f64::max)
}
