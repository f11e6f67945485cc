//! The arguments of `agent init` for the source of a process workspace.

use k8s_openapi::api::core::v1::EnvVar;
use pko_api::auto::v1alpha1::WorkspaceSpec;
use pko_core::{redaction::has_credentials, workspace::pod::git_credentials};

#[derive(Debug, Default, PartialEq)]
pub(super) struct FetchArguments {
    pub(super) arguments: Vec<String>,
    /// The folder of the program in the source.
    pub(super) inside: String,
    /// Such as credentials.
    pub(super) variables: Vec<EnvVar>,
}

#[derive(Debug, PartialEq)]
pub(super) enum WorkspaceSource {
    Fetched(FetchArguments),
    /// A folder of this machine.
    Local(String),
}

/// None if the spec has no source.
pub(super) fn of(spec: &WorkspaceSpec) -> Option<WorkspaceSource> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let fetch = |flags: [(&str, String); 2]| FetchArguments {
        arguments: flags
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect(),
        ..FetchArguments::default()
    };
    if let Some(git) = &spec.git {
        let (url, hidden) = address("GIT_URL", text(&git.url));
        return Some(WorkspaceSource::Fetched(FetchArguments {
            inside: text(&git.dir),
            variables: git_credentials(git).into_iter().chain(hidden).collect(),
            ..fetch([("--git-url", url), ("--git-revision", text(&git.reference))])
        }));
    }
    if let Some(flux) = &spec.flux {
        let (url, hidden) = address("FLUX_URL", text(&flux.url));
        return Some(WorkspaceSource::Fetched(FetchArguments {
            inside: text(&flux.dir),
            variables: hidden.into_iter().collect(),
            ..fetch([("--flux-url", url), ("--flux-digest", text(&flux.digest))])
        }));
    }
    if let Some(project) = &spec.project_info {
        let flags = [
            ("--project-name", project.name.clone()),
            ("--project-runtime", project.runtime.clone()),
        ];
        return Some(WorkspaceSource::Fetched(fetch(flags)));
    }
    spec.local
        .as_ref()
        .map(|local| WorkspaceSource::Local(text(&local.dir)))
}

/// The argument for an address. One with credentials goes into a variable, because others can read
/// a command line.
fn address(variable: &str, url: String) -> (String, Option<EnvVar>) {
    if !has_credentials(&url) {
        return (url, None);
    }
    let hidden = EnvVar {
        name: variable.to_owned(),
        value: Some(url),
        ..EnvVar::default()
    };
    (format!("env:{variable}"), Some(hidden))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn source(spec: Value) -> Option<WorkspaceSource> {
        of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn source_git_has_credentials() {
        let Some(WorkspaceSource::Fetched(fetch)) = source(json!({"git": {
            "url": "https://git.test/a", "ref": "main", "dir": "infra",
            "auth": {"token": {"name": "auth", "key": "accessToken"}},
        }})) else {
            panic!("it is fetched");
        };
        assert_eq!(
            fetch.arguments,
            ["--git-url", "https://git.test/a", "--git-revision", "main"]
        );
        assert_eq!(fetch.inside, "infra");
        assert_eq!(fetch.variables.len(), 1);
        assert_eq!(fetch.variables[0].name, "GIT_TOKEN");
    }

    #[test]
    fn source_credentials_are_not_in_arguments() {
        let url = "https://me:canary@git.test/a";
        let Some(WorkspaceSource::Fetched(fetch)) =
            source(json!({"git": {"url": url, "ref": "main"}}))
        else {
            panic!("it is fetched");
        };
        assert_eq!(
            fetch.arguments,
            ["--git-url", "env:GIT_URL", "--git-revision", "main"]
        );
        assert_eq!(fetch.variables[0].value.as_deref(), Some(url));
    }

    #[test]
    fn source_flux_project_and_local() {
        assert_eq!(source(json!({})), None);
        assert_eq!(
            source(json!({"local": {"dir": "/program"}})),
            Some(WorkspaceSource::Local("/program".to_owned()))
        );
        let arguments = |spec| match source(spec) {
            Some(WorkspaceSource::Fetched(fetch)) => fetch.arguments.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            arguments(json!({"flux": {"url": "u", "digest": "d"}})),
            "--flux-url u --flux-digest d"
        );
        assert_eq!(
            arguments(json!({"projectInfo": {"name": "n", "runtime": "r"}})),
            "--project-name n --project-runtime r"
        );
    }
}
