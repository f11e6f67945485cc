//! What `agent init` is told about the source of a process workspace; pure.

use k8s_openapi::api::core::v1::EnvVar;
use pko_api::auto::v1alpha1::WorkspaceSpec;
use pko_core::workspace::pod::git_credentials;

/// How a program is fetched.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fetch {
    /// What the source is
    pub(super) arguments: Vec<String>,
    /// The folder of the program in it
    pub(super) inside: String,
    /// Credentials and the like
    pub(super) variables: Vec<EnvVar>,
}

/// Where a program comes from.
#[derive(Debug, PartialEq)]
pub(super) enum Source {
    /// It has to be fetched.
    Elsewhere(Fetch),
    /// It is there already.
    Here(String),
}

/// The one source of a workspace; nothing if it has none.
pub(super) fn of(spec: &WorkspaceSpec) -> Option<Source> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let fetch = |flags: [(&str, String); 2]| Fetch {
        arguments: flags
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect(),
        ..Fetch::default()
    };
    if let Some(git) = &spec.git {
        return Some(Source::Elsewhere(Fetch {
            inside: text(&git.dir),
            variables: git_credentials(git),
            ..fetch([
                ("--git-url", text(&git.url)),
                ("--git-revision", text(&git.reference)),
            ])
        }));
    }
    if let Some(flux) = &spec.flux {
        return Some(Source::Elsewhere(Fetch {
            inside: text(&flux.dir),
            ..fetch([
                ("--flux-url", text(&flux.url)),
                ("--flux-digest", text(&flux.digest)),
            ])
        }));
    }
    if let Some(project) = &spec.project_info {
        let flags = [
            ("--project-name", project.name.clone()),
            ("--project-runtime", project.runtime.clone()),
        ];
        return Some(Source::Elsewhere(fetch(flags)));
    }
    spec.local
        .as_ref()
        .map(|local| Source::Here(text(&local.dir)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn source(spec: Value) -> Option<Source> {
        of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn git_with_its_credentials() {
        let Some(Source::Elsewhere(fetch)) = source(json!({"git": {
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
    fn the_others() {
        assert_eq!(source(json!({})), None);
        assert_eq!(
            source(json!({"local": {"dir": "/program"}})),
            Some(Source::Here("/program".to_owned()))
        );
        let arguments = |spec| match source(spec) {
            Some(Source::Elsewhere(fetch)) => fetch.arguments.join(" "),
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
