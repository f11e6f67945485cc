//! Stored generations of a Program, each as a ControllerRevision of the Program.
//!
//! A new pod fetches the generation in its Workspace, which may be older than the current Program.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        runtime::RawExtension,
    },
};
use pko_api::{Program, names::labels};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::artifact::{ArchiveError, PROJECT_FILE, project_file};

/// The API server's limit for the name of an object.
const MAX_NAME_LENGTH: usize = 253;
/// The API server's limit for the value of a label.
const MAX_LABEL_LENGTH: usize = 63;
/// Enough of a uid to distinguish successive Programs of the same name.
const UID_CHARACTERS: usize = 8;
/// Enough of a hash to distinguish long names.
const HASH_BYTES: usize = 8;

/// The stored and the referenced generations of a Program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    pub kept: BTreeSet<i64>,
    /// Those to which a Workspace refers.
    pub referred: BTreeSet<i64>,
}

impl Generations {
    /// The generations to delete. The one before the current one stays, because an Update that is
    /// about to start may use it.
    pub(super) fn to_delete(&self, current: i64) -> Vec<i64> {
        let older = self.kept.range(..current);
        let needed = |generation: &&i64| self.referred.contains(generation);
        let (_, mut rest): (Vec<i64>, Vec<i64>) = older.partition(needed);
        if self.kept.range(..current).next_back() == rest.last() {
            rest.pop();
        }
        rest
    }

    /// Whether a generation is kept only because a Workspace refers to it, so that a requeue is
    /// needed.
    pub(super) fn has_older_in_use(&self, current: i64) -> bool {
        let mut older = self.kept.range(..current);
        older.next_back();
        older.any(|generation| self.referred.contains(generation))
    }
}

/// The name of the ControllerRevision of a generation.
#[must_use]
pub fn revision_name(metadata: &ObjectMeta, generation: i64) -> String {
    let name = metadata.name.as_deref().unwrap_or_default();
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let uid = uid.get(..UID_CHARACTERS).unwrap_or(uid);
    let tail = format!("-{uid}-{generation}");
    format!("{}{tail}", shorten_name(name, MAX_NAME_LENGTH - tail.len()))
}

/// The label that each ControllerRevision of a Program has.
#[must_use]
pub fn program_label(metadata: &ObjectMeta) -> (&'static str, String) {
    let name = metadata.name.as_deref().unwrap_or_default();
    (labels::PROGRAM_NAME, shorten_name(name, MAX_LABEL_LENGTH))
}

/// The current generation, to be stored.
///
/// # Errors
/// See [`ArchiveError`].
pub(super) fn revision(program: &Program) -> Result<ControllerRevision, ArchiveError> {
    let metadata = &program.metadata;
    let generation = metadata.generation.unwrap_or_default();
    let (label, name) = program_label(metadata);
    let labels = [
        (label.to_owned(), name),
        (
            labels::STACK_COMPONENT_KEY.to_owned(),
            labels::PROGRAM_COMPONENT.to_owned(),
        ),
    ];
    Ok(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision_name(metadata, generation)),
            namespace: metadata.namespace.clone(),
            labels: Some(labels.into()),
            owner_references: Some(vec![owner(program)]),
            ..ObjectMeta::default()
        },
        // The file's text instead of its fields: exactly these bytes are served.
        data: Some(RawExtension(
            json!({ PROJECT_FILE: project_file(program)? }),
        )),
        revision: generation,
    })
}

fn owner(program: &Program) -> OwnerReference {
    OwnerReference {
        api_version: <Program as k8s_openapi::Resource>::API_VERSION.to_owned(),
        kind: <Program as k8s_openapi::Resource>::KIND.to_owned(),
        name: program.metadata.name.clone().unwrap_or_default(),
        uid: program.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The generation that a ControllerRevision stores; `None` if it belongs to another Program.
#[must_use]
pub fn generation_in(revision: &ControllerRevision, metadata: &ObjectMeta) -> Option<i64> {
    is_owned(&revision.metadata, metadata).then_some(revision.revision)
}

/// The generation that the ControllerRevision with this metadata keeps of this Program, by its
/// name.
#[must_use]
pub fn generation_named_in(revision: &ObjectMeta, metadata: &ObjectMeta) -> Option<i64> {
    let name = revision.name.as_deref()?;
    let (_, generation) = name.rsplit_once('-')?;
    let generation = generation.parse().ok()?;
    let is_its_name = revision_name(metadata, generation) == name;
    (is_its_name && is_owned(revision, metadata)).then_some(generation)
}

fn is_owned(revision: &ObjectMeta, metadata: &ObjectMeta) -> bool {
    let owners = revision.owner_references.iter().flatten();
    let mut uids = owners.map(|owner| Some(owner.uid.as_str()));
    metadata.uid.is_some() && uids.any(|uid| uid == metadata.uid.as_deref())
}

/// The project file in a ControllerRevision.
#[must_use]
pub fn document_in(revision: &ControllerRevision) -> Option<&str> {
    let data = revision.data.as_ref()?;
    data.0.get(PROJECT_FILE)?.as_str()
}

/// Cuts a long name, and appends a hash to keep it distinct.
fn shorten_name(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let hash = Sha256::digest(name.as_bytes());
    let hash = hex::encode(hash.get(..HASH_BYTES).unwrap_or_default());
    let end = name.floor_char_boundary(longest.saturating_sub(hash.len() + 1));
    let begin = name.get(..end).unwrap_or_default();
    format!("{}-{hash}", begin.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn program(name: &str) -> Program {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "shop", "generation": 3,
                "uid": "1f3a9c2e-aaaa-bbbb-cccc-000000000001",
            },
            "program": { "outputs": { "precise": 9_007_199_254_740_993_i64, "text": "9" } },
        }))
        .unwrap()
    }

    fn generations(kept: &[i64], referred: &[i64]) -> Generations {
        Generations {
            kept: kept.iter().copied().collect(),
            referred: referred.iter().copied().collect(),
        }
    }

    #[test]
    fn generation_is_deleted_when_unreferenced() {
        for (kept, referred, current, to_delete, waited_for) in [
            (vec![], vec![], 1, vec![], false),
            (vec![1], vec![1], 1, vec![], false),
            (vec![1, 2], vec![], 2, vec![], false),
            (vec![1, 2, 3], vec![], 3, vec![1], false),
            (vec![1, 2, 3], vec![1], 3, vec![], true),
            (vec![1, 2, 3], vec![2], 3, vec![1], false),
            (vec![1, 2, 3, 4], vec![1, 3], 4, vec![2], true),
            (vec![1, 2, 3, 4], vec![4], 4, vec![1, 2], false),
            // The previous generation was never stored.
            (vec![2, 5, 9], vec![], 9, vec![2], false),
            // A stale copy of the Program deletes no newer generation.
            (vec![1, 2, 3], vec![], 2, vec![], false),
        ] {
            let generations = generations(&kept, &referred);
            assert_eq!(generations.to_delete(current), to_delete, "{generations:?}");
            assert_eq!(
                generations.has_older_in_use(current),
                waited_for,
                "{generations:?}"
            );
        }
    }

    proptest! {
        /// Referenced generations, the current one, newer ones and the previous one are never
        /// deleted.
        #[test]
        fn referenced_generations_are_not_deleted(
            kept in prop::collection::btree_set(1_i64..12, 0..8),
            referred in prop::collection::btree_set(1_i64..12, 0..4), current in 1_i64..12,
        ) {
            let generations = Generations { kept: kept.clone(), referred: referred.clone() };
            let gone = generations.to_delete(current);
            for generation in &gone {
                prop_assert!(kept.contains(generation) && !referred.contains(generation));
                prop_assert!(*generation < current);
            }
            let previous = kept.range(..current).next_back();
            prop_assert!(previous.is_none_or(|previous| !gone.contains(previous)));
            // A second pass deletes nothing.
            let left = Generations { kept: &kept - &gone.into_iter().collect(), referred };
            prop_assert_eq!(left.to_delete(current), Vec::<i64>::new());
        }

        #[test]
        fn names_are_valid_for_the_api_server(name in "[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?") {
            let program = program(&name);
            let revision = revision_name(&program.metadata, i64::MAX);
            prop_assert!(revision.len() <= MAX_NAME_LENGTH, "{revision}");
            let stored = super::revision(&program).unwrap().metadata;
            prop_assert_eq!(generation_named_in(&stored, &program.metadata), Some(3));
            let (_, label) = program_label(&program.metadata);
            prop_assert!(label.len() <= MAX_LABEL_LENGTH, "{label}");
            prop_assert!(label.ends_with(|last: char| last.is_ascii_alphanumeric()), "{label}");
        }
    }

    #[test]
    fn stored_generation_is_owned_by_the_program() {
        let program = program("hello");
        let revision = revision(&program).unwrap();
        assert_eq!(revision.metadata.name.as_deref(), Some("hello-1f3a9c2e-3"));
        assert_eq!(revision.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(revision.revision, 3);
        let owner = &revision.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (
                owner.api_version.as_str(),
                owner.kind.as_str(),
                owner.controller
            ),
            ("pulumi.com/v1", "Program", Some(true))
        );
        let labels = revision.metadata.labels.as_ref().unwrap();
        let (label, name) = program_label(&program.metadata);
        assert_eq!(labels[label], name);
        assert_eq!(generation_in(&revision, &program.metadata), Some(3));
        let named = |metadata: &ObjectMeta| generation_named_in(&revision.metadata, metadata);
        assert_eq!(named(&program.metadata), Some(3));
        let mut other = program.metadata.clone();
        other.uid = Some("another".to_owned());
        assert_eq!(generation_in(&revision, &other), None);
        assert_eq!(named(&other), None);
        other.uid = None;
        assert_eq!(generation_in(&revision, &other), None);
    }

    #[test]
    fn stored_generation_is_served_unchanged() {
        let program = program("hello");
        let revision = revision(&program).unwrap();
        let stored: ControllerRevision =
            serde_json::from_str(&serde_json::to_string(&revision).unwrap()).unwrap();
        let document = document_in(&stored).unwrap();
        assert!(document.contains("9007199254740993"), "{document}");
        let again = super::super::archive_of(document).unwrap();
        assert_eq!(again, super::super::archive(&program).unwrap());
    }

    #[test]
    fn long_names_stay_distinct() {
        let (one, other) = (
            format!("{}a", "x".repeat(252)),
            format!("{}b", "x".repeat(252)),
        );
        let metadata = |name: &str| program(name).metadata;
        assert_ne!(
            revision_name(&metadata(&one), 1),
            revision_name(&metadata(&other), 1)
        );
        assert_ne!(
            program_label(&metadata(&one)),
            program_label(&metadata(&other))
        );
    }
}
