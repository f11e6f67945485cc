//! The resources of a run, from its flags and the state.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::bail;
use pulumi_engine_deploy::plan::{Selection, listed, snapshot::Record};
use pulumi_engine_model::urn::Urn;

use super::operation::OperationKind;
use crate::args::OperationArgs;

pub(super) fn selection(
    kind: OperationKind,
    arguments: &OperationArgs,
    records: &[Arc<Record>],
) -> anyhow::Result<Selection> {
    let urns = |texts: &[String]| -> Vec<Urn> { texts.iter().map(Urn::new).collect() };
    let targets = [urns(&arguments.target), urns(&arguments.target_replace)].concat();
    let replace = [urns(&arguments.replace), urns(&arguments.target_replace)].concat();
    let known = |urn: &Urn| records.iter().any(|record| record.resource.urn == *urn);
    if matches!(kind, OperationKind::Refresh | OperationKind::Destroy)
        && let Some(unknown) = targets
            .iter()
            .chain(&replace)
            .find(|urn| !urn.as_str().contains('*') && !known(urn))
    {
        bail!("no resource named '{unknown}' found");
    }
    if arguments.exclude_protected && !targets.is_empty() {
        bail!("you cannot specify --target and --exclude-protected");
    }
    Ok(Selection {
        targets,
        dependents: arguments.target_dependents,
        replace,
        exclude: excluded(kind, arguments, records),
        keeps_gone: false,
    })
}

/// The excluded resources: those of the flags, and their dependents or dependencies.
fn excluded(kind: OperationKind, arguments: &OperationArgs, records: &[Arc<Record>]) -> Vec<Urn> {
    let named: Vec<Urn> = arguments.exclude.iter().map(Urn::new).collect();
    let resources = || records.iter().map(|record| &record.resource);
    let mut excluded: BTreeSet<Urn> = resources()
        .filter(|resource| {
            listed(&named, &resource.urn) || (arguments.exclude_protected && resource.protect)
        })
        .map(|resource| resource.urn.clone())
        .collect();
    if arguments.exclude_dependents {
        // states are ordered: dependents come later
        for resource in resources() {
            if resource
                .references()
                .any(|other| excluded.contains(&Urn::new(other)))
            {
                excluded.insert(resource.urn.clone());
            }
        }
    }
    if kind == OperationKind::Destroy {
        // kept resources need their dependencies
        for resource in resources().collect::<Vec<_>>().into_iter().rev() {
            if excluded.contains(&resource.urn) {
                excluded.extend(resource.references().map(Urn::new));
            }
        }
    }
    named.into_iter().chain(excluded).collect()
}

/// How many resources stay because they are protected, or dependencies of protected ones.
pub(super) fn left_over(selection: &Selection, records: &[Arc<Record>]) -> usize {
    let own = records.iter().map(|record| &record.resource);
    own.filter(|resource| listed(&selection.exclude, &resource.urn))
        .count()
}
