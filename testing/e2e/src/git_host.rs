//! A git server over SSH: OpenSSH's own on this machine, at an address that pods reach. The
//! operator rejects plain HTTP by default.

use pko_testkit::git_server::{
    TestFile, TestRepository,
    sshd::{KeyPair, Sshd},
};
use serde_json::{Value, json};

use crate::operator_cluster::OperatorCluster;

const REPOSITORY: &str = "infra.git";

/// A server with one repository and one user.
pub(crate) struct GitHost {
    sshd: Sshd,
    key: KeyPair,
    address: String,
}

impl GitHost {
    /// Serves a program; the user's key is encrypted if there is a passphrase.
    pub(crate) fn start(
        operator: &OperatorCluster,
        program: &[TestFile],
        passphrase: &str,
    ) -> Self {
        let host = operator.cluster.host_address();
        let kinds: [&[&str]; 1] = [&["-t", "ed25519"]];
        let sshd = Sshd::start_at(host, &kinds, &["AcceptEnv GIT_PROTOCOL"]).unwrap();
        let repository = TestRepository::create(sshd.folder(), REPOSITORY).unwrap();
        repository.commit("main", program).unwrap();
        let key = KeyPair::generate(&["-t", "ed25519"], passphrase).unwrap();
        sshd.authorize(&key.public).unwrap();
        let user = Sshd::user();
        let address = format!("{user}@{host}:{}", sshd.port());
        Self { sshd, key, address }
    }

    pub(crate) fn url(&self) -> String {
        let folder = self.sshd.folder().display();
        format!("ssh://{}{folder}/{REPOSITORY}", self.address)
    }

    /// A Secret with the user's credentials, in the format of `gitAuthSecret`.
    pub(crate) fn secret(&self, name: &str, passphrase: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "stringData": {
                "sshPrivateKey": self.key.private, "password": passphrase,
                "known_hosts": self.sshd.known_hosts(),
            },
        })
    }
}
