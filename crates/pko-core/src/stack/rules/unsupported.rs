//! Fields that this version can't carry out: named, never ignored.

use pko_api::pulumi::v1::StackSpec;

use crate::stack::{Case, Step};

/// Refuses a Stack that asks for what this version does not do, by the field's name.
pub(in crate::stack) fn refuse(case: &Case) -> Option<Step> {
    let field = unsupported_field(&case.world.stack.spec)?;
    let message = format!(
        "spec.{field} is not supported by this version of the operator: remove it or use another version"
    );
    Some(case.refused(message))
}

fn unsupported_field(spec: &StackSpec) -> Option<&'static str> {
    let text = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    [
        (text(&spec.project_repo), "projectRepo"),
        (text(&spec.branch), "branch"),
        (text(&spec.commit), "commit"),
        (text(&spec.repo_dir), "repoDir"),
        (spec.shallow == Some(true), "shallow"),
        (text(&spec.git_auth_secret), "gitAuthSecret"),
        (spec.git_auth.is_some(), "gitAuth"),
        (spec.flux_source.is_some(), "fluxSource"),
    ]
    .into_iter()
    .find_map(|(used, field)| used.then_some(field))
}
