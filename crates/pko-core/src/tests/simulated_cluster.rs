//! A simulated cluster: it responds to the machines' requests and carries out their effects. Writes
//! go through JSON, as in a real cluster, and the manager may crash at any of them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use pko_api::{
    Stack, Update, Workspace,
    auto::v1alpha1::{FluxArtifact, OperationType, ProjectInfo},
    names::{annotations, conditions::ConditionType, failures::FailureClass, finalizers},
};
use serde_json::{Value, json};

use crate::{
    Machine as _, Plan, Requeue, Step,
    condition_set::is_true,
    stack, update,
    update::{RunError, RunOutcome, RunProgress},
    workspace,
    workspace::{AgentEndpoint, AgentError, RuntimeState, SetupState},
};

/// The garbage collector's own finalizer.
const FOREGROUND: &str = "foregroundDeletion";
/// The rule of a pass that ended early.
pub(super) const NO_RESPONSE: &str = "unanswered";
/// When the controller reconciles again after such a pass.
const AFTER_ERROR: std::time::Duration = std::time::Duration::from_secs(5);

/// The manager crashed: the rest of the pass does not happen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crashed;

/// One pass over one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reconciliation<Effect> {
    pub(super) plan: Plan<Effect>,
    /// The number of requests by name.
    pub(super) requests: BTreeMap<&'static str, usize>,
    /// The Update that was created, and the name that the status had for it before.
    pub(super) created: Option<(Update, Option<String>)>,
    /// The number of requests that are writes.
    pub(super) write_requests: usize,
}

impl<Effect> Reconciliation<Effect> {
    /// Whether the pass requests no change from its driver.
    pub(super) fn only_reads(&self) -> bool {
        self.write_requests == 0 && self.plan.effects.is_empty()
    }
}

/// A run that an agent owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnedRun {
    outcome: RunOutcome,
    /// How many polls still find it running.
    polls: u32,
}

/// Faults, which may pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Faults {
    /// Why the source can't be used.
    pub(super) source: Option<stack::SourceError>,
    pub(super) creation: Creation,
    /// The class of failed runs.
    pub(super) class: Option<FailureClass>,
    /// No run of the program succeeds.
    pub(super) is_broken: bool,
    /// Updates in a stale cache.
    pub(super) old_updates: BTreeMap<String, Update>,
}

/// The result of creating an Update.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Creation {
    #[default]
    Works,
    Refused(stack::Refusal),
    /// It is created, and the response is lost.
    ResponseLost,
    /// There is no response, and it is not created.
    NoResponse,
}

/// A request without a response, which ends the pass.
struct NoResponse;

/// The objects of one Stack, and what they stand for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SimulatedCluster {
    pub(super) now: Timestamp,
    pub(super) stack: Option<Stack>,
    pub(super) updates: BTreeMap<String, Update>,
    pub(super) workspace: Option<Workspace>,
    pub(super) outputs: BTreeMap<String, stack::StackOutputs>,
    /// The Program's revision, if there is a Program.
    pub(super) revision: Option<String>,
    /// The versions of Secrets.
    pub(super) secrets: stack::Versions,
    /// Why the API server rejects the Workspace, if it does.
    pub(super) refusal: Option<stack::Refusal>,
    pub(super) faults: Faults,
    /// The other Stacks of the namespace.
    pub(super) others: stack::Prerequisites,
    /// Requests for runs of other Stacks: name and value.
    pub(super) requests: Vec<(String, String)>,
    /// The Stack in a stale cache.
    pub(super) stale_stack: Option<Stack>,
    /// A user has removed our finalizer from the Stack.
    pub(super) is_finalizer_removed: bool,
    /// When a lock was taken whose owner has ended.
    pub(super) stale_lock: Option<Timestamp>,
    /// Whether the stack has resources.
    pub(super) has_resources: bool,
    pub(super) runtime: RuntimeState,
    pub(super) version: Result<String, AgentError>,
    pub(super) setup: SetupState,
    pub(super) agent_error: Option<RunError>,
    pub(super) runs: BTreeMap<String, OwnedRun>,
    /// The number of the pod. A new pod has none of the earlier runs.
    pub(super) instance: u32,
    /// The uids of the Updates whose runs were started, in order.
    pub(super) started: Vec<String>,
    pub(super) runs_succeed: bool,
    /// The operations of the started runs, in order.
    pub(super) log: Vec<OperationType>,
    /// The reasons of events, in order.
    pub(super) events: Vec<String>,
    /// The manager crashes after this many writes.
    pub(super) writes_left: Option<usize>,
    pub(super) writes: usize,
    /// Time and description of each write.
    pub(super) journal: Vec<String>,
    /// The number of objects ever created.
    pub(super) created_objects: u32,
}

/// The object as it is read back after a write.
fn stored<T: Serialize + DeserializeOwned>(object: &T) -> T {
    serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
}

fn is_collectable(metadata: &ObjectMeta) -> bool {
    let has_finalizer = metadata.finalizers.iter().flatten().next().is_some();
    metadata.deletion_timestamp.is_some() && !has_finalizer
}

/// Requests a run of a Stack.
pub(super) fn request(stack: &mut Stack, value: &str) {
    let key = annotations::RECONCILIATION_REQUEST.to_owned();
    let annotations = stack.metadata.annotations.get_or_insert_default();
    annotations.insert(key, value.to_owned());
}

fn remove_stack_finalizer(metadata: &mut ObjectMeta) {
    if let Some(names) = &mut metadata.finalizers {
        names.retain(|name| name != finalizers::STACK);
    }
}

impl SimulatedCluster {
    pub(super) fn new(spec: &Value) -> Self {
        Self::named("demo", spec)
    }

    pub(super) fn named(name: &str, spec: &Value) -> Self {
        let stack = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": format!("stack-{name}"), "generation": 1 },
            "spec": spec,
        });
        Self {
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            stack: Some(serde_json::from_value(stack).unwrap()),
            updates: BTreeMap::new(),
            workspace: None,
            outputs: BTreeMap::new(),
            revision: Some("1".to_owned()),
            secrets: stack::Versions::new(),
            refusal: None,
            faults: Faults::default(),
            others: stack::Prerequisites::new(),
            requests: Vec::new(),
            stale_stack: None,
            is_finalizer_removed: false,
            stale_lock: None,
            has_resources: false,
            runtime: RuntimeState::Running(AgentEndpoint {
                address: "unix:/run/demo".to_owned(),
                name: "\"demo\"".to_owned(),
                is_outdated: false,
                requeue_after: std::time::Duration::from_secs(30),
            }),
            version: Ok("3.259.0".to_owned()),
            setup: SetupState::Done,
            agent_error: None,
            runs: BTreeMap::new(),
            instance: 1,
            started: Vec::new(),
            runs_succeed: true,
            log: Vec::new(),
            events: Vec::new(),
            writes_left: None,
            writes: 0,
            journal: Vec::new(),
            created_objects: 0,
        }
    }

    fn write(&mut self, what: &str) -> Result<(), Crashed> {
        match &mut self.writes_left {
            Some(0) => return Err(Crashed),
            Some(left) => *left -= 1,
            None => {}
        }
        self.writes += 1;
        self.journal.push(format!("{:.0} {what}", self.now));
        Ok(())
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn uid(&mut self) -> String {
        self.created_objects += 1;
        format!("uid-{}", self.created_objects)
    }

    // User actions.

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Stack)) {
        let stack = self.stack.as_mut().unwrap();
        change(stack);
        *stack.metadata.generation.as_mut().unwrap() += 1;
    }

    pub(super) fn request(&mut self, value: &str) {
        request(self.stack.as_mut().unwrap(), value);
    }

    pub(super) fn delete_stack(&mut self) {
        let now = self.now;
        self.edit(|stack| stack.metadata.deletion_timestamp = Some(Time(now)));
        self.collect();
    }

    /// The garbage collector deletes what the Stack owns before the Stack.
    pub(super) fn delete_stack_in_foreground(&mut self) {
        let stack = self.stack.as_mut().unwrap();
        let names = stack.metadata.finalizers.get_or_insert_default();
        names.push(FOREGROUND.to_owned());
        self.delete_stack();
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

    /// A user removes our finalizer from the Stack.
    pub(super) fn remove_finalizer(&mut self) {
        self.is_finalizer_removed = true;
        remove_stack_finalizer(&mut self.stack.as_mut().unwrap().metadata);
        self.collect();
    }

    /// Replaces the pod, which loses its runs.
    pub(super) fn replace_pod(&mut self) {
        self.instance += 1;
        self.runs.clear();
    }

    /// Kills the pod during a run, which leaves a lock behind.
    pub(super) fn kill_pod(&mut self) {
        assert!(!self.runs.is_empty());
        self.stale_lock = Some(self.now);
        self.replace_pod();
    }

    pub(super) fn delete_workspace(&mut self) {
        self.workspace = None;
        self.replace_pod();
        self.disown("Workspace");
        self.collect();
    }

    /// Removes owner references to a deleted object, as the garbage collector does. An object that
    /// loses its last owner is deleted.
    fn disown(&mut self, kind: &str) {
        let now = self.now;
        for update in self.updates.values_mut() {
            let owners = update.metadata.owner_references.get_or_insert_default();
            let had_owners = !owners.is_empty();
            owners.retain(|owner| owner.kind != kind);
            let is_alive = update.metadata.deletion_timestamp.is_none();
            if had_owners && owners.is_empty() && is_alive {
                update.metadata.deletion_timestamp = Some(Time(now));
                *update.metadata.generation.get_or_insert(1) += 1;
            }
        }
    }

    fn collect(&mut self) {
        self.collect_in_foreground();
        let stack = self.stack.as_ref();
        if stack.is_some_and(|stack| is_collectable(&stack.metadata)) {
            self.stack = None;
            if self.is_workspace_owned() {
                self.delete_workspace();
            }
            self.disown("Stack");
        }
        self.updates
            .retain(|_, update| !is_collectable(&update.metadata));
    }

    /// Deletes what a Stack in foreground deletion owns, and then the garbage collector's
    /// finalizer.
    fn collect_in_foreground(&mut self) {
        let metadata = self.stack.as_ref().map(|stack| &stack.metadata);
        let metadata = metadata.filter(|metadata| metadata.deletion_timestamp.is_some());
        let finalizers = metadata.and_then(|metadata| metadata.finalizers.as_ref());
        if !finalizers.is_some_and(|names| names.iter().any(|name| name == FOREGROUND)) {
            return;
        }
        if self.is_workspace_owned() {
            self.workspace = None;
            self.replace_pod();
            self.disown("Workspace");
        }
        self.disown("Stack");
        self.updates
            .retain(|_, update| !is_collectable(&update.metadata));
        // It waits only for what it has deleted itself.
        let mut updates = self.updates.values();
        if updates.all(|update| update.metadata.deletion_timestamp.is_none()) {
            let names = &mut self.stack.as_mut().unwrap().metadata.finalizers;
            names
                .get_or_insert_default()
                .retain(|name| name != FOREGROUND);
        }
    }

    fn is_workspace_owned(&self) -> bool {
        let owners = self
            .workspace
            .iter()
            .flat_map(|workspace| &workspace.metadata.owner_references);
        owners.flatten().next().is_some()
    }

    // Passes of the operator.

    pub(super) fn reconcile_stack(
        &mut self,
    ) -> Result<Option<Reconciliation<stack::StackEffect>>, Crashed> {
        let Some(live) = self.stack.clone() else {
            return Ok(None);
        };
        let object = self.stale_stack.clone().unwrap_or(live);
        let mut observed = stack::ObservedStack::new(object);
        observed.unreleased = self.unreleased();
        let mut requests = BTreeMap::new();
        let mut write_requests = 0;
        let mut created = None;
        loop {
            match observed.decide(self.now) {
                Step::Read(read) => {
                    *requests.entry(stack_read(&read)).or_default() += 1;
                    observed.observe(self.read(|cluster| cluster.read_for_stack(read)));
                }
                Step::Write(write) => {
                    *requests.entry(stack_write(&write)).or_default() += 1;
                    write_requests += 1;
                    if let stack::StackWrite::CreateUpdate(update, status) = &write {
                        let named = status.current_update.clone();
                        let named = named.and_then(|current| current.name);
                        created = Some((update.as_ref().clone(), named));
                    }
                    let Ok(response) = self.write_for_stack(write)? else {
                        let pass = self.keep_unsaved(&observed, requests, write_requests)?;
                        return Ok(Some(pass));
                    };
                    observed.observe(response);
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.carry_out_for_stack(effect)?;
                    }
                    return Ok(Some(Reconciliation {
                        plan,
                        requests,
                        created,
                        write_requests,
                    }));
                }
            }
        }
    }

    /// Every request of one pass, with the name of the rule that makes it.
    pub(super) fn stack_requests_by_rule(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut observed = stack::ObservedStack::new(self.stack.clone().unwrap());
        observed.settings.watches_secrets = true;
        let mut requests = Vec::new();
        loop {
            let rule = requesting_rule(&observed, self.now);
            match observed.decide(self.now) {
                Step::Read(read) => {
                    requests.push((rule, stack_read(&read)));
                    observed.observe(self.read(|cluster| cluster.read_for_stack(read)));
                }
                Step::Write(write) => {
                    requests.push((rule, stack_write(&write)));
                    let Ok(Ok(response)) = self.write_for_stack(write) else {
                        return requests;
                    };
                    observed.observe(response);
                }
                Step::Finish(_) => return requests,
            }
        }
    }

    /// The Updates that have our finalizer and are not current: the last one, and for a deletion
    /// all.
    fn unreleased(&self) -> Vec<String> {
        let stack = self.stack.as_ref().unwrap();
        let is_deleting = stack.metadata.deletion_timestamp.is_some();
        let status = stack.status.clone().unwrap_or_default();
        let current = status.current_update.and_then(|current| current.name);
        let last = status.last_update.and_then(|last| last.name);
        let unreleased = self.updates.iter().filter(|(name, update)| {
            let mut finalizers = update.metadata.finalizers.iter().flatten();
            let mut owners = update.metadata.owner_references.iter().flatten();
            finalizers.any(|name| name == finalizers::STACK)
                && owners.any(|owner| Some(&owner.uid) == stack.metadata.uid.as_ref())
                && current.as_ref() != Some(*name)
                && (is_deleting || last.as_ref() == Some(*name))
        });
        unreleased.map(|(name, _)| name.clone()).collect()
    }

    /// Ends a pass without a plan, as the driver does.
    fn keep_unsaved(
        &mut self,
        observed: &stack::ObservedStack,
        requests: BTreeMap<&'static str, usize>,
        write_requests: usize,
    ) -> Result<Reconciliation<stack::StackEffect>, Crashed> {
        let effects = observed.unsaved_effects(self.now);
        for effect in &effects {
            self.carry_out_for_stack(effect)?;
        }
        let plan = Plan {
            rule: NO_RESPONSE,
            effects,
            requeue: Requeue::after(AFTER_ERROR),
        };
        Ok(Reconciliation {
            plan,
            requests,
            created: None,
            write_requests,
        })
    }

    /// Carries out a read, which has no effect on anything in the cluster.
    pub(super) fn read<Response>(&mut self, read: impl FnOnce(&mut Self) -> Response) -> Response {
        // Only grows, so the copies need none of it.
        let journal = std::mem::take(&mut self.journal);
        let before = self.clone();
        let response = read(self);
        assert_eq!(*self, before, "a read has an effect");
        self.journal = journal;
        response
    }

    fn read_for_stack(&mut self, read: stack::StackRead) -> stack::StackResponse {
        match read {
            stack::StackRead::CurrentUpdate(name) => {
                let cached = self.faults.old_updates.get(&name);
                let found = cached.or_else(|| self.updates.get(&name));
                stack::StackResponse::CurrentUpdate(found.cloned().map(Box::new))
            }
            stack::StackRead::Outputs(name) => {
                let outputs = self.outputs.get(&name).cloned();
                outputs.map_or(stack::StackResponse::NoOutputs, |outputs| {
                    stack::StackResponse::Outputs(outputs.into())
                })
            }
            stack::StackRead::Source(_) => stack::StackResponse::Source(self.program()),
            stack::StackRead::ConfigMaps(_) => {
                stack::StackResponse::ConfigMaps(stack::Versions::new())
            }
            stack::StackRead::Secrets(_) => stack::StackResponse::Secrets(self.secrets.clone()),
            stack::StackRead::Prerequisites => {
                stack::StackResponse::Prerequisites(self.others.clone())
            }
            stack::StackRead::ExistingWorkspace(_) => {
                let existing = self.workspace.clone();
                stack::StackResponse::ExistingWorkspace(existing.map(Box::new))
            }
        }
    }

    fn write_for_stack(
        &mut self,
        write: stack::StackWrite,
    ) -> Result<Result<stack::StackResponse, NoResponse>, Crashed> {
        Ok(Ok(match write {
            stack::StackWrite::PublishOutputs(_) => stack::StackResponse::Published(Ok(())),
            stack::StackWrite::CreateUpdate(update, status) => {
                if self.stack.as_ref().and_then(|stack| stack.status.as_ref()) != Some(&status) {
                    self.carry_out_for_stack(&stack::StackEffect::PatchStatus(status))?;
                }
                match self.faults.creation.clone() {
                    Creation::NoResponse => return Ok(Err(NoResponse)),
                    Creation::Refused(refusal) => stack::StackResponse::Created(Err(refusal)),
                    Creation::ResponseLost => {
                        self.create(&update)?;
                        return Ok(Err(NoResponse));
                    }
                    Creation::Works => {
                        self.create(&update)?;
                        stack::StackResponse::Created(Ok(()))
                    }
                }
            }
            stack::StackWrite::ApplyWorkspace(workspace, status) => {
                if self.stack.as_ref().and_then(|stack| stack.status.as_ref()) != Some(&status) {
                    self.carry_out_for_stack(&stack::StackEffect::PatchStatus(status))?;
                }
                match self.refusal.clone() {
                    Some(refusal) => stack::StackResponse::Workspace(Err(refusal)),
                    None => stack::StackResponse::Workspace(Ok(Box::new(self.apply(&workspace)?))),
                }
            }
        }))
    }

    fn program(&self) -> Result<stack::ProgramSource, stack::SourceError> {
        if let Some(problem) = self.faults.source.clone() {
            return Err(problem);
        }
        let Some(revision) = self.revision.clone() else {
            let message = "unable to retrieve program for stack".to_owned();
            return Err(stack::SourceError::Unavailable(message));
        };
        let location = stack::Location::Artifact(FluxArtifact {
            url: Some(format!("http://operator/{revision}")),
            ..FluxArtifact::default()
        });
        Ok(stack::ProgramSource { revision, location })
    }

    fn apply(&mut self, desired: &Workspace) -> Result<Workspace, Crashed> {
        let mut applied = stored(desired);
        match &self.workspace {
            Some(before)
                if before.spec == applied.spec
                    && before.metadata.annotations == applied.metadata.annotations
                    && before.metadata.owner_references == applied.metadata.owner_references =>
            {
                return Ok(before.clone());
            }
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
        self.write("workspace applied")?;
        self.workspace = Some(applied.clone());
        Ok(applied)
    }

    fn create(&mut self, update: &Update) -> Result<(), Crashed> {
        let mut update = stored(update);
        let name = update.metadata.name.clone().unwrap();
        // An earlier pass that ended early has created it.
        if self.updates.contains_key(&name) {
            return Ok(());
        }
        self.write(&format!("{name} created"))?;
        update.metadata.uid = Some(self.uid());
        update.metadata.generation = Some(1);
        self.updates.insert(name, update);
        Ok(())
    }

    fn carry_out_for_stack(&mut self, effect: &stack::StackEffect) -> Result<(), Crashed> {
        self.write(&stack_effect(effect))?;
        // The manager does not use a cache that has not seen its own write.
        self.stale_stack = None;
        let stack = self.stack.as_mut();
        match effect {
            stack::StackEffect::AddFinalizer => {
                let names = &mut stack.unwrap().metadata.finalizers;
                names
                    .get_or_insert_default()
                    .push(finalizers::STACK.to_owned());
            }
            stack::StackEffect::RemoveFinalizer => {
                remove_stack_finalizer(&mut stack.unwrap().metadata);
            }
            stack::StackEffect::PatchStatus(status) => {
                let stack = stack.unwrap();
                assert_ne!(
                    stack.status.as_ref(),
                    Some(status.as_ref()),
                    "is stored already"
                );
                stack.status = Some(stored(status));
            }
            stack::StackEffect::ReleaseUpdate(name) => {
                if let Some(update) = self.updates.get_mut(name) {
                    remove_stack_finalizer(&mut update.metadata);
                }
            }
            stack::StackEffect::DeleteUpdate(name) => self.delete_update(name),
            stack::StackEffect::DeleteWorkspace => self.delete_workspace(),
            stack::StackEffect::RequestPrerequisite { stack, value } => {
                let name = stack.metadata.name.clone().unwrap();
                self.requests.push((name, value.clone()));
            }
            stack::StackEffect::PruneUpdates => {}
            stack::StackEffect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        self.collect();
        Ok(())
    }

    pub(super) fn reconcile_update(
        &mut self,
        name: &str,
    ) -> Result<Option<Reconciliation<update::UpdateEffect>>, Crashed> {
        let Some(object) = self.updates.get(name).cloned() else {
            return Ok(None);
        };
        let mut observed = update::ObservedUpdate::new(object.clone(), Timestamp::UNIX_EPOCH);
        let mut requests = BTreeMap::new();
        let mut write_requests = 0;
        loop {
            match observed.decide(self.now) {
                Step::Read(read) => {
                    *requests.entry(update_read(&read)).or_default() += 1;
                    observed.observe(self.read(|cluster| cluster.read_for_update(&object, &read)));
                }
                Step::Write(write) => {
                    *requests.entry(update_write(&write)).or_default() += 1;
                    write_requests += 1;
                    observed.observe(self.write_for_update(&object, write)?);
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.carry_out_for_update(&object, effect)?;
                    }
                    return Ok(Some(Reconciliation {
                        plan,
                        requests,
                        created: None,
                        write_requests,
                    }));
                }
            }
        }
    }

    fn read_for_update(
        &mut self,
        object: &Update,
        read: &update::UpdateRead,
    ) -> update::UpdateResponse {
        match read {
            update::UpdateRead::Awaited(_) => {
                let stack = self.stack.as_ref();
                let awaited = stack.is_some_and(|stack| update::stack_awaits(stack, object));
                update::UpdateResponse::Awaited(awaited)
            }
            update::UpdateRead::Workspace(_) => {
                update::UpdateResponse::Workspace(self.workspace.clone().map(Box::new))
            }
            update::UpdateRead::PrecedingRuns => {
                update::UpdateResponse::PrecedingRuns(update::PrecedingRuns::Ended(None))
            }
        }
    }

    fn write_for_update(
        &mut self,
        object: &Update,
        write: update::UpdateWrite,
    ) -> Result<update::UpdateResponse, Crashed> {
        Ok(match write {
            update::UpdateWrite::Admit(_) => {
                update::UpdateResponse::Admission(crate::run_queue::Admission::Admitted)
            }
            update::UpdateWrite::AcquireAgent(_) => {
                update::UpdateResponse::Agent(self.agent_of_run())
            }
            update::UpdateWrite::StartRun(_, publish) => {
                if let Some(status) = publish {
                    self.carry_out_for_update(object, &update::UpdateEffect::PatchStatus(status))?;
                }
                update::UpdateResponse::Run(self.run(object)?)
            }
            update::UpdateWrite::CancelRun(_) => update::UpdateResponse::Run(self.cancel(object)?),
            update::UpdateWrite::StoreOutputs(secret) => {
                self.write("outputs stored")?;
                update::UpdateResponse::Outputs(Ok(self.store_outputs(&secret)))
            }
        })
    }

    fn agent_of_run(&self) -> update::AgentState {
        let instance = format!("pod-{}", self.instance);
        match &self.agent_error {
            Some(RunError::Unreachable(message)) => update::AgentState::Unreachable {
                // Sometimes the pod is unknown, too.
                instance: (self.instance % 2 == 1).then_some(instance),
                message: message.clone(),
            },
            _ => update::AgentState::Reachable(instance),
        }
    }

    /// Starts or polls a run, as an agent does.
    fn run(&mut self, update: &Update) -> Result<Result<RunProgress, RunError>, Crashed> {
        if let Some(error) = self.agent_error.clone() {
            return Ok(Err(error));
        }
        let id = update.metadata.uid.clone().unwrap_or_default();
        if !self.runs.contains_key(&id) {
            self.assert_nothing_else_runs(&id);
            self.write("run started")?;
            self.log.push(update.spec.operation.clone().unwrap());
            self.started.push(id.clone());
            let run = self
                .run_under_lock(update)
                .unwrap_or_else(|| self.new_run(update));
            self.runs.insert(id.clone(), run);
        }
        Ok(Ok(self.poll_run(&id)))
    }

    /// No run starts during another one, unless the Update of that one was deleted by force.
    fn assert_nothing_else_runs(&self, id: &str) {
        for update in self.updates.values() {
            let uid = update.metadata.uid.clone().unwrap_or_default();
            let runs = self.runs.get(&uid).is_some_and(|run| run.polls > 0);
            assert!(uid == id || !runs, "{uid} runs, and {id} is started");
        }
    }

    /// Cancels a run, as an agent does.
    fn cancel(&mut self, update: &Update) -> Result<Result<RunProgress, RunError>, Crashed> {
        if let Some(error) = self.agent_error.clone() {
            return Ok(Err(error));
        }
        let id = update.metadata.uid.clone().unwrap_or_default();
        let Some(run) = self.runs.get_mut(&id) else {
            return Ok(Ok(RunProgress::NotStarted));
        };
        run.outcome = RunOutcome {
            reason: Some("Canceled".to_owned()),
            ..RunOutcome::default()
        };
        self.write("run canceled")?;
        Ok(Ok(self.poll_run(&id)))
    }

    fn poll_run(&mut self, id: &str) -> RunProgress {
        let run = self.runs.get_mut(id).unwrap();
        if run.polls > 0 {
            run.polls -= 1;
            return RunProgress::Running;
        }
        RunProgress::Ended(Box::new(run.outcome.clone()))
    }

    fn store_outputs(&mut self, secret: &Secret) -> String {
        let data = secret.data.clone().unwrap_or_default();
        let outputs = data
            .into_iter()
            .map(|(key, value)| (key, serde_json::from_slice(&value.0).unwrap()));
        let name = secret.metadata.name.clone().unwrap();
        self.outputs.insert(name.clone(), outputs.collect());
        name
    }

    /// Removes the lock of a lost run, as an agent does. Any other lock fails the run.
    fn run_under_lock(&mut self, update: &Update) -> Option<OwnedRun> {
        let taken = self.stale_lock?;
        let lost = update::interrupted_runs(update, self.updates.values());
        let ours = lost
            .iter()
            .find(|run| run.begun <= taken && taken <= run.lost);
        if let Some(ours) = ours {
            self.stale_lock = None;
            let note = format!("removed the lock that run {} had left behind", ours.id);
            let mut run = self.new_run(update);
            run.outcome.notes = vec![note];
            return Some(run);
        }
        Some(OwnedRun {
            outcome: RunOutcome {
                reason: Some("UpdateConflict".to_owned()),
                class: Some(FailureClass::Conflict),
                message: "the stack is currently locked by 1 lock(s)".to_owned(),
                ..RunOutcome::default()
            },
            polls: 1,
        })
    }

    fn new_run(&mut self, update: &Update) -> OwnedRun {
        let up = update.spec.operation == Some(OperationType::Up);
        let runs_succeed = self.runs_succeed && !self.faults.is_broken;
        if up {
            // Even a failed update may have created resources.
            self.has_resources = true;
        } else if runs_succeed && update.spec.operation == Some(OperationType::Destroy) {
            self.has_resources = false;
        }
        let json = self.revision.as_deref().unwrap_or("0").into();
        let output = update::StackOutput {
            json,
            secret: false,
        };
        let outputs = (up && runs_succeed).then(|| ("revision".to_owned(), output));
        let project = ProjectInfo {
            name: "hello".to_owned(),
            runtime: "yaml".to_owned(),
        };
        OwnedRun {
            outcome: RunOutcome {
                succeeded: runs_succeed,
                class: self.faults.class.filter(|_| !runs_succeed),
                message: if runs_succeed { "" } else { "it broke" }.to_owned(),
                project: runs_succeed.then_some(project),
                outputs: outputs.into_iter().collect(),
                ..RunOutcome::default()
            },
            polls: 1,
        }
    }

    fn carry_out_for_update(
        &mut self,
        object: &Update,
        effect: &update::UpdateEffect,
    ) -> Result<(), Crashed> {
        let name = object.metadata.name.clone().unwrap();
        let id = object.metadata.uid.clone().unwrap_or_default();
        let is_free = matches!(
            effect,
            update::UpdateEffect::WatchRun | update::UpdateEffect::ReleaseAdmission
        );
        if !is_free {
            self.write(&format!("{name}: {}", variant(effect)))?;
        }
        match effect {
            update::UpdateEffect::PatchStatus(status) => {
                let update = self.updates.get_mut(&name).unwrap();
                assert_ne!(
                    update.status.as_ref(),
                    Some(status.as_ref()),
                    "is stored already"
                );
                update.status = Some(stored(status));
            }
            update::UpdateEffect::Adopt(owner) => {
                if let Some(update) = self.updates.get_mut(&name) {
                    update.metadata.owner_references = Some(vec![owner.clone()]);
                }
            }
            update::UpdateEffect::WatchRun | update::UpdateEffect::ReleaseAdmission => {}
            update::UpdateEffect::EmitWorkspaceWarning(message) => {
                self.events.push(message.clone());
            }
            update::UpdateEffect::AcknowledgeRun => drop(self.runs.remove(&id)),
            update::UpdateEffect::Delete => self.delete_update(&name),
            update::UpdateEffect::RemoveFinalizer => {
                remove_stack_finalizer(&mut self.updates.get_mut(&name).unwrap().metadata);
            }
            update::UpdateEffect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        self.collect();
        Ok(())
    }

    pub(super) fn reconcile_workspace(
        &mut self,
    ) -> Result<Option<Reconciliation<workspace::WorkspaceEffect>>, Crashed> {
        let Some(object) = self.workspace.clone() else {
            return Ok(None);
        };
        let mut observed = workspace::ObservedWorkspace::new(object);
        let mut requests = BTreeMap::new();
        let mut write_requests = 0;
        loop {
            match observed.decide(self.now) {
                Step::Read(read) => {
                    *requests.entry(workspace_read(&read)).or_default() += 1;
                    let workspace = observed.workspace.clone();
                    let response =
                        self.read(|cluster| cluster.read_for_workspace(&workspace, &read));
                    observed.observe(response);
                }
                Step::Write(write) => {
                    *requests.entry(workspace_write(&write)).or_default() += 1;
                    write_requests += 1;
                    observed.observe(self.write_for_workspace(&write));
                }
                Step::Finish(plan) => {
                    for effect in &plan.effects {
                        self.carry_out_for_workspace(effect)?;
                    }
                    return Ok(Some(Reconciliation {
                        plan,
                        requests,
                        created: None,
                        write_requests,
                    }));
                }
            }
        }
    }

    fn read_for_workspace(
        &mut self,
        object: &Workspace,
        read: &workspace::WorkspaceRead,
    ) -> workspace::WorkspaceResponse {
        match read {
            workspace::WorkspaceRead::Awaited(_) => {
                let stack = self.stack.as_ref().map(|stack| &stack.metadata);
                let awaited = stack.is_some_and(|stack| workspace::is_awaited(object, stack));
                workspace::WorkspaceResponse::Awaited(awaited)
            }
            workspace::WorkspaceRead::Version => {
                workspace::WorkspaceResponse::Version(self.version.clone())
            }
        }
    }

    /// The runtime and the setup are faults of this cluster, so neither changes with a request.
    fn write_for_workspace(
        &self,
        write: &workspace::WorkspaceWrite,
    ) -> workspace::WorkspaceResponse {
        match write {
            workspace::WorkspaceWrite::EnsureRuntime => {
                workspace::WorkspaceResponse::Runtime(self.runtime.clone())
            }
            workspace::WorkspaceWrite::SetUp => {
                workspace::WorkspaceResponse::Setup(self.setup.clone())
            }
        }
    }

    fn carry_out_for_workspace(
        &mut self,
        effect: &workspace::WorkspaceEffect,
    ) -> Result<(), Crashed> {
        self.write(&format!("workspace: {}", variant(effect)))?;
        match effect {
            workspace::WorkspaceEffect::PatchStatus(status) => {
                let workspace = self.workspace.as_mut().unwrap();
                assert_ne!(
                    workspace.status.as_ref(),
                    Some(status.as_ref()),
                    "is stored already"
                );
                workspace.status = Some(stored(status));
            }
            workspace::WorkspaceEffect::RemoveRuntime => self.replace_pod(),
            workspace::WorkspaceEffect::Delete => self.delete_workspace(),
            workspace::WorkspaceEffect::Emit(event) => self.events.push(event.reason.to_string()),
        }
        Ok(())
    }

    // What the status shows.

    pub(super) fn is_stack(&self, kind: ConditionType) -> bool {
        let status = self.stack.as_ref().and_then(|stack| stack.status.as_ref());
        status.is_some_and(|status| is_true(&status.conditions, kind))
    }
}

/// The names of the reads, for each kind of object.
pub(super) const STACK_READS: [&str; 7] = [
    "update",
    "outputs",
    "source",
    "config maps",
    "secrets",
    "prerequisites",
    "existing workspace",
];
pub(super) const UPDATE_READS: [&str; 2] = ["awaited", "workspace"];
pub(super) const WORKSPACE_READS: [&str; 2] = ["awaited", "version"];

/// The name of the rule that decides now.
fn requesting_rule(observed: &stack::ObservedStack, now: Timestamp) -> &'static str {
    let Ok(evaluation) = observed.evaluate(now) else {
        return "evaluate";
    };
    let mut rules = stack::ObservedStack::RULES.iter();
    let rule = rules.find(|rule| (rule.apply)(&evaluation).is_some());
    rule.map_or("none", |rule| rule.name)
}

fn stack_read(read: &stack::StackRead) -> &'static str {
    match read {
        stack::StackRead::CurrentUpdate(_) => "update",
        stack::StackRead::Outputs(_) => "outputs",
        stack::StackRead::Source(_) => "source",
        stack::StackRead::ConfigMaps(_) => "config maps",
        stack::StackRead::Secrets(_) => "secrets",
        stack::StackRead::Prerequisites => "prerequisites",
        stack::StackRead::ExistingWorkspace(_) => "existing workspace",
    }
}

fn stack_write(write: &stack::StackWrite) -> &'static str {
    match write {
        stack::StackWrite::PublishOutputs(_) => "publish",
        stack::StackWrite::ApplyWorkspace(..) => "workspace",
        stack::StackWrite::CreateUpdate(..) => "create",
    }
}

fn update_read(read: &update::UpdateRead) -> &'static str {
    match read {
        update::UpdateRead::Awaited(_) => "awaited",
        update::UpdateRead::Workspace(_) => "workspace",
        update::UpdateRead::PrecedingRuns => "preceding runs",
    }
}

fn update_write(write: &update::UpdateWrite) -> &'static str {
    match write {
        update::UpdateWrite::Admit(_) => "admission",
        update::UpdateWrite::AcquireAgent(_) => "agent",
        update::UpdateWrite::StartRun(..) => "run",
        update::UpdateWrite::CancelRun(_) => "cancel",
        update::UpdateWrite::StoreOutputs(_) => "outputs",
    }
}

fn workspace_read(read: &workspace::WorkspaceRead) -> &'static str {
    match read {
        workspace::WorkspaceRead::Awaited(_) => "awaited",
        workspace::WorkspaceRead::Version => "version",
    }
}

fn workspace_write(write: &workspace::WorkspaceWrite) -> &'static str {
    match write {
        workspace::WorkspaceWrite::EnsureRuntime => "runtime",
        workspace::WorkspaceWrite::SetUp => "setup",
    }
}

/// A description of the effect, with the summary of a status.
fn stack_effect(effect: &stack::StackEffect) -> String {
    let stack::StackEffect::PatchStatus(status) = effect else {
        return format!("stack: {}", variant(effect));
    };
    let summary = status
        .conditions
        .iter()
        .rfind(|condition| condition.status == "True");
    let summary = summary.map(|condition| format!("{}, {}", condition.type_, condition.reason));
    let current = status
        .current_update
        .as_ref()
        .and_then(|current| current.name.clone());
    format!("stack: status {summary:?}, current {current:?}")
}

/// A writer that stops after the name of a variant.
struct Name(String);

impl std::fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let name = text.split(['(', ' ', '{']).next().unwrap_or_default();
        self.0.push_str(name);
        if name.len() == text.len() {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}

/// The name of an effect, without its content.
fn variant(effect: &impl std::fmt::Debug) -> String {
    let mut name = Name(String::new());
    let _ = std::fmt::Write::write_fmt(&mut name, format_args!("{effect:?}"));
    name.0
}
