//! Several sources or credentials, of which only the first is used. Upstream's operator ignores the
//! others silently and its users have such Stacks, so this is only a remark.

use pko_api::{Stack, pulumi::v1::StackSpec};

use super::join_fields;

/// Reports unused sources: git comes first, then Flux, then a Program.
pub(super) fn several_sources(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let flux = spec.flux_source.as_ref().map(|_| "fluxSource");
    let program = spec.program_ref.as_ref().map(|_| "programRef");
    let used = [git_field(spec), flux, program].into_iter().flatten();
    let (first, others) = first_and_others(used)?;
    Some(format!(
        "{} not used, because {first} comes first: keep one source",
        with_verb(&others)
    ))
}

/// The field that makes git the source. An empty field does not.
fn git_field(spec: &StackSpec) -> Option<&'static str> {
    let text = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    let fields = [
        (text(&spec.project_repo), "projectRepo"),
        (text(&spec.branch), "branch"),
        (text(&spec.commit), "commit"),
        (text(&spec.repo_dir), "repoDir"),
        (spec.shallow.unwrap_or(false), "shallow"),
        (text(&spec.git_auth_secret), "gitAuthSecret"),
        (spec.git_auth.is_some(), "gitAuth"),
    ];
    let mut used = fields.into_iter().filter(|(used, _)| *used);
    used.next().map(|(_, field)| field)
}

/// Reports unused credentials of a repository.
pub(super) fn several_credentials(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let secret = spec.git_auth_secret.as_ref();
    let secret = secret.is_some_and(|name| !name.is_empty());
    let auth = spec.git_auth.as_ref();
    let variants = [
        (secret, "gitAuthSecret"),
        (
            auth.is_some_and(|auth| auth.ssh_auth.is_some()),
            "gitAuth.sshAuth",
        ),
        (
            auth.is_some_and(|auth| auth.access_token.is_some()),
            "gitAuth.accessToken",
        ),
        (
            auth.is_some_and(|auth| auth.github_app.is_some()),
            "gitAuth.githubApp",
        ),
        (
            auth.is_some_and(|auth| auth.basic_auth.is_some()),
            "gitAuth.basicAuth",
        ),
    ];
    let used = variants.into_iter().filter(|(used, _)| *used);
    let (first, others) = first_and_others(used.map(|(_, field)| field))?;
    Some(format!(
        "several credentials: only {first} is used, not {}; keep one",
        join_fields(&others)
    ))
}

/// The first of several fields, and the others.
fn first_and_others(fields: impl Iterator<Item = &'static str>) -> Option<(String, Vec<String>)> {
    let mut fields = fields.map(|field| format!("spec.{field}"));
    let first = fields.next()?;
    let others: Vec<String> = fields.collect();
    (!others.is_empty()).then_some((first, others))
}

fn with_verb(fields: &[String]) -> String {
    let verb = if fields.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", join_fields(fields))
}
