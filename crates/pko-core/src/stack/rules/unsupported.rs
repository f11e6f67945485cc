//! Fields that this version can't carry out: named, never ignored.

use pko_api::{names::reasons::StackReason, pulumi::v1::StackSpec};

use crate::{
    condition_set::Summary,
    stack::{Case, Step},
};

/// Refuses a Stack that asks for what this version does not do, by the field's name.
pub(in crate::stack) fn refuse(case: &Case) -> Option<Step> {
    let field = unsupported_field(&case.world.stack.spec)?;
    let message = format!(
        "spec.{field} is not supported by this version of the operator: remove it or use another version"
    );
    Some(case.settled(&Summary::Stalled(StackReason::SpecInvalid, message)))
}

fn unsupported_field(spec: &StackSpec) -> Option<&'static str> {
    let git = [
        &spec.project_repo,
        &spec.branch,
        &spec.commit,
        &spec.repo_dir,
        &spec.git_auth_secret,
    ];
    [
        (
            git.iter()
                .any(|field| field.as_ref().is_some_and(|text| !text.is_empty())),
            "projectRepo",
        ),
        (spec.git_auth.is_some(), "gitAuth"),
        (spec.flux_source.is_some(), "fluxSource"),
        (!spec.prerequisites.is_empty(), "prerequisites"),
        (spec.workspace_template.is_some(), "workspaceTemplate"),
        (spec.update_template.is_some(), "updateTemplate"),
    ]
    .into_iter()
    .find_map(|(used, field)| used.then_some(field))
}
