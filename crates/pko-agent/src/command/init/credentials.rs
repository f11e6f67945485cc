//! Settings of a git fetch from environment variables: credentials, known hosts and depth. Pure.

use pko_auth::Redacted;
use pko_source::git::{Credentials, GithubApp, Scheme, SshKey};

/// Contradicting variables.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CredentialsError {
    /// Upstream's text.
    #[error(
        "please specify one authentication option of `Personal Access Token`, `Username\\Password`, `SSH Private Key Path` or `SSH Private Key`"
    )]
    Several,
    #[error(
        "a GitHub App requires GIT_GITHUB_APP_ID, GIT_GITHUB_APP_INSTALLATION_ID and GIT_GITHUB_APP_PRIVATE_KEY: {0} is missing"
    )]
    IncompleteApp(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitSettings {
    pub(super) credentials: Credentials,
    /// Fetches the commit without its history.
    pub(super) shallow: bool,
    pub(super) submodules: bool,
    /// Keys of SSH servers, in addition to those in files.
    pub(super) known_hosts: Option<String>,
    /// The API for a GitHub App's token; `None` for github.com.
    pub(super) github_api_url: Option<String>,
}

impl GitSettings {
    /// Empty variables count as unset.
    pub(super) fn from_environment(
        scheme: Scheme,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CredentialsError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        Ok(Self {
            credentials: credentials(scheme, &set)?,
            shallow: set("GIT_SHALLOW").as_deref() == Some("true"),
            submodules: set("GIT_SUBMODULES").as_deref() == Some("true"),
            known_hosts: set("GIT_KNOWN_HOSTS"),
            github_api_url: set("GIT_GITHUB_API_URL"),
        })
    }
}

/// Upstream's rules: a GitHub App replaces a token, and only one method may be set. With both a
/// token and a key the URL decides. Upstream always takes the token, which no SSH server accepts.
fn credentials(
    scheme: Scheme,
    set: &dyn Fn(&str) -> Option<String>,
) -> Result<Credentials, CredentialsError> {
    let secret = |name: &str| set(name).map(Redacted::new);
    let token = match app(set)? {
        Some(app) => Some(Credentials::GithubApp(app)),
        None => secret("GIT_TOKEN").map(Credentials::Token),
    };
    let (username, password) = (set("GIT_USERNAME"), secret("GIT_PASSWORD"));
    let key = secret("GIT_SSH_PRIVATE_KEY");
    if username.is_some() && (token.is_some() || key.is_some()) {
        return Err(CredentialsError::Several);
    }
    let key = key.map(|private_key| {
        Credentials::Ssh(SshKey {
            private_key,
            passphrase: password.clone(),
        })
    });
    let login = username.zip(password);
    let login = login.map(|(username, password)| Credentials::Basic { username, password });
    let chosen = if scheme == Scheme::Ssh {
        key.or(token)
    } else {
        token.or(key)
    };
    Ok(chosen.or(login).unwrap_or_default())
}

fn app(set: &dyn Fn(&str) -> Option<String>) -> Result<Option<GithubApp>, CredentialsError> {
    let Some(app_id) = set("GIT_GITHUB_APP_ID") else {
        return Ok(None);
    };
    let rest = |name| set(name).ok_or(CredentialsError::IncompleteApp(name));
    Ok(Some(GithubApp {
        app_id,
        installation_id: rest("GIT_GITHUB_APP_INSTALLATION_ID")?,
        private_key: Redacted::new(rest("GIT_GITHUB_APP_PRIVATE_KEY")?),
    }))
}

#[cfg(test)]
mod tests {
    use pko_source::git::Address;

    use super::*;

    const HTTP: &str = "https://git.test/x.git";
    const SSH: &str = "git@git.test:x.git";

    fn settings(url: &str, variables: &[(&str, &str)]) -> Result<GitSettings, CredentialsError> {
        let scheme = Address::parse(url).unwrap().scheme();
        GitSettings::from_environment(scheme, |name| {
            let variable = variables.iter().find(|(other, _)| *other == name);
            variable.map(|(_, value)| (*value).to_owned())
        })
    }

    fn credentials_of(
        url: &str,
        variables: &[(&str, &str)],
    ) -> Result<Credentials, CredentialsError> {
        settings(url, variables).map(|settings| settings.credentials)
    }

    fn secret(text: &str) -> Redacted {
        Redacted::new(text.to_owned())
    }

    fn ssh(passphrase: Option<&str>) -> Credentials {
        Credentials::Ssh(SshKey {
            private_key: secret("key"),
            passphrase: passphrase.map(secret),
        })
    }

    #[test]
    fn git_credentials_follow_environment() {
        let token = || Credentials::Token(secret("t"));
        let basic = Credentials::Basic {
            username: "me".to_owned(),
            password: secret("p"),
        };
        let key = ("GIT_SSH_PRIVATE_KEY", "key");
        let (user, password) = (("GIT_USERNAME", "me"), ("GIT_PASSWORD", "p"));
        let a_token = ("GIT_TOKEN", "t");
        let table = [
            (HTTP, vec![], Credentials::Anonymous),
            (HTTP, vec![a_token], token()),
            (HTTP, vec![a_token, password], token()),
            (HTTP, vec![user, password], basic),
            (HTTP, vec![user], Credentials::Anonymous),
            (HTTP, vec![password], Credentials::Anonymous),
            (SSH, vec![key], ssh(None)),
            (SSH, vec![key, password], ssh(Some("p"))),
            (SSH, vec![key, a_token], ssh(None)),
            ("ssh://git@git.test/x", vec![key, a_token], ssh(None)),
            (HTTP, vec![key, a_token], token()),
            (HTTP, vec![key], ssh(None)),
            (SSH, vec![a_token], token()),
            (
                HTTP,
                vec![
                    ("GIT_TOKEN", ""),
                    user,
                    password,
                    ("GIT_SSH_PRIVATE_KEY", ""),
                ],
                {
                    Credentials::Basic {
                        username: "me".to_owned(),
                        password: secret("p"),
                    }
                },
            ),
        ];
        for (url, variables, expected) in table {
            let found = credentials_of(url, &variables);
            assert_eq!(found, Ok(expected), "{url} {variables:?}");
        }
    }

    #[test]
    fn git_credentials_reject_several_methods() {
        let user = ("GIT_USERNAME", "me");
        let app = [
            ("GIT_GITHUB_APP_ID", "1"),
            ("GIT_GITHUB_APP_INSTALLATION_ID", "2"),
            ("GIT_GITHUB_APP_PRIVATE_KEY", "key"),
        ];
        let several = [
            vec![user, ("GIT_TOKEN", "t")],
            vec![user, ("GIT_SSH_PRIVATE_KEY", "k")],
            vec![user, app[0], app[1], app[2]],
        ];
        for variables in several {
            let error = credentials_of(HTTP, &variables).unwrap_err();
            assert_eq!(
                error.to_string(),
                "please specify one authentication option of `Personal Access Token`, `Username\\Password`, `SSH Private Key Path` or `SSH Private Key`"
            );
        }
        // The app replaces the token.
        let found = credentials_of(HTTP, &[app[0], app[1], app[2], ("GIT_TOKEN", "t")]);
        assert!(matches!(found, Ok(Credentials::GithubApp(app)) if app.installation_id == "2"));
        let half = credentials_of(HTTP, &app[..2]);
        assert_eq!(
            half,
            Err(CredentialsError::IncompleteApp(
                "GIT_GITHUB_APP_PRIVATE_KEY"
            ))
        );
        assert_eq!(credentials_of(HTTP, &app[1..]), Ok(Credentials::Anonymous));
    }

    #[test]
    fn git_settings_follow_environment() {
        let found = settings(
            HTTP,
            &[
                ("GIT_SHALLOW", "true"),
                ("GIT_SUBMODULES", "true"),
                ("GIT_KNOWN_HOSTS", "git.test ssh-ed25519 AAAA"),
                ("GIT_GITHUB_API_URL", "https://github.test/api/v3"),
            ],
        )
        .unwrap();
        assert!(found.shallow && found.submodules);
        assert!(found.known_hosts.is_some() && found.github_api_url.is_some());
        let found = settings(HTTP, &[("GIT_SHALLOW", "True"), ("GIT_SUBMODULES", "1")]).unwrap();
        assert!(!found.shallow && !found.submodules);
    }

    #[test]
    fn git_settings_debug_hides_secrets() {
        let variables = [
            ("GIT_PASSWORD", "canary"),
            ("GIT_SSH_PRIVATE_KEY", "canary"),
        ];
        let app = [
            ("GIT_GITHUB_APP_ID", "1"),
            ("GIT_GITHUB_APP_INSTALLATION_ID", "2"),
            ("GIT_GITHUB_APP_PRIVATE_KEY", "canary"),
        ];
        for text in [
            format!("{:?}", settings(SSH, &variables)),
            format!("{:?}", settings(SSH, &app)),
            format!("{:?}", settings(HTTP, &[("GIT_TOKEN", "canary")])),
        ] {
            assert!(
                text.contains("[redacted]") && !text.contains("canary"),
                "{text}"
            );
        }
    }
}
