//! A small cluster: it answers the machines' questions and carries out their effects. What is written goes
//! through JSON, as in a real one, and any write may be where the operator dies.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use pko_api::{
    Stack, Update, Workspace,
    auto::v1alpha1::{FluxArtifact, OperationType, ProjectInfo},
    names::{conditions::ConditionType, finalizers},
};
use serde_json::{Value, json};

use crate::{
    Plan, Step,
    condition_set::is_true,
    stack, update,
    update::{Run, RunError, RunOutcome},
    workspace,
    workspace::{AgentError, Place, Preparation, Running},
};

/// The operator died: the rest of the pass does not happen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Died;

/// One look at one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pass<Effect> {
    pub(super) plan: Plan<Effect>,
    /// How many questions were asked, by their kind.
    pub(super) asked: BTreeMap<&'static str, usize>,
    /// The Update that was created, and the one that the status named before.
    pub(super) created: Option<(Update, Option<String>)>,
}

/// A run that an agent owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnedRun {
    outcome: RunOutcome,
    /// How often it is still found running.
    looks: u32,
}

/// Objects, and what lies behind them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) now: Timestamp,
    pub(super) stack: Option<Stack>,
    pub(super) updates: BTreeMap<String, Update>,
    pub(super) workspace: Option<Workspace>,
    pub(super) outputs: BTreeMap<String, stack::Outputs>,
    /// The Program's revision; nothing where there is no Program.
    pub(super) revision: Option<String>,
    /// What the API server says to a Workspace.
    pub(super) refusal: Option<stack::Refusal>,
    pub(super) place: Place,
    pub(super) version: Result<String, AgentError>,
    pub(super) preparation: Preparation,
    pub(super) agent_error: Option<RunError>,
    pub(super) runs: BTreeMap<String, OwnedRun>,
    /// Which pod it is: another one has none of the runs of before.
    pub(super) instance: u32,
    /// The uids of the Updates whose runs were begun, in order.
    pub(super) begun: Vec<String>,
    /// Runs succeed.
    pub(super) works: bool,
    /// What was run, in order.
    pub(super) log: Vec<OperationType>,
    /// What the user was told, in order.
    pub(super) events: Vec<String>,
    /// After so many writes the operator dies.
    pub(super) writes_left: Option<usize>,
    pub(super) writes: usize,
    /// Objects that were ever made.
    pub(super) made: u32,
}

/// What comes back of an object that is written.
fn stored<T: Serialize + DeserializeOwned>(object: &T) -> T {
    serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
}

fn is_gone(metadata: &ObjectMeta) -> bool {
    let held = metadata.finalizers.iter().flatten().next().is_some();
    metadata.deletion_timestamp.is_some() && !held
}

fn let_go(metadata: &mut ObjectMeta) {
    if let Some(names) = &mut metadata.finalizers {
        names.retain(|name| name != finalizers::STACK);
    }
}

impl Cluster {
    pub(super) fn new(spec: &Value) -> Self {
        let stack = json!({
            "metadata": { "name": "demo", "namespace": "shop", "uid": "stack", "generation": 1 },
            "spec": spec,
        });
        Self {
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            stack: Some(serde_json::from_value(stack).unwrap()),
            updates: BTreeMap::new(),
            workspace: None,
            outputs: BTreeMap::new(),
            revision: Some("1".to_owned()),
            refusal: None,
            place: Place::Running(Running {
                address: "unix:/run/demo".to_owned(),
                name: "\"demo\"".to_owned(),
                is_outdated: false,
                look_again: std::time::Duration::from_secs(30),
            }),
            version: Ok("3.259.0".to_owned()),
            preparation: Preparation::Done,
            agent_error: None,
            runs: BTreeMap::new(),
            instance: 1,
            begun: Vec::new(),
            works: true,
            log: Vec::new(),
            events: Vec::new(),
            writes_left: None,
            writes: 0,
            made: 0,
        }
    }

    fn write(&mut self) -> Result<(), Died> {
        match &mut self.writes_left {
            Some(0) => return Err(Died),
            Some(left) => *left -= 1,
            None => {}
        }
        self.writes += 1;
        Ok(())
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    // What a user does.

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Stack)) {
        let stack = self.stack.as_mut().unwrap();
        change(stack);
        *stack.metadata.generation.as_mut().unwrap() += 1;
    }

    pub(super) fn request(&mut self, value: &str) {
        let annotations = &mut self.stack.as_mut().unwrap().metadata.annotations;
        let key = pko_api::names::annotations::RECONCILIATION_REQUEST;
        annotations
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn delete_stack(&mut self) {
        let now = self.now;
        self.edit(|stack| stack.metadata.deletion_timestamp = Some(Time(now)));
        self.collect();
    }

    pub(super) fn delete_update(&mut self, name: &str) {
        let now = self.now;
        if let Some(update) = self.updates.get_mut(name)
            && update.metadata.deletion_timestamp.is_none()
        {
            update.metadata.deletion_timestamp = Some(Time(now));
            *update.metadata.generation.get_or_insert(1) += 1;
        }
        self.collect();
    }

    /// The pod is replaced, and what ran in it is gone.
    pub(super) fn replace_pod(&mut self) {
        self.instance += 1;
        self.runs.clear();
    }

    pub(super) fn delete_workspace(&mut self) {
        self.workspace = None;
        self.replace_pod();
        // As the garbage collector does: an owner that is gone is no owner.
        for update in self.updates.values_mut() {
            let owners = update.metadata.owner_references.iter_mut();
            owners.for_each(|owners| owners.retain(|owner| owner.kind != "Workspace"));
        }
        self.collect();
    }

    fn collect(&mut self) {
        if self
            .stack
            .as_ref()
            .is_some_and(|stack| is_gone(&stack.metadata))
        {
            self.stack = None;
            self.delete_workspace();
            let names: Vec<String> = self.updates.keys().cloned().collect();
            for name in &names {
                self.delete_update(name);
            }
        }
        self.updates.retain(|_, update| !is_gone(&update.metadata));
    }

    // What the operator does.

    pub(super) fn look_at_stack(&mut self) -> Result<Option<Pass<stack::Effect>>, Died> {
        let Some(object) = self.stack.clone() else {
            return Ok(None);
        };
        let mut world = stack::World::new(object);
        let mut asked = BTreeMap::new();
        let mut created = None;
        loop {
            match stack::decide(&world, self.now) {
                Step::Ask(question) => {
                    *asked.entry(stack_question(&question)).or_default() += 1;
                    if let stack::Question::CreateUpdate(update, status) = &question {
                        let named = status.current_update.clone();
                        let named = named.and_then(|current| current.name);
                        created = Some((update.as_ref().clone(), named));
                    }
                    world.learn(self.answer_stack(question)?);
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.do_for_stack(effect)?;
                    }
                    return Ok(Some(Pass {
                        plan,
                        asked,
                        created,
                    }));
                }
            }
        }
    }

    fn answer_stack(&mut self, question: stack::Question) -> Result<stack::Answer, Died> {
        Ok(match question {
            stack::Question::CurrentUpdate(name) => {
                stack::Answer::CurrentUpdate(self.updates.get(&name).cloned().map(Box::new))
            }
            stack::Question::Outputs(name) => {
                let outputs = self.outputs.get(&name).cloned();
                outputs.map_or(stack::Answer::NoOutputs, stack::Answer::Outputs)
            }
            stack::Question::PublishOutputs(_) => stack::Answer::Published(Ok(())),
            stack::Question::Source(_) => stack::Answer::Source(self.program()),
            stack::Question::ConfigMaps(_) => stack::Answer::ConfigMaps(stack::Versions::new()),
            stack::Question::Secrets(_) => stack::Answer::Secrets(stack::Versions::new()),
            stack::Question::Prerequisites => {
                stack::Answer::Prerequisites(stack::Prerequisites::new())
            }
            stack::Question::CreateUpdate(update, status) => {
                if self.stack.as_ref().and_then(|stack| stack.status.as_ref()) != Some(&status) {
                    self.do_for_stack(&stack::Effect::PatchStatus(status))?;
                }
                self.create(&update)?;
                stack::Answer::Created(Ok(()))
            }
            stack::Question::ApplyWorkspace(workspace, status) => {
                if self.stack.as_ref().and_then(|stack| stack.status.as_ref()) != Some(&status) {
                    self.do_for_stack(&stack::Effect::PatchStatus(status))?;
                }
                match self.refusal.clone() {
                    Some(refusal) => stack::Answer::Workspace(Err(refusal)),
                    None => stack::Answer::Workspace(Ok(Box::new(self.apply(&workspace)?))),
                }
            }
        })
    }

    fn program(&self) -> Result<stack::Source, stack::NoSource> {
        let Some(revision) = self.revision.clone() else {
            let message = "unable to retrieve program for stack".to_owned();
            return Err(stack::NoSource::Unavailable(message));
        };
        let location = stack::Location::Artifact(FluxArtifact {
            url: Some(format!("http://operator/{revision}")),
            ..FluxArtifact::default()
        });
        Ok(stack::Source { revision, location })
    }

    fn apply(&mut self, wanted: &Workspace) -> Result<Workspace, Died> {
        let mut applied = stored(wanted);
        match &self.workspace {
            Some(before) if before.spec == applied.spec => return Ok(before.clone()),
            Some(before) => {
                applied.metadata.uid.clone_from(&before.metadata.uid);
                applied.metadata.generation = before.metadata.generation.map(|before| before + 1);
                applied.status.clone_from(&before.status);
            }
            None => {
                applied.metadata.uid = Some(self.uid());
                applied.metadata.generation = Some(1);
            }
        }
        self.write()?;
        self.workspace = Some(applied.clone());
        Ok(applied)
    }

    fn create(&mut self, update: &Update) -> Result<(), Died> {
        self.write()?;
        let mut update = stored(update);
        update.metadata.uid = Some(self.uid());
        update.metadata.generation = Some(1);
        let name = update.metadata.name.clone().unwrap();
        assert!(!self.updates.contains_key(&name), "{name} exists");
        self.updates.insert(name, update);
        Ok(())
    }

    fn do_for_stack(&mut self, effect: &stack::Effect) -> Result<(), Died> {
        self.write()?;
        let stack = self.stack.as_mut();
        match effect {
            stack::Effect::AddFinalizer => {
                let names = &mut stack.unwrap().metadata.finalizers;
                names
                    .get_or_insert_default()
                    .push(finalizers::STACK.to_owned());
            }
            stack::Effect::RemoveFinalizer => let_go(&mut stack.unwrap().metadata),
            stack::Effect::PatchStatus(status) => stack.unwrap().status = Some(stored(status)),
            stack::Effect::ReleaseUpdate(name) => {
                if let Some(update) = self.updates.get_mut(name) {
                    let_go(&mut update.metadata);
                }
            }
            stack::Effect::DeleteWorkspace => self.delete_workspace(),
            stack::Effect::RequestPrerequisite { .. } | stack::Effect::PruneUpdates => {}
            stack::Effect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        self.collect();
        Ok(())
    }

    pub(super) fn look_at_update(
        &mut self,
        name: &str,
    ) -> Result<Option<Pass<update::Effect>>, Died> {
        let Some(object) = self.updates.get(name).cloned() else {
            return Ok(None);
        };
        let mut world = update::World::new(object.clone());
        let mut asked = BTreeMap::new();
        loop {
            match update::decide(&world, self.now) {
                Step::Ask(update::Question::Workspace(_)) => {
                    *asked.entry("workspace").or_default() += 1;
                    let workspace = self.workspace.clone().map(Box::new);
                    world.learn(update::Answer::Workspace(workspace));
                }
                Step::Ask(update::Question::Turn(_)) => {
                    world.learn(update::Answer::Turn(crate::queue::Turn::Go));
                }
                Step::Ask(update::Question::Agent(_)) => {
                    *asked.entry("agent").or_default() += 1;
                    world.learn(update::Answer::Agent(self.agent_of_run()));
                }
                Step::Ask(update::Question::Run(_, publish)) => {
                    *asked.entry("run").or_default() += 1;
                    if let Some(status) = publish {
                        self.do_for_update(&object, &update::Effect::PatchStatus(status))?;
                    }
                    world.learn(update::Answer::Run(self.run(&object)?));
                }
                Step::Ask(update::Question::Cancel(_)) => {
                    *asked.entry("cancel").or_default() += 1;
                    world.learn(update::Answer::Run(self.cancel(&object)?));
                }
                Step::Ask(update::Question::KeepOutputs(secret)) => {
                    *asked.entry("outputs").or_default() += 1;
                    self.write()?;
                    world.learn(update::Answer::Outputs(Ok(self.keep(&secret))));
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.do_for_update(&object, effect)?;
                    }
                    return Ok(Some(Pass {
                        plan,
                        asked,
                        created: None,
                    }));
                }
            }
        }
    }

    fn agent_of_run(&self) -> update::Agent {
        let instance = format!("pod-{}", self.instance);
        match &self.agent_error {
            Some(RunError::Unreachable(message)) => update::Agent::Unreachable {
                // Now and then nobody knows which pod it is, either.
                instance: (self.instance % 2 == 1).then_some(instance),
                message: message.clone(),
            },
            _ => update::Agent::Here(instance),
        }
    }

    /// Starts a run or finds it, as an agent does.
    fn run(&mut self, update: &Update) -> Result<Result<Run, RunError>, Died> {
        if let Some(error) = self.agent_error.clone() {
            return Ok(Err(error));
        }
        let id = update.metadata.uid.clone().unwrap_or_default();
        if !self.runs.contains_key(&id) {
            self.write()?;
            self.log.push(update.spec.operation.clone().unwrap());
            self.begun.push(id.clone());
            let run = self.begun(update);
            self.runs.insert(id.clone(), run);
        }
        Ok(Ok(self.seen(&id)))
    }

    /// Tells a run to end, as an agent is told.
    fn cancel(&mut self, update: &Update) -> Result<Result<Run, RunError>, Died> {
        if let Some(error) = self.agent_error.clone() {
            return Ok(Err(error));
        }
        let id = update.metadata.uid.clone().unwrap_or_default();
        let Some(run) = self.runs.get_mut(&id) else {
            return Ok(Ok(Run::Unknown));
        };
        run.outcome = RunOutcome {
            reason: Some("Canceled".to_owned()),
            ..RunOutcome::default()
        };
        self.write()?;
        Ok(Ok(self.seen(&id)))
    }

    fn seen(&mut self, id: &str) -> Run {
        let run = self.runs.get_mut(id).unwrap();
        if run.looks > 0 {
            run.looks -= 1;
            return Run::Running;
        }
        Run::Ended(Box::new(run.outcome.clone()))
    }

    fn keep(&mut self, secret: &Secret) -> String {
        let data = secret.data.clone().unwrap_or_default();
        let outputs = data
            .into_iter()
            .map(|(key, value)| (key, serde_json::from_slice(&value.0).unwrap()));
        let name = secret.metadata.name.clone().unwrap();
        self.outputs.insert(name.clone(), outputs.collect());
        name
    }

    fn begun(&self, update: &Update) -> OwnedRun {
        let up = update.spec.operation == Some(OperationType::Up);
        let json = self.revision.as_deref().unwrap_or("0").into();
        let output = update::Output {
            json,
            secret: false,
        };
        let outputs = (up && self.works).then(|| ("revision".to_owned(), output));
        let project = ProjectInfo {
            name: "hello".to_owned(),
            runtime: "yaml".to_owned(),
        };
        OwnedRun {
            outcome: RunOutcome {
                succeeded: self.works,
                message: if self.works { "" } else { "it broke" }.to_owned(),
                project: self.works.then_some(project),
                outputs: outputs.into_iter().collect(),
                ..RunOutcome::default()
            },
            looks: 1,
        }
    }

    fn do_for_update(&mut self, object: &Update, effect: &update::Effect) -> Result<(), Died> {
        let name = object.metadata.name.clone().unwrap();
        let id = object.metadata.uid.clone().unwrap_or_default();
        let is_free = matches!(
            effect,
            update::Effect::FollowRun | update::Effect::GiveBackTurn
        );
        if !is_free {
            self.write()?;
        }
        match effect {
            update::Effect::PatchStatus(status) => {
                self.updates.get_mut(&name).unwrap().status = Some(stored(status));
            }
            update::Effect::Adopt(owner) => {
                if let Some(update) = self.updates.get_mut(&name) {
                    update.metadata.owner_references = Some(vec![owner.clone()]);
                }
            }
            update::Effect::FollowRun | update::Effect::GiveBackTurn => {}
            update::Effect::WarnOfWorkspace(message) => self.events.push(message.clone()),
            update::Effect::AcknowledgeRun => drop(self.runs.remove(&id)),
            update::Effect::Delete => self.delete_update(&name),
            update::Effect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        self.collect();
        Ok(())
    }

    pub(super) fn look_at_workspace(&mut self) -> Result<Option<Pass<workspace::Effect>>, Died> {
        let Some(object) = self.workspace.clone() else {
            return Ok(None);
        };
        let mut world = workspace::World::new(object);
        let mut asked = BTreeMap::new();
        loop {
            match workspace::decide(&world, self.now) {
                Step::Ask(workspace::Question::Place) => {
                    *asked.entry("place").or_default() += 1;
                    world.learn(workspace::Answer::Place(self.place.clone()));
                }
                Step::Ask(workspace::Question::Version) => {
                    *asked.entry("version").or_default() += 1;
                    world.learn(workspace::Answer::Version(self.version.clone()));
                }
                Step::Ask(workspace::Question::Preparation) => {
                    *asked.entry("preparation").or_default() += 1;
                    world.learn(workspace::Answer::Preparation(self.preparation.clone()));
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.do_for_workspace(effect)?;
                    }
                    return Ok(Some(Pass {
                        plan,
                        asked,
                        created: None,
                    }));
                }
            }
        }
    }

    fn do_for_workspace(&mut self, effect: &workspace::Effect) -> Result<(), Died> {
        self.write()?;
        match effect {
            workspace::Effect::PatchStatus(status) => {
                self.workspace.as_mut().unwrap().status = Some(stored(status));
            }
            workspace::Effect::Remove => self.replace_pod(),
            workspace::Effect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        Ok(())
    }

    // What can be seen.

    pub(super) fn is_stack(&self, kind: ConditionType) -> bool {
        let status = self.stack.as_ref().and_then(|stack| stack.status.as_ref());
        status.is_some_and(|status| is_true(&status.conditions, kind))
    }
}

fn stack_question(question: &stack::Question) -> &'static str {
    match question {
        stack::Question::CurrentUpdate(_) => "update",
        stack::Question::Outputs(_) => "outputs",
        stack::Question::PublishOutputs(_) => "publish",
        stack::Question::Source(_) => "source",
        stack::Question::ConfigMaps(_) => "config maps",
        stack::Question::Secrets(_) => "secrets",
        stack::Question::Prerequisites => "prerequisites",
        stack::Question::ApplyWorkspace(..) => "workspace",
        stack::Question::CreateUpdate(..) => "create",
    }
}
