//! Pending creates of an earlier run, which a refresh may clear or import.

use anyhow::bail;
use pulumi_engine_deploy::{
    deployment::ledger::StateSink as _,
    plan::snapshot::{Pending, Record, StateToSave},
};

use super::session::StackSession;
use crate::args::OperationArgs;

/// Clears pending creates or imports their resources, depending on the flags.
pub(super) fn resolve_pending_creates(
    session: &mut StackSession<'_>,
    arguments: &OperationArgs,
    preview: bool,
) -> anyhow::Result<()> {
    if arguments.skip_pending_creates && arguments.clear_pending_creates {
        bail!("cannot set both --skip-pending-creates and --clear-pending-creates");
    }
    let imports = pairs(&arguments.import_pending_creates)?;
    let is_create = |pending: &Pending| pending.kind == "creating";
    let (creates, others): (Vec<_>, Vec<_>) = session.pending.drain(..).partition(is_create);
    let before = creates.len();
    session.pending = others;
    let mut used = Vec::new();
    for pending in creates {
        let urn = &pending.record.resource.urn;
        if let Some((_, id)) = imports.iter().find(|(wanted, _)| *wanted == urn.as_str()) {
            let mut resource = pending.record.resource.clone();
            (*id).clone_into(&mut resource.id);
            used.push(urn.clone());
            session.resources.push(Record::new(resource));
        } else if !arguments.clear_pending_creates {
            session.pending.push(pending);
        }
    }
    let unused: Vec<_> = imports
        .iter()
        .filter(|(urn, _)| used.iter().all(|used| used.as_str() != *urn))
        .map(|(urn, _)| *urn)
        .collect();
    if !unused.is_empty() {
        bail!(
            "--import-pending-creates names what is not being created: {}",
            unused.join(", ")
        );
    }
    let left = session.pending.iter().filter(|pending| is_create(pending));
    if left.count() < before && !preview {
        let state = StateToSave {
            records: session.resources.clone(),
            pending: session.pending.clone(),
        };
        session.save(&state, true)?;
    }
    Ok(())
}

/// `URN ID` pairs, one after the other.
fn pairs(words: &[String]) -> anyhow::Result<Vec<(&str, &str)>> {
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        bail!("each URN must be followed by an ID: found an odd number of entries");
    }
    Ok(pairs
        .iter()
        .map(|[urn, id]| (urn.as_str(), id.as_str()))
        .collect())
}
