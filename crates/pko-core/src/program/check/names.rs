//! The names that a program declares, and the check of references to them.

use std::collections::BTreeMap;

use pko_api::pulumi::v1::ProgramBody;

use super::{finding::quote, path::Path, recorder::FindingRecorder};

/// Pulumi's own name, as in `pulumi.stack`.
const PULUMI: &str = "pulumi";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclarationKind {
    Config,
    Resource,
    Variable,
}

impl DeclarationKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config value",
            Self::Resource => "resource",
            Self::Variable => "variable",
        }
    }
}

/// The declarations of a program.
pub(super) struct Names<'body> {
    /// The prefix of the project's own config keys.
    prefix: String,
    declared: BTreeMap<&'body str, DeclarationKind>,
}

impl<'body> Names<'body> {
    /// Collects the names. A duplicate is a problem.
    pub(super) fn of(
        project: &str,
        program: &'body ProgramBody,
        recorder: &mut FindingRecorder,
    ) -> Self {
        let mut names = Self {
            prefix: format!("{project}:"),
            declared: BTreeMap::new(),
        };
        let config = program.config.keys().map(|name| ("config", name));
        let parameters = program.configuration.keys();
        // A key may be in both; Pulumi decides which one is used.
        let parameters = parameters.filter(|name| !program.config.contains_key(*name));
        let parameters = parameters.map(|name| ("configuration", name));
        for (section, name) in config.chain(parameters) {
            names.declare(section, name, DeclarationKind::Config, recorder);
        }
        for name in program.resources.keys() {
            names.declare("resources", name, DeclarationKind::Resource, recorder);
        }
        for name in program.variables.keys() {
            names.declare("variables", name, DeclarationKind::Variable, recorder);
        }
        names
    }

    fn declare(
        &mut self,
        section: &str,
        name: &'body str,
        kind: DeclarationKind,
        recorder: &mut FindingRecorder,
    ) {
        let root = Path::root();
        let section = root.key(section);
        let path = section.key(name);
        if name == PULUMI {
            let text = "this name is reserved by Pulumi; use another";
            return recorder.problem(&path, text);
        }
        if let Some(other) = self.declared.get(name) {
            let text = format!("a {} has the same name; rename one", other.as_str());
            return recorder.problem(&path, text);
        }
        self.declared.insert(name, kind);
    }

    /// The kind of a declared name.
    pub(super) fn kind(&self, name: &str) -> Option<DeclarationKind> {
        let own = name.strip_prefix(&self.prefix);
        let found = self.declared.get(name);
        found.or_else(|| self.declared.get(own?)).copied()
    }

    /// The resource with the most similar name.
    pub(super) fn nearest_resource(
        &self,
        name: &str,
        recorder: &mut FindingRecorder,
    ) -> Option<&'body str> {
        let resources = self.declared.iter();
        let resources = resources.filter(|(_, kind)| **kind == DeclarationKind::Resource);
        recorder.nearest(name, resources.map(|(name, _)| *name))
    }

    /// Remarks on a reference to an undeclared name.
    pub(super) fn check_reference(
        &self,
        name: &str,
        path: &Path<'_>,
        recorder: &mut FindingRecorder,
    ) {
        if name == PULUMI || !recorder.has_room_for_remarks() || self.kind(name).is_some() {
            return;
        }
        let declared = self.declared.keys().copied().chain([PULUMI]);
        let text = format!(
            "{} is not declared in the program, so the stack's config must contain it{}",
            quote(name),
            recorder.did_you_mean(name, declared)
        );
        recorder.remark(path, text);
    }
}
