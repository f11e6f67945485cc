//! Resources and variables that need each other, so that none of them can come first.

use std::collections::BTreeMap;

use super::finding::{Findings, Path};

/// Who refers to whom, in the order of declaration.
#[derive(Default)]
pub(super) struct Graph<'value> {
    nodes: BTreeMap<String, Node<'value>>,
}

struct Node<'value> {
    path: Path,
    references: Vec<&'value str>,
    visit: Visit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    UnderWay,
    Done,
}

impl<'value> Graph<'value> {
    /// Adds a resource or variable with what it refers to.
    pub(super) fn add(&mut self, name: &str, path: Path, references: Vec<(&'value str, Path)>) {
        let references = references.into_iter().map(|(name, _)| name).collect();
        let node = Node {
            path,
            references,
            visit: Visit::Not,
        };
        self.nodes.insert(name.to_owned(), node);
    }

    /// Reports each circle that is met, at the place where one gets into it.
    pub(super) fn find_cycles(mut self, findings: &mut Findings) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in &names {
            self.visit_from(name, findings);
        }
    }

    /// Depth first, on a list instead of the call stack: a chain may be as long as a program has names.
    fn visit_from(&mut self, start: &str, findings: &mut Findings) {
        let mut way = vec![(start.to_owned(), 0)];
        if self.enter(start) != Some(Visit::Not) {
            return;
        }
        while let Some((name, next)) = way.last_mut() {
            let reference = self.reference(name, *next);
            *next += 1;
            let Some(reference) = reference else {
                self.leave(name);
                way.pop();
                continue;
            };
            match self.enter(&reference) {
                Some(Visit::Not) => way.push((reference, 0)),
                Some(Visit::UnderWay) => self.report(&way, &reference, findings),
                Some(Visit::Done) | None => {}
            }
        }
    }

    fn reference(&self, name: &str, index: usize) -> Option<String> {
        let node = self.nodes.get(name)?;
        node.references.get(index).map(|name| (*name).to_owned())
    }

    /// How far a node is; one that nobody has been to is under way from now on.
    fn enter(&mut self, name: &str) -> Option<Visit> {
        let node = self.nodes.get_mut(name)?;
        let before = node.visit;
        if before == Visit::Not {
            node.visit = Visit::UnderWay;
        }
        Some(before)
    }

    fn leave(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.visit = Visit::Done;
        }
    }

    fn report(&self, way: &[(String, usize)], entry: &str, findings: &mut Findings) {
        let Some(node) = self.nodes.get(entry) else {
            return;
        };
        let circle = way.iter().map(|(name, _)| name.as_str());
        let circle: Vec<&str> = circle.skip_while(|name| *name != entry).collect();
        let text = format!(
            "needs itself: {} -> {entry}; take one of these references away",
            circle.join(" -> ")
        );
        findings.problem(&node.path, text);
    }
}
