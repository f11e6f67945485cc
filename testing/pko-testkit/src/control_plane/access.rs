//! Access to a control plane: clients, kubeconfigs, kubectl. Each user has its own certificate, so
//! the audit log distinguishes them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::ByteString;
use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::json;

use super::certificates::{Authority, CertificateError, Identity};
use super::start::CONTROLLERS;
use super::{ControlPlane, flags::Layout};
use crate::components::{Component, ComponentsError};

/// The name under which [`ControlPlane::client`] appears in the audit log.
pub const ADMIN: &str = "testkit-admin";
/// The group that may do everything, regardless of RBAC.
pub(crate) const MASTERS: &str = "system:masters";

static KUBECONFIGS: AtomicUsize = AtomicUsize::new(0);

impl ControlPlane {
    /// A client that may do everything, as the user [`ADMIN`].
    ///
    /// A client belongs to the runtime in which it is made: make one per test, don't keep it.
    pub fn client(&self) -> Result<Client, AccessError> {
        self.client_as(ADMIN, &[MASTERS])
    }

    /// A client as any user, in at most two groups, limited by RBAC.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, AccessError> {
        Ok(Client::try_from(self.config_as(user, groups)?)?)
    }

    /// The configuration of [`ControlPlane::client_as`].
    pub fn config_as(&self, user: &str, groups: &[&str]) -> Result<Config, AccessError> {
        config(
            &self.url(),
            &self.authority,
            &self.authority.client(user, groups)?,
        )
    }

    /// The path of a kubeconfig that may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig(ADMIN)
    }

    /// Writes a kubeconfig for any user, in at most two groups. Returns its path.
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> Result<PathBuf, AccessError> {
        self.kubeconfig_at(&self.url(), user, groups)
    }

    /// The same for a server that stands before the API server.
    pub(crate) fn kubeconfig_at(
        &self,
        url: &str,
        user: &str,
        groups: &[&str],
    ) -> Result<PathBuf, AccessError> {
        let number = KUBECONFIGS.fetch_add(1, Ordering::Relaxed);
        let path = self.layout.kubeconfig(&format!("user-{number}"));
        let identity = self.authority.client(user, groups)?;
        write_kubeconfig(&path, url, &self.authority, &identity)?;
        Ok(path)
    }

    /// A kubectl that may do everything here, and neither reads nor writes the user's files.
    ///
    /// A further `--kubeconfig` overrides it. Builds kubectl if needed.
    pub fn kubectl(&self) -> Result<Command, AccessError> {
        let mut command = Command::new(self.components.path(Component::Kubectl)?);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .env("HOME", self.layout.home())
            .env_remove("KUBECONFIG")
            .env_remove("KUBERC")
            .env_remove("KUBECACHEDIR");
        Ok(command)
    }
}

pub(crate) fn config(
    url: &str,
    authority: &Authority,
    identity: &Identity,
) -> Result<Config, AccessError> {
    let mut config = Config::new(url.parse()?);
    config.root_cert = Some(vec![authority.der()]);
    config.auth_info = AuthInfo {
        client_certificate_data: Some(base64(&identity.certificate)?),
        client_key_data: Some(base64(&identity.key)?.into()),
        ..AuthInfo::default()
    };
    Ok(config)
}

/// Writes the kubeconfig of one user.
pub(crate) fn write_kubeconfig(
    path: &Path,
    url: &str,
    authority: &Authority,
    identity: &Identity,
) -> Result<(), AccessError> {
    let data = |text: &str| ByteString(text.into());
    let name = "pko-testkit";
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": {
            "server": url,
            "certificate-authority-data": data(&authority.pem()),
        }}],
        "users": [{ "name": name, "user": {
            "client-certificate-data": data(&identity.certificate),
            "client-key-data": data(&identity.key),
        }}],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "current-context": name,
    });
    // JSON is YAML too, and every reader of kubeconfigs takes it
    Ok(std::fs::write(path, format!("{kubeconfig:#}"))?)
}

/// Writes the kubeconfigs that every plane has.
pub(crate) fn write_kubeconfigs(
    layout: &Layout,
    url: &str,
    authority: &Authority,
) -> Result<(), AccessError> {
    for (name, groups) in [(ADMIN, &[MASTERS][..]), (CONTROLLERS, &[])] {
        let identity = authority.client(name, groups)?;
        write_kubeconfig(&layout.kubeconfig(name), url, authority, &identity)?;
    }
    Ok(())
}

/// Kubernetes' own byte type is the only base64 that is needed here.
fn base64(text: &str) -> Result<String, AccessError> {
    Ok(serde_json::from_value(serde_json::to_value(ByteString(
        text.into(),
    ))?)?)
}

/// Why there is no way in.
#[derive(thiserror::Error)]
pub enum AccessError {
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The client refuses its configuration.
    #[error("failed to make a client")]
    Client(#[from] kube::Error),
    #[error("failed to read the URL of a component")]
    Url(#[from] http::uri::InvalidUri),
    /// A file can't be written.
    #[error("failed to write a kubeconfig")]
    File(#[from] io::Error),
    /// A value can't be encoded.
    #[error("failed to encode a certificate")]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Components(#[from] ComponentsError),
}

crate::error_text::debug_is_text!(AccessError);
