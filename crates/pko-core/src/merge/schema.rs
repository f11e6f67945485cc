//! [`MergeSchema`]: how the lists of a kind merge.

use super::schemas::POD_SPEC;

/// The fields of a kind with a special merge.
#[derive(Debug)]
pub struct MergeSchema(pub(super) &'static [MergeField]);

#[derive(Debug, Clone, Copy)]
pub(super) struct MergeField {
    pub(super) name: &'static str,
    /// The schema of the object or of the list's items; `None` if every list in it is replaced.
    pub(super) kind: Option<&'static MergeSchema>,
    pub(super) lists: Lists,
}

/// How two lists merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// The new list replaces the old one.
    Replaced,
    /// Plain values: the union of both lists.
    Union,
    /// Objects: those with the same value of this field merge.
    ByKey(&'static str),
}

impl MergeSchema {
    pub(super) fn field(&self, name: &str) -> MergeField {
        let found = self.0.iter().find(|field| field.name == name);
        found.copied().unwrap_or(MergeField::PLAIN)
    }
}

impl MergeField {
    /// A field without a special merge.
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

    pub(super) const fn union(name: &'static str) -> Self {
        Self {
            name,
            kind: None,
            lists: Lists::Union,
        }
    }
}

static OBJECT_META: MergeSchema = MergeSchema(&[
    MergeField::union("finalizers"),
    MergeField::list("ownerReferences", "uid", None),
]);

static WORKSPACE_STACK: MergeSchema = MergeSchema(&[MergeField::list("config", "key", None)]);

static WORKSPACE_SPEC: MergeSchema = MergeSchema(&[
    MergeField::list("env", "name", None),
    MergeField::object("podTemplate", &MergeSchema::POD_TEMPLATE),
    MergeField::list("stacks", "name", Some(&WORKSPACE_STACK)),
]);

impl MergeSchema {
    pub const POD_TEMPLATE: Self = Self(&[
        MergeField::object("metadata", &OBJECT_META),
        MergeField::object("spec", &POD_SPEC),
    ]);

    /// For `spec.workspaceTemplate` of a Stack.
    pub const WORKSPACE: Self = Self(&[
        MergeField::object("metadata", &OBJECT_META),
        MergeField::object("spec", &WORKSPACE_SPEC),
    ]);

    /// For `spec.updateTemplate` of a Stack.
    pub const UPDATE: Self = Self(&[MergeField::object("metadata", &OBJECT_META)]);
}
