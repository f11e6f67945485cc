//! The names that a program declares, and whether what is referred to is among them.

use std::collections::BTreeMap;

use pko_api::pulumi::v1::ProgramBody;

use super::{
    expression::Walk,
    finding::{Findings, Path, did_you_mean},
};

/// Where Pulumi puts the stack's and the project's names.
const PULUMI: &str = "pulumi";

/// What a name is the name of.
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

/// What a program declares.
pub(super) struct Names<'body> {
    /// What stands before a config key that is the project's own.
    prefix: String,
    declared: BTreeMap<&'body str, DeclarationKind>,
}

impl<'body> Names<'body> {
    /// Gathers the names; one that is taken already is a problem.
    pub(super) fn of(project: &str, program: &'body ProgramBody, findings: &mut Findings) -> Self {
        let mut names = Self {
            prefix: format!("{project}:"),
            declared: BTreeMap::new(),
        };
        let config = program.config.keys().map(|name| ("config", name));
        let parameters = program.configuration.keys();
        // A key may be in both: one of them wins, and that is Pulumi's to say.
        let parameters = parameters.filter(|name| !program.config.contains_key(*name));
        let parameters = parameters.map(|name| ("configuration", name));
        for (section, name) in config.chain(parameters) {
            names.declare(section, name, DeclarationKind::Config, findings);
        }
        for name in program.resources.keys() {
            names.declare("resources", name, DeclarationKind::Resource, findings);
        }
        for name in program.variables.keys() {
            names.declare("variables", name, DeclarationKind::Variable, findings);
        }
        names
    }

    fn declare(
        &mut self,
        section: &str,
        name: &'body str,
        kind: DeclarationKind,
        findings: &mut Findings,
    ) {
        let path = Path::root().key(section).key(name);
        if name == PULUMI {
            let text = "this name is Pulumi's own, for pulumi.stack and the like: take another";
            return findings.problem(&path, text);
        }
        if let Some(other) = self.declared.get(name) {
            let text = format!(
                "there is a {} of this name, too: rename one of them",
                other.as_str()
            );
            return findings.problem(&path, text);
        }
        self.declared.insert(name, kind);
    }

    /// What a name is the name of; nothing for one that is not declared.
    pub(super) fn kind(&self, name: &str) -> Option<DeclarationKind> {
        let own = name.strip_prefix(&self.prefix);
        let found = self.declared.get(name);
        found.or_else(|| self.declared.get(own?)).copied()
    }

    /// The resource whose name is nearest.
    pub(super) fn nearest_resource(&self, name: &str) -> Option<&str> {
        let resources = self.declared.iter();
        let resources = resources.filter(|(_, kind)| **kind == DeclarationKind::Resource);
        super::finding::nearest(name, resources.map(|(name, _)| *name))
    }

    /// Remarks on references to what is not declared, and gives back all of them.
    pub(super) fn judge<'value>(&self, walk: Walk<'_, 'value>) -> Vec<(&'value str, Path)> {
        for (name, path) in &walk.references {
            if *name != PULUMI && self.kind(name).is_none() {
                let text = format!(
                    "{name:?} is declared nowhere in the program, so the stack's config has to have it{}",
                    did_you_mean(name, self.declared.keys().copied().chain([PULUMI]))
                );
                walk.findings.remark(path, text);
            }
        }
        walk.references
    }
}
