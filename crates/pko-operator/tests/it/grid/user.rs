//! The user of one try: a namespace, a `pulumi`, and what is seen in both.

use std::{path::Path, time::Duration};

use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use pko_api::{Program, Stack, Update, Workspace};
use pko_testkit::{StandIn, TestNamespace, TimedOut, eventually_within};
use serde_json::Value;

use super::{
    end::{End, Places},
    scenario::{Scenario, is_ready, stack},
};
use crate::harness::{System, folder_of};

/// The Program that shows that a manager works; what is written for it does not count.
pub(super) const FENCE: &str = "fence";
/// All Stacks of all scenarios.
const NAMES: [&str; 2] = ["demo", "base"];

pub(super) struct User {
    pub(super) namespace: TestNamespace,
    stand_in: StandIn,
    backend: String,
    /// How long something may take.
    patience: Duration,
}

impl User {
    pub(super) async fn new(
        system: &System,
        folder: &Path,
        scenario: Scenario,
        patience: Duration,
    ) -> Self {
        let namespace = system.namespace().await;
        let stand_in = StandIn::new(folder.join("stand-in"), &scenario.script());
        Self {
            namespace,
            stand_in,
            backend: format!("file://{}", folder.join("state").display()),
            patience,
        }
    }

    pub(super) async fn create(&self, name: &str, fields: &Value) {
        let object = stack(name, &self.backend, folder_of(&self.stand_in), fields);
        self.namespace.create_object(object).await.unwrap();
    }

    /// Waits until a Stack is ready for its spec, its request and this revision.
    pub(super) async fn ready(&self, name: &str, revision: &str) -> Result<(), TimedOut> {
        self.sees(name, "to be ready", |stack| {
            stack.is_some_and(|stack| is_ready(stack, revision))
        })
        .await
    }

    pub(super) async fn stalled(&self, name: &str) -> Result<(), TimedOut> {
        self.sees(name, "to be stalled", |stack| {
            let status = stack.and_then(|stack| stack.status.clone());
            let mut conditions = status.unwrap_or_default().conditions.into_iter();
            conditions.any(|found| found.type_ == "Stalled" && found.status == "True")
        })
        .await
    }

    pub(super) async fn wait_until_gone(&self, name: &str) -> Result<(), TimedOut> {
        self.sees(name, "to be gone", |stack| stack.is_none()).await
    }

    async fn sees(
        &self,
        name: &str,
        what: &str,
        is_right: impl Fn(Option<&Stack>) -> bool,
    ) -> Result<(), TimedOut> {
        let stacks = self.namespace.api::<Stack>();
        eventually_within(self.patience, format!("{name} {what}"), async || {
            // An API server that is away is no reason to give up.
            let stack = stacks.get_opt(name).await;
            let stack = stack.map_err(|error| error.to_string())?;
            let is_right = is_right(stack.as_ref());
            let seen = || format!("{:#?}", stack.and_then(|stack| stack.status));
            is_right.then_some(()).ok_or_else(seen)
        })
        .await
    }

    /// Waits until no Workspace is left, and each Update is gone or done.
    pub(super) async fn workspaces_gone(&self) -> Result<(), TimedOut> {
        let what = "the Workspaces to be gone, and the Updates gone or done";
        eventually_within(self.patience, what, async || {
            let left = self.names::<Workspace>(|_| true).await?;
            let unfinished = self.names(is_unfinished).await?;
            if left.is_empty() && unfinished.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?} {unfinished:?}"))
            }
        })
        .await
    }

    async fn names<K>(&self, wanted: impl Fn(&K) -> bool) -> Result<Vec<String>, String>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let objects = self.namespace.api::<K>().list(&ListParams::default()).await;
        let objects = objects.map_err(|error| error.to_string())?;
        let objects = objects.iter().filter(|object| wanted(object));
        Ok(objects.map(kube::ResourceExt::name_any).collect())
    }

    /// Waits until a manager looks after what is new.
    pub(super) async fn assert_served(&self) {
        System::works(&self.namespace, FENCE).await;
    }

    /// What there is now.
    pub(super) async fn end(&self, places: &Places<'_>) -> Result<End, kube::Error> {
        let mut end = End::of(&self.namespace, places).await?;
        self.count(&mut end);
        Ok(end)
    }

    /// How often `pulumi` has run.
    pub(super) fn count(&self, end: &mut End) {
        end.ups = self.stand_in.count("up");
        end.previews = self.stand_in.count("preview");
        end.destroys = self.stand_in.count("destroy");
    }

    /// Deletes the Stacks, and waits until nothing of them is left.
    pub(super) async fn remove(&self) -> Result<(), TimedOut> {
        let parameters = DeleteParams::default();
        let stacks = self.namespace.api::<Stack>();
        for name in NAMES {
            let _ = stacks.delete(name, &parameters).await;
        }
        eventually_within(self.patience, "the objects to be gone", async || {
            let left = [
                self.names::<Stack>(|_| true).await?,
                self.names::<Workspace>(|_| true).await?,
                self.names::<Update>(|_| true).await?,
            ]
            .concat();
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        })
        .await?;
        let programs = self.namespace.api::<Program>();
        for name in ["demo", FENCE] {
            let _ = programs.delete(name, &parameters).await;
        }
        Ok(())
    }
}

/// Whether an Update has not ended, or holds our finalizer.
fn is_unfinished(update: &Update) -> bool {
    let status = update.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.iter();
    let complete = conditions.any(|found| found.type_ == "Complete" && found.status == "True");
    !complete || !update.finalizers().is_empty()
}
