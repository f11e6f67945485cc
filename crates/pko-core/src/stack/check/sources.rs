//! Sources and credentials of which only one is used. Upstream's operator takes the first without a word, and its users
//! have such Stacks, so they go on.

use pko_api::{Stack, pulumi::v1::StackSpec};

use super::listed;

/// Several sources: git comes first, then Flux, then a Program.
pub(super) fn several(stack: &Stack) -> Option<String> {
    let spec = &stack.spec;
    let flux = spec.flux_source.as_ref().map(|_| "fluxSource");
    let program = spec.program_ref.as_ref().map(|_| "programRef");
    let used = [git(spec), flux, program].into_iter().flatten();
    let (first, others) = first_and_others(used)?;
    Some(format!(
        "{} not used, because {first} comes first: keep one source",
        are(&others)
    ))
}

/// The field that makes git the source; one that says nothing does not.
fn git(spec: &StackSpec) -> Option<&'static str> {
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

/// Several credentials for one repository, in the order in which they are tried.
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
        "the repository is looked at with {first} and not with {}: keep one",
        listed(&others)
    ))
}

/// The first of several fields, and the rest.
fn first_and_others(fields: impl Iterator<Item = &'static str>) -> Option<(String, Vec<String>)> {
    let mut fields = fields.map(|field| format!("spec.{field}"));
    let first = fields.next()?;
    let others: Vec<String> = fields.collect();
    (!others.is_empty()).then_some((first, others))
}

fn are(fields: &[String]) -> String {
    let verb = if fields.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(fields))
}
