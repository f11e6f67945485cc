//! The state while steps are performed.
//!
//! Processed resources come first, in program order, then those that are not processed yet. Each
//! resource follows its dependencies at any moment, as Pulumi's integrity check requires. Pending
//! operations are kept beside them, for the next run in case this one is killed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use pulumi_engine_model::{property::Properties, resource::Resource, urn::Urn};

use super::{Operation, Step};

/// A resource of a state, with its sealed JSON once it was saved. A save then only costs what
/// changed.
#[derive(Debug)]
pub struct Record {
    pub resource: Resource,
    /// Its JSON in a checkpoint.
    pub sealed: OnceLock<String>,
}

impl Record {
    /// A record that was not saved yet.
    #[must_use]
    pub fn new(resource: Resource) -> Arc<Self> {
        Arc::new(Self {
            resource,
            sealed: OnceLock::new(),
        })
    }
}

/// A pending operation.
#[derive(Debug, Clone)]
pub struct Pending {
    /// `creating`, `updating`, `deleting`, `reading` or `importing`.
    pub kind: String,
    /// The resource.
    pub record: Arc<Record>,
}

/// The contents of a save.
#[derive(Debug, Clone, Default)]
pub struct StateToSave {
    /// Resources, in order.
    pub records: Vec<Arc<Record>>,
    /// Pending operations.
    pub pending: Vec<Pending>,
}

/// The order of processed resources: part of the program, then sequence.
type Slot = (usize, usize);

/// A state while a run changes it.
#[derive(Debug, Default)]
pub struct Snapshot {
    done: BTreeMap<Slot, Arc<Record>>,
    places: HashMap<Urn, Slot>,
    remaining: BTreeMap<usize, Arc<Record>>,
    positions: HashMap<Urn, Vec<usize>>,
    pending: BTreeMap<usize, Pending>,
    /// Creates that an earlier run did not finish. Only the user can find out whether they
    /// succeeded.
    inherited: Vec<Pending>,
    /// Resources that a refresh did not find.
    gone: Vec<Resource>,
    arrivals: usize,
}

impl Snapshot {
    /// Starts from a state and the operations that an earlier run did not finish.
    #[must_use]
    pub fn new(records: Vec<Arc<Record>>, inherited: Vec<Pending>) -> Self {
        let mut snapshot = Self {
            inherited,
            ..Self::default()
        };
        for (position, record) in records.into_iter().enumerate() {
            let urn = record.resource.urn.clone();
            snapshot.positions.entry(urn).or_default().push(position);
            snapshot.remaining.insert(position, record);
        }
        snapshot
    }

    /// All resources, in the order of a checkpoint.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.done.values().chain(self.remaining.values())
    }

    /// The contents of a save now.
    #[must_use]
    pub fn to_save(&self) -> StateToSave {
        StateToSave {
            records: self.records().map(Arc::clone).collect(),
            pending: self
                .pending
                .values()
                .chain(&self.inherited)
                .cloned()
                .collect(),
        }
    }

    /// Adds a pending operation. The ticket removes it.
    pub fn begin(&mut self, kind: &str, resource: Resource) -> usize {
        self.arrivals += 1;
        let pending = Pending {
            kind: kind.to_owned(),
            record: Record::new(resource),
        };
        self.pending.insert(self.arrivals, pending);
        self.arrivals
    }

    /// Removes a pending operation.
    pub fn end(&mut self, ticket: usize) {
        self.pending.remove(&ticket);
    }

    /// Applies a step of the given part of the program.
    pub fn apply(&mut self, step: &Step, part: usize) {
        match step.operation {
            Operation::Same
            | Operation::Create
            | Operation::Update
            | Operation::Read
            | Operation::Import => {
                self.forget(step.old.as_ref());
                self.rename(step);
                self.insert(part, step.new.clone());
            }
            // a refresh may skip dependencies, so nothing moves
            Operation::Refresh => self.refresh(step),
            Operation::CreateReplacement
            | Operation::ReadReplacement
            | Operation::ImportReplacement => {
                self.supersede(step.old.as_ref());
                self.insert(part, step.new.clone());
            }
            // its URN stays for its dependents until it is created again
            Operation::DeleteReplaced if step.makes_room => {
                self.amend(step.old.as_ref(), |resource| {
                    resource.pending_replacement = true;
                });
            }
            Operation::Delete
            | Operation::DeleteReplaced
            | Operation::Discard
            | Operation::DiscardReplaced
            | Operation::RemovePendingReplace => self.forget(step.old.as_ref()),
            Operation::Replace => {}
        }
    }

    /// Moves the dependencies of a resource before it. A run with targets may keep a resource whose
    /// dependencies the program no longer has.
    pub fn settle(&mut self, resource: &Resource, part: usize) {
        let references: Vec<_> = resource.references().map(Urn::new).collect();
        for urn in references {
            let Some(position) = self.current(&urn) else {
                continue;
            };
            let Some(record) = self.remaining.remove(&position) else {
                continue;
            };
            self.settle(&record.resource.clone(), part);
            self.arrivals += 1;
            self.places.insert(urn, (part, self.arrivals));
            self.done.insert((part, self.arrivals), record);
        }
    }

    /// The index of the live resource with this URN among those not processed yet.
    fn current(&self, urn: &Urn) -> Option<usize> {
        let positions = self.positions.get(urn)?;
        let live = |position: &&usize| {
            self.remaining
                .get(position)
                .is_some_and(|record| !record.resource.delete)
        };
        positions.iter().find(live).copied()
    }

    fn insert(&mut self, part: usize, resource: Option<Resource>) {
        let Some(resource) = resource else { return };
        self.arrivals += 1;
        let place = (part, self.arrivals);
        self.places.insert(resource.urn.clone(), place);
        self.done.insert(place, Record::new(resource));
    }

    /// The index of an old resource, unless it was processed.
    fn position(&self, old: &Resource) -> Option<usize> {
        let positions = self.positions.get(&old.urn)?;
        let same = |position: &&usize| {
            self.remaining
                .get(position)
                .is_some_and(|record| is_same(&record.resource, old))
        };
        positions.iter().find(same).copied()
    }

    fn forget(&mut self, old: Option<&Resource>) {
        let Some(old) = old else { return };
        if let Some(position) = self.position(old) {
            self.remaining.remove(&position);
        } else if let Some(place) = self.places.get(&old.urn)
            && self
                .done
                .get(place)
                .is_some_and(|record| is_same(&record.resource, old))
        {
            self.done.remove(place);
        }
    }

    fn amend(&mut self, old: Option<&Resource>, change: impl FnOnce(&mut Resource)) {
        let Some(position) = old.and_then(|old| self.position(old)) else {
            return;
        };
        if let Some(record) = self.remaining.get_mut(&position) {
            let mut resource = record.resource.clone();
            change(&mut resource);
            *record = Record::new(resource);
        }
    }

    /// Marks the old resource for deletion, unless it was deleted before its replacement was
    /// created.
    fn supersede(&mut self, old: Option<&Resource>) {
        let Some(old) = old else { return };
        let gone = self.position(old).is_some_and(|position| {
            self.remaining
                .get(&position)
                .is_some_and(|record| record.resource.pending_replacement)
        });
        if gone {
            self.forget(Some(old));
        } else {
            self.amend(Some(old), |resource| resource.delete = true);
        }
    }

    fn refresh(&mut self, step: &Step) {
        let Some(old) = &step.old else { return };
        if let Some(new) = &step.new {
            let mut new = new.clone();
            for gone in &self.gone {
                detach(&mut new, gone);
            }
            self.amend(Some(old), |resource| *resource = new);
        } else {
            self.forget(Some(old));
            self.disown(old);
            self.gone.push(old.clone());
        }
    }

    /// Removes references to a resource that no longer exists.
    fn disown(&mut self, gone: &Resource) {
        for record in self.remaining.values_mut() {
            let resource = &record.resource;
            let concerned = resource
                .references()
                .any(|reference| reference == gone.urn.as_str());
            if concerned {
                let mut resource = resource.clone();
                detach(&mut resource, gone);
                *record = Record::new(resource);
            }
        }
    }

    /// Updates references to a renamed resource.
    fn rename(&mut self, step: &Step) {
        let (Some(old), Some(new)) = (&step.old, &step.new) else {
            return;
        };
        if old.urn == new.urn {
            return;
        }
        for record in self.remaining.values_mut() {
            let mut resource = record.resource.clone();
            if rename_references(&mut resource, &old.urn, &new.urn) {
                *record = Record::new(resource);
            }
        }
    }

    /// Sets the outputs of the stack.
    pub fn set_outputs(&mut self, stack: &Urn, outputs: &Properties) {
        let place = self.places.get(stack);
        let Some(record) = place.and_then(|place| self.done.get_mut(place)) else {
            return;
        };
        let mut resource = record.resource.clone();
        resource.outputs = Some(outputs.clone()).filter(|outputs| !outputs.is_empty());
        *record = Record::new(resource);
    }

    /// A resource by name.
    #[must_use]
    pub fn find(&self, urn: &Urn) -> Option<&Resource> {
        let done = self.places.get(urn).and_then(|place| self.done.get(place));
        let remaining = || {
            self.current(urn)
                .and_then(|position| self.remaining.get(&position))
        };
        done.or_else(remaining).map(|record| &record.resource)
    }
}

/// A resource and its replacement share the URN, not the id.
fn is_same(resource: &Resource, other: &Resource) -> bool {
    resource.urn == other.urn && resource.id == other.id
}

/// Every reference of a resource to another one.
fn references_of(resource: &mut Resource) -> impl Iterator<Item = &mut Urn> {
    let listed = resource
        .property_dependencies
        .values_mut()
        .flatten()
        .flatten();
    resource
        .parent
        .iter_mut()
        .chain(&mut resource.deleted_with)
        .chain(&mut resource.dependencies)
        .chain(&mut resource.replace_with)
        .chain(listed)
}

fn rename_references(resource: &mut Resource, old: &Urn, new: &Urn) -> bool {
    let mut renamed = false;
    for urn in references_of(resource) {
        if urn == old {
            urn.clone_from(new);
            renamed = true;
        }
    }
    if let Some(id) = resource
        .provider
        .strip_prefix(old.as_str())
        .and_then(|rest| rest.strip_prefix("::"))
    {
        resource.provider = format!("{new}::{id}");
        renamed = true;
    }
    renamed
}

fn detach(resource: &mut Resource, gone: &Resource) {
    if resource.parent.as_ref() == Some(&gone.urn) {
        resource.parent.clone_from(&gone.parent);
    }
    resource.dependencies.retain(|urn| *urn != gone.urn);
    resource.replace_with.retain(|urn| *urn != gone.urn);
    for urns in resource.property_dependencies.values_mut().flatten() {
        urns.retain(|urn| *urn != gone.urn);
    }
    if resource.deleted_with.as_ref() == Some(&gone.urn) {
        resource.deleted_with = None;
    }
}
