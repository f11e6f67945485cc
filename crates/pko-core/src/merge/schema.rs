//! What must be known of a kind to merge it: how its lists merge.

use super::schemas::POD_SPEC;

/// The fields of a kind that are not simply merged or replaced.
#[derive(Debug)]
pub struct MergeSchema(pub(super) &'static [MergeField]);

/// How a field merges.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeField {
    pub(super) name: &'static str,
    /// Of the object, or of the items of the list; nothing if every list in it is replaced.
    pub(super) kind: Option<&'static MergeSchema>,
    pub(super) lists: Lists,
}

/// How two lists become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// The new one takes the old one's place.
    Replaced,
    /// Plain values: those of both, each once.
    United,
    /// Objects: those with the same value of this field are merged.
    ByKey(&'static str),
}

impl MergeSchema {
    pub(super) fn field(&self, name: &str) -> MergeField {
        let found = self.0.iter().find(|field| field.name == name);
        found.copied().unwrap_or(MergeField::PLAIN)
    }
}

impl MergeField {
    /// One of which nothing is known.
    pub(super) const PLAIN: Self = Self {
        name: "",
        kind: None,
        lists: Lists::Replaced,
    };

    pub(super) const fn object(name: &'static str, kind: &'static MergeSchema) -> Self {
        Self {
            name,
            kind: Some(kind),
            lists: Lists::Replaced,
        }
    }

    pub(super) const fn list(
        name: &'static str,
        key: &'static str,
        kind: Option<&'static MergeSchema>,
    ) -> Self {
        Self {
            name,
            kind,
            lists: Lists::ByKey(key),
        }
    }

    pub(super) const fn united(name: &'static str) -> Self {
        Self {
            name,
            kind: None,
            lists: Lists::United,
        }
    }
}

static OBJECT_META: MergeSchema = MergeSchema(&[
    MergeField::united("finalizers"),
    MergeField::list("ownerReferences", "uid", None),
]);

static WORKSPACE_STACK: MergeSchema = MergeSchema(&[MergeField::list("config", "key", None)]);

static WORKSPACE_SPEC: MergeSchema = MergeSchema(&[
    MergeField::list("env", "name", None),
    MergeField::object("podTemplate", &MergeSchema::POD_TEMPLATE),
    MergeField::list("stacks", "name", Some(&WORKSPACE_STACK)),
]);

impl MergeSchema {
    /// A pod template.
    pub const POD_TEMPLATE: Self = Self(&[
        MergeField::object("metadata", &OBJECT_META),
        MergeField::object("spec", &POD_SPEC),
    ]);

    /// A Workspace, for the template in a Stack.
    pub const WORKSPACE: Self = Self(&[
        MergeField::object("metadata", &OBJECT_META),
        MergeField::object("spec", &WORKSPACE_SPEC),
    ]);

    /// An Update, for the template in a Stack.
    pub const UPDATE: Self = Self(&[MergeField::object("metadata", &OBJECT_META)]);
}
