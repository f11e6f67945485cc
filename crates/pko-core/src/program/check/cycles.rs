//! Resources and variables that need each other, so that none of them can come first.

use std::collections::BTreeMap;

use super::{finding::beginning, path::Path, recorder::FindingRecorder};

/// How many names of a circle are written out from its beginning and from its end.
const WRITTEN_NAMES: usize = 4;

/// Who refers to whom, by name.
#[derive(Default)]
pub(super) struct Graph<'value> {
    nodes: BTreeMap<&'value str, Node<'value>>,
}

struct Node<'value> {
    /// The field of the program that declares it.
    section: &'static str,
    references: Vec<&'value str>,
    visit: Visit,
    /// Whether it is part of a circle that was reported.
    is_reported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    UnderWay,
    Done,
}

/// A node on the way, and which of its references comes next.
type Stop<'value> = (&'value str, usize);

impl<'value> Graph<'value> {
    /// Adds a resource or variable with what it refers to.
    pub(super) fn add(
        &mut self,
        section: &'static str,
        name: &'value str,
        references: Vec<&'value str>,
    ) {
        let node = Node {
            section,
            references,
            visit: Visit::Not,
            is_reported: false,
        };
        self.nodes.insert(name, node);
    }

    /// Reports circles, each at the place where one gets into it; one whose every part is known from others is left out.
    pub(super) fn find_cycles(mut self, recorder: &mut FindingRecorder) {
        let names: Vec<&str> = self.nodes.keys().copied().collect();
        for name in names {
            self.visit_from(name, recorder);
        }
    }

    /// Depth first, on a list instead of the call stack: a chain may be as long as a program has names.
    fn visit_from(&mut self, start: &'value str, recorder: &mut FindingRecorder) {
        if recorder.is_full() || self.enter(start) != Some(Visit::Not) {
            return;
        }
        let mut way: Vec<Stop<'value>> = vec![(start, 0)];
        while let Some((name, next)) = way.last_mut() {
            let reference = self.reference(name, *next);
            *next += 1;
            let Some(reference) = reference else {
                self.leave(name);
                way.pop();
                continue;
            };
            match self.enter(reference) {
                Some(Visit::Not) => way.push((reference, 0)),
                Some(Visit::UnderWay) => self.report(&way, reference, recorder),
                Some(Visit::Done) | None => {}
            }
        }
    }

    fn reference(&self, name: &str, index: usize) -> Option<&'value str> {
        self.nodes.get(name)?.references.get(index).copied()
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

    fn report(&mut self, way: &[Stop<'value>], entry: &'value str, recorder: &mut FindingRecorder) {
        let Some(end) = way.last().map(|(name, _)| *name) else {
            return;
        };
        if recorder.is_full() || (self.is_reported(entry) && self.is_reported(end)) {
            return;
        }
        let begin = way.iter().rposition(|(name, _)| *name == entry);
        let circle = way.get(begin.unwrap_or_default()..).unwrap_or_default();
        for (name, _) in circle {
            if let Some(node) = self.nodes.get_mut(name) {
                node.is_reported = true;
            }
        }
        if let Some(node) = self.nodes.get(entry) {
            let text = format!(
                "needs itself: {}; take one of these references away",
                written(circle, entry)
            );
            let root = Path::root();
            recorder.problem(&root.key(node.section).key(entry), text);
        }
    }

    fn is_reported(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.is_reported)
    }
}

/// A circle from its entry to its entry; of a long one the beginning and the end.
fn written(circle: &[Stop<'_>], entry: &str) -> String {
    let name = |name: &str| {
        let (beginning, rest) = beginning(name);
        format!("{beginning}{rest}")
    };
    let names = |stops: &[Stop<'_>]| -> Vec<String> {
        let stops = stops.iter();
        stops.map(|(stop, _)| name(stop)).collect()
    };
    let mut parts = Vec::new();
    match circle.len().checked_sub(2 * WRITTEN_NAMES) {
        None | Some(0 | 1) => parts.extend(names(circle)),
        Some(left_out) => {
            let (begin, rest) = circle.split_at(WRITTEN_NAMES);
            let (_, end) = rest.split_at(left_out);
            parts.extend(names(begin));
            parts.push(format!("… {left_out} more …"));
            parts.extend(names(end));
        }
    }
    parts.push(name(entry));
    parts.join(" -> ")
}
