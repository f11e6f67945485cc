//! Finds reference cycles between resources and variables.

use std::collections::BTreeMap;

use super::{finding::beginning, path::Path, recorder::FindingRecorder};

/// The number of names that a message shows from each end of a cycle.
const WRITTEN_NAMES: usize = 4;

/// The references between declarations, by name.
#[derive(Default)]
pub(super) struct Graph<'value> {
    nodes: BTreeMap<&'value str, Node<'value>>,
}

struct Node<'value> {
    /// The field of the program that declares it.
    section: &'static str,
    references: Vec<&'value str>,
    visit: VisitState,
    /// Whether it is part of a reported cycle.
    is_reported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    Not,
    InProgress,
    Done,
}

/// A node on the current path, and the index of its next reference.
type Stop<'value> = (&'value str, usize);

impl<'value> Graph<'value> {
    /// Adds a resource or variable with its references.
    pub(super) fn add(
        &mut self,
        section: &'static str,
        name: &'value str,
        references: Vec<&'value str>,
    ) {
        let node = Node {
            section,
            references,
            visit: VisitState::Not,
            is_reported: false,
        };
        self.nodes.insert(name, node);
    }

    /// Reports each cycle at its entry, except cycles whose nodes are all in reported ones.
    pub(super) fn find_cycles(mut self, recorder: &mut FindingRecorder) {
        let names: Vec<&str> = self.nodes.keys().copied().collect();
        for name in names {
            self.visit_from(name, recorder);
        }
    }

    /// Depth first, without recursion: a chain may be as long as the program.
    fn visit_from(&mut self, start: &'value str, recorder: &mut FindingRecorder) {
        if recorder.is_full() || self.enter(start) != Some(VisitState::Not) {
            return;
        }
        let mut stops: Vec<Stop<'value>> = vec![(start, 0)];
        while let Some((name, next)) = stops.last_mut() {
            let reference = self.reference(name, *next);
            *next += 1;
            let Some(reference) = reference else {
                self.leave(name);
                stops.pop();
                continue;
            };
            match self.enter(reference) {
                Some(VisitState::Not) => stops.push((reference, 0)),
                Some(VisitState::InProgress) => self.report(&stops, reference, recorder),
                Some(VisitState::Done) | None => {}
            }
        }
    }

    fn reference(&self, name: &str, index: usize) -> Option<&'value str> {
        self.nodes.get(name)?.references.get(index).copied()
    }

    /// Returns the node's previous state, and marks a new node as in progress.
    fn enter(&mut self, name: &str) -> Option<VisitState> {
        let node = self.nodes.get_mut(name)?;
        let before = node.visit;
        if before == VisitState::Not {
            node.visit = VisitState::InProgress;
        }
        Some(before)
    }

    fn leave(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.visit = VisitState::Done;
        }
    }

    fn report(
        &mut self,
        stops: &[Stop<'value>],
        entry: &'value str,
        recorder: &mut FindingRecorder,
    ) {
        let Some(end) = stops.last().map(|(name, _)| *name) else {
            return;
        };
        if recorder.is_full() || (self.is_reported(entry) && self.is_reported(end)) {
            return;
        }
        let begin = stops.iter().rposition(|(name, _)| *name == entry);
        let cycle = stops.get(begin.unwrap_or_default()..).unwrap_or_default();
        for (name, _) in cycle {
            if let Some(node) = self.nodes.get_mut(name) {
                node.is_reported = true;
            }
        }
        if let Some(node) = self.nodes.get(entry) {
            let text = format!(
                "refers to itself: {}; remove one of these references",
                cycle_text(cycle, entry)
            );
            let root = Path::root();
            recorder.problem(&root.key(node.section).key(entry), text);
        }
    }

    fn is_reported(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.is_reported)
    }
}

/// A cycle from its entry back to its entry; the middle of a long cycle is cut out.
fn cycle_text(cycle: &[Stop<'_>], entry: &str) -> String {
    let name = |name: &str| {
        let (beginning, rest) = beginning(name);
        format!("{beginning}{rest}")
    };
    let names = |stops: &[Stop<'_>]| -> Vec<String> {
        let stops = stops.iter();
        stops.map(|(stop, _)| name(stop)).collect()
    };
    let mut parts = Vec::new();
    match cycle.len().checked_sub(2 * WRITTEN_NAMES) {
        None | Some(0 | 1) => parts.extend(names(cycle)),
        Some(left_out) => {
            let (begin, rest) = cycle.split_at(WRITTEN_NAMES);
            let (_, end) = rest.split_at(left_out);
            parts.extend(names(begin));
            parts.push(format!("… {left_out} more …"));
            parts.extend(names(end));
        }
    }
    parts.push(name(entry));
    parts.join(" -> ")
}
