//! Builds the auth layer from flags. Missing flags fail the start, not the first call.

use std::{io, path::PathBuf};

use clap::ValueEnum as _;
use pko_auth::token::{KeyError, PublicKey};

use super::{
    kube_client::{self, ClientError},
    kubernetes::{KubernetesAuthorizer, WorkspaceName},
    layer::{AuthLayer, Authorizer},
    manager::ManagerAuthorizer,
};
use crate::args::{AuthMode, Global, Serve};

/// The manager's public keys as PEM, used without `--manager-public-key`.
const KEYS_VARIABLE: &str = "PKO_MANAGER_PUBLIC_KEY";

#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthSettingsError {
    #[error("unsupported auth mode: {0}")]
    Unsupported(String),
    #[error("--auth-mode {mode} needs {flag}")]
    Missing {
        mode: &'static str,
        flag: &'static str,
    },
    #[error("failed to read --manager-public-key {path}")]
    KeyFile { path: PathBuf, source: io::Error },
    #[error("{origin} has no public key of a manager")]
    Key { origin: String, source: KeyError },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("failed to generate a cache key: the system provides no random numbers")]
    Random,
}

pub(crate) async fn auth_layer(
    global: &Global,
    arguments: &Serve,
) -> Result<AuthLayer, AuthSettingsError> {
    let keys = std::env::var(KEYS_VARIABLE).ok();
    let authorizer = match modes(&arguments.auth_mode)? {
        Modes::None => return Ok(AuthLayer::open()),
        Modes::Kube => Authorizer::Kubernetes(kubernetes(global, arguments).await?),
        Modes::Manager => Authorizer::Manager(manager(arguments, keys)?),
        Modes::Both => {
            let manager = manager(arguments, keys)?;
            Authorizer::Both(manager, kubernetes(global, arguments).await?)
        }
    };
    Ok(AuthLayer::new(authorizer))
}

/// The supported combinations of `--auth-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modes {
    None,
    Kube,
    Manager,
    Both,
}

fn modes(text: &str) -> Result<Modes, AuthSettingsError> {
    let unsupported = |text: &str| AuthSettingsError::Unsupported(text.to_owned());
    let named = text.split(',').map(|name| {
        let mode = AuthMode::from_str(name.trim(), true);
        mode.map_err(|_| unsupported(name))
    });
    let named = named.collect::<Result<Vec<_>, _>>()?;
    let has = |mode| named.contains(&mode);
    match (
        has(AuthMode::None),
        has(AuthMode::Kube),
        has(AuthMode::Manager),
    ) {
        (true, false, false) => Ok(Modes::None),
        (false, true, false) => Ok(Modes::Kube),
        (false, false, true) => Ok(Modes::Manager),
        (false, true, true) => Ok(Modes::Both),
        // `none` contradicts the others.
        _ => Err(unsupported(text)),
    }
}

async fn kubernetes(
    global: &Global,
    arguments: &Serve,
) -> Result<KubernetesAuthorizer, AuthSettingsError> {
    let audiences = audiences(arguments, "kube")?;
    let workspace = workspace_name(arguments)?;
    let client =
        kube_client::connect(global.kubeconfig.as_deref(), global.context.as_deref()).await?;
    KubernetesAuthorizer::new(client, audiences, workspace).map_err(|_| AuthSettingsError::Random)
}

fn manager(
    arguments: &Serve,
    variable: Option<String>,
) -> Result<ManagerAuthorizer, AuthSettingsError> {
    let keys = manager_keys(arguments, variable)?;
    let audiences = audiences(arguments, "manager")?;
    Ok(ManagerAuthorizer::new(keys, audiences))
}

fn manager_keys(
    arguments: &Serve,
    variable: Option<String>,
) -> Result<Vec<PublicKey>, AuthSettingsError> {
    let bad = |origin: String| move |source| AuthSettingsError::Key { origin, source };
    if arguments.manager_public_key.is_empty() {
        let text = variable.filter(|text| !text.trim().is_empty());
        let text = text.ok_or(AuthSettingsError::Missing {
            mode: "manager",
            flag: "--manager-public-key, or PKO_MANAGER_PUBLIC_KEY",
        })?;
        return PublicKey::all_from_pem(&text).map_err(bad(KEYS_VARIABLE.to_owned()));
    }
    let mut keys = Vec::new();
    for path in &arguments.manager_public_key {
        let text = std::fs::read_to_string(path).map_err(|source| AuthSettingsError::KeyFile {
            path: path.clone(),
            source,
        })?;
        let origin = format!("--manager-public-key {}", path.display());
        keys.extend(PublicKey::all_from_pem(&text).map_err(bad(origin))?);
    }
    Ok(keys)
}

fn audiences(arguments: &Serve, mode: &'static str) -> Result<Vec<String>, AuthSettingsError> {
    let audiences = arguments.kube_audience.iter().cloned();
    let audiences: Vec<String> = audiences.filter(|audience| !audience.is_empty()).collect();
    if audiences.is_empty() {
        let flag = "--kube-audience";
        return Err(AuthSettingsError::Missing { mode, flag });
    }
    Ok(audiences)
}

fn workspace_name(arguments: &Serve) -> Result<WorkspaceName, AuthSettingsError> {
    let required = |value: &Option<String>, flag| {
        let value = value.clone().filter(|value| !value.is_empty());
        value.ok_or(AuthSettingsError::Missing { mode: "kube", flag })
    };
    Ok(WorkspaceName {
        namespace: required(
            &arguments.kube_workspace_namespace,
            "--kube-workspace-namespace",
        )?,
        name: required(&arguments.kube_workspace_name, "--kube-workspace-name")?,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pko_auth::token::SigningKey;

    use super::*;
    use crate::args::{Arguments, Command};

    fn arguments(line: &str) -> Serve {
        let parsed = Arguments::parse_from(format!("agent serve -w /w {line}").split_whitespace());
        match parsed.command {
            Some(Command::Serve(serve)) => serve,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn unknown_or_incomplete_auth_mode_is_rejected() {
        let global = Arguments::parse_from(["agent"]).global;
        let audience = "--kube-audience a";
        let table = [
            (
                "--auth-mode basic".to_owned(),
                "unsupported auth mode: basic",
            ),
            ("--auth-mode kube,x".to_owned(), "unsupported auth mode: x"),
            ("--auth-mode kube,".to_owned(), "unsupported auth mode: "),
            (
                "--auth-mode none,kube".to_owned(),
                "unsupported auth mode: none,kube",
            ),
            (
                "--auth-mode kube".to_owned(),
                "--auth-mode kube needs --kube-audience",
            ),
            (
                format!("--auth-mode kube {audience} --kube-workspace-name n"),
                "--auth-mode kube needs --kube-workspace-namespace",
            ),
            (
                format!("--auth-mode kube {audience} --kube-workspace-namespace n"),
                "--auth-mode kube needs --kube-workspace-name",
            ),
            (
                format!("--auth-mode manager {audience}"),
                "--auth-mode manager needs --manager-public-key, or PKO_MANAGER_PUBLIC_KEY",
            ),
            (
                format!("--auth-mode kube,manager {audience}"),
                "--auth-mode manager needs --manager-public-key, or PKO_MANAGER_PUBLIC_KEY",
            ),
            (
                format!("--auth-mode manager {audience} --manager-public-key /nowhere"),
                "failed to read --manager-public-key /nowhere",
            ),
            (
                format!("--auth-mode manager {audience} --manager-public-key /dev/null"),
                "--manager-public-key /dev/null has no public key of a manager",
            ),
        ];
        for (line, expected) in table {
            let error = auth_layer(&global, &arguments(&line)).await.err().unwrap();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn auth_modes_can_be_combined() {
        let table = [
            ("none", Modes::None),
            ("kube", Modes::Kube),
            ("Manager", Modes::Manager),
            ("kube,manager", Modes::Both),
            ("manager, kube", Modes::Both),
            ("kube,kube", Modes::Kube),
        ];
        for (text, expected) in table {
            assert_eq!(modes(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn manager_keys_are_read_from_files_or_environment() {
        let folder = tempfile::tempdir().unwrap();
        let keys = [(); 3].map(|()| SigningKey::generate().unwrap().public_key());
        let texts = keys.each_ref().map(PublicKey::to_pem);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("--manager-public-key {} ", path.display())
        };
        let flags = file("one", &texts[0..2].concat()) + &file("two", &texts[2]);
        let read = |line: &str, variable: Option<&String>| {
            manager_keys(&arguments(line), variable.cloned()).unwrap()
        };
        assert_eq!(read(&flags, None), keys);
        assert_eq!(read("", Some(&texts[1])), keys[1..2]);
        // Files take precedence over the variable.
        assert_eq!(read(&file("one", &texts[0]), Some(&texts[1])), keys[0..1]);
        let audience = manager(&arguments(""), Some(texts[0].clone()))
            .err()
            .unwrap();
        assert_eq!(
            audience.to_string(),
            "--auth-mode manager needs --kube-audience"
        );
        let bad = manager_keys(&arguments(""), Some("x".to_owned())).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "PKO_MANAGER_PUBLIC_KEY has no public key of a manager"
        );
    }
}
