//! The command lines of the components, and the files that they read, all in the data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::{Authority, CertificateError, Identity, token_keys};
use crate::components::Component;

/// Everything is recorded once, when it is answered; a watch also when it begins. Probes are left
/// out.
const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*"]
- level: Metadata
"#;

/// The controllers that tests use. Each one costs start-up time and background requests.
const CONTROLLERS: [&str; 13] = [
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "endpointslice-controller",
    "disruption-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
];

/// `GOGC` of the components: garbage may reach this percentage of live memory before collection. A
/// tenth less of CPU time for some hundred megabytes.
const GARBAGE: &str = "400";

/// The files of a plane's data directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.0.join(format!("{}.log", component.name()))
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.0.join("audit.log")
    }

    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.kubeconfig"))
    }

    /// A home directory for command lines, so that they neither read nor write the user's.
    pub(crate) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes the files that the components read.
    pub(crate) fn write(&self, authority: &Authority) -> Result<(), LayoutError> {
        fs::create_dir_all(self.home())?;
        fs::write(self.0.join("ca.crt"), authority.pem())?;
        self.write_identity("etcd", &authority.server("etcd")?)?;
        self.write_identity("etcd-client", &authority.client("etcd-client", &[])?)?;
        self.write_identity("apiserver", &authority.server("kube-apiserver")?)?;
        let (public, private) = token_keys()?;
        fs::write(self.0.join("tokens.pub"), public)?;
        fs::write(self.0.join("tokens.key"), private)?;
        fs::write(self.0.join("audit-policy.yaml"), AUDIT_POLICY)?;
        Ok(())
    }

    pub(crate) fn write_identity(&self, name: &str, identity: &Identity) -> io::Result<()> {
        fs::write(self.0.join(format!("{name}.crt")), &identity.certificate)?;
        fs::write(self.0.join(format!("{name}.key")), &identity.key)
    }

    /// A single member; the peer port is never used, so the kernel may choose it.
    pub(crate) fn etcd(&self, program: &Path, port: u16) -> Command {
        let mut command = Command::new(program);
        command
            .arg(format!("--data-dir={}", self.file("etcd")))
            .arg(format!("--listen-client-urls=https://127.0.0.1:{port}"))
            .arg(format!("--advertise-client-urls=https://127.0.0.1:{port}"))
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            .arg(format!("--cert-file={}", self.file("etcd.crt")))
            .arg(format!("--key-file={}", self.file("etcd.key")))
            .arg(format!("--trusted-ca-file={}", self.file("ca.crt")))
            .arg("--client-cert-auth")
            // Nothing here has to survive a power failure
            .arg("--unsafe-no-fsync")
            .arg("--log-level=warn");
        command
    }

    pub(crate) fn apiserver(&self, program: &Path, port: u16, etcd_port: u16) -> Command {
        let mut command = Command::new(program);
        command
            .arg(format!("--etcd-servers=https://127.0.0.1:{etcd_port}"))
            .arg(format!("--etcd-cafile={}", self.file("ca.crt")))
            .arg(format!("--etcd-certfile={}", self.file("etcd-client.crt")))
            .arg(format!("--etcd-keyfile={}", self.file("etcd-client.key")))
            .arg("--bind-address=127.0.0.1")
            .arg("--advertise-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--tls-cert-file={}", self.file("apiserver.crt")))
            .arg(format!(
                "--tls-private-key-file={}",
                self.file("apiserver.key")
            ))
            .arg(format!("--client-ca-file={}", self.file("ca.crt")))
            .arg(format!(
                "--service-account-key-file={}",
                self.file("tokens.pub")
            ))
            .arg(format!(
                "--service-account-signing-key-file={}",
                self.file("tokens.key")
            ))
            .arg("--service-account-issuer=https://kubernetes.default.svc.cluster.local")
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            // Endpoints of a loopback address are invalid, and unused
            .arg("--endpoint-reconciler-type=none")
            .arg("--authorization-mode=Node,RBAC")
            .arg("--allow-privileged=true")
            .arg(format!(
                "--audit-policy-file={}",
                self.file("audit-policy.yaml")
            ))
            .arg(format!("--audit-log-path={}", self.audit_log().display()))
            // One file, never rotated, in megabytes
            .arg("--audit-log-maxsize=100000")
            .arg("--profiling=false")
            .env("GOGC", GARBAGE);
        command
    }

    pub(crate) fn controller_manager(&self, program: &Path, kubeconfig: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--root-ca-file={}", self.file("ca.crt")))
            .arg(format!(
                "--service-account-private-key-file={}",
                self.file("tokens.key")
            ))
            .arg("--use-service-account-credentials")
            .arg("--leader-elect=false")
            .arg(format!("--controllers={}", CONTROLLERS.join(",")))
            // The limits are there to spare a shared API server
            .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
            // No server: it is ready when its controllers act
            .arg("--secure-port=0")
            .env("GOGC", GARBAGE);
        command
    }
}

/// Why the files of a plane can't be written.
#[derive(thiserror::Error)]
pub enum LayoutError {
    #[error("failed to write the control plane's files")]
    File(#[from] io::Error),
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

crate::error_text::debug_is_text!(LayoutError);
